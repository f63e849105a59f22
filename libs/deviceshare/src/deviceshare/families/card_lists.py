"""Comma-separated lists of cards by index or id: ``0,GPU-03f6…``."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from deviceshare.families.numbers import whole
from deviceshare.model import Card


def items(text: str | None) -> tuple[str, ...]:
    """Split a comma-separated list; strips blanks and drops empty items."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def indexes_among(named: Iterable[str]) -> frozenset[int]:
    """Return the indexes among indexes and ids."""
    return frozenset(number for item in named if (number := whole(item)) is not None)


def mark_unhealthy(cards: Sequence[Card], text: str) -> tuple[Card, ...]:
    """Return the cards with ``healthy`` set to false for the listed cards."""
    named = items(text)
    indexes = indexes_among(named)
    return tuple(replace(card, healthy=False) if card.id in named or card.index in indexes else card for card in cards)


def unknown_items(cards: Iterable[Card], text: str) -> list[str]:
    """Return the list items that match none of the cards."""
    ids, indexes = set(), set()
    for card in cards:
        ids.add(card.id)
        indexes.add(card.index)
    return [item for item in items(text) if item not in ids and whole(item) not in indexes]
