"""Exponential back-off: the pause before each retry."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that grow from ``first`` to ``most`` seconds by ``factor``.

    An instance holds no state (the caller counts the failures), and any number of callers may use it.

    Raises:
        ValueError: ``0 < first <= most`` or ``factor > 1`` does not hold.
    """

    first: float
    most: float
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.most < math.inf and 1 < self.factor < math.inf):
            raise ValueError(f"a back-off needs 0 < first <= most and factor > 1, not {self}")

    def delay(self, attempt: int, jitter: float = 0.0) -> float:
        """Return the seconds to wait after a failure.

        Args:
            attempt: failures before this one, 0 or more; a number of any size is valid.
            jitter: share of the pause that is added, usually a random number below 1.
        """
        # A larger exponent gives the same pause, and the power overflows at 2**1024.
        steps = math.ceil(math.log(self.most / self.first, self.factor))
        return min(self.most, self.first * self.factor ** min(attempt, steps)) * (1 + jitter)


REFUSED_RETRY = Backoff(1.0, 60.0)
"""Pauses before a server gets again what it refused for good: an operator may grant permissions or raise limits, and an
API server that has just started refuses requests until it has read its roles."""
