"""Constants of several modules."""

CARD = 1000
"""A whole card: cards are counted in thousandths."""
