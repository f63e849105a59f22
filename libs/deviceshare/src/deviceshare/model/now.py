"""The time at which something happens: an argument of everything that depends on it."""

from typing import NamedTuple


class Now(NamedTuple):
    """The time of an event on two clocks, both in seconds.

    ``monotonic`` is for pauses, grace periods and timeouts; ``wall`` (unix time) is for timestamps only.
    """

    monotonic: float
    wall: float
