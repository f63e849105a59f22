"""How long messages are collected before they are handled together. Pure.

Handling costs a fixed amount per round, besides that per message. At a low rate a longer wait gains nothing: there is
one message in a round anyway. At a high rate it saves most of the rounds.
"""

from math import exp

LONGEST = 0.024
"""Seconds between two rounds under load."""
FULL_RATE = 6000.0
"""Messages per second from which on the window is :data:`LONGEST`. Below, it grows with the rate: rounds of single
messages are then at most 500 a second."""
MEMORY = 0.1
"""Seconds over which the rate is measured."""


class Window:
    """The window of one source of messages: about 0 when it is idle, and longer the more messages arrive."""

    def __init__(self) -> None:
        self._recent = 0.0
        """Messages, each of which counts less the older it is."""
        self._at = 0.0

    def after(self, now: float, count: int) -> float:
        """Return for how many seconds to collect messages after a round with ``count`` of them at ``now`` (seconds)."""
        self._recent = self._recent * exp((self._at - now) / MEMORY) + count
        self._at = now
        return LONGEST * min(1.0, self._recent / MEMORY / FULL_RATE)
