"""Placement: decides which node and which devices each pod gets, or reports why none.

:mod:`deviceshare_placement.core` is a pure state machine, :mod:`deviceshare_placement.service` connects it to the bus.
"""
