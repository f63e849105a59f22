"""How many of some pods may be evicted together."""

import msgspec

from deviceshare.model.bounded import Amount


class DisruptionLimit(msgspec.Struct, frozen=True, array_like=True):
    """A number of pods that stay, or else of pods that may be missing; ``percent``: hundredths of all, rounded up.

    Sources: Kubernetes pkg/controller/disruption (getExpectedPodCount), Volcano pkg/scheduler/plugins/tdm
    (getMaxPodEvictNum).
    """

    min_available: Amount | None = None
    max_unavailable: Amount | None = None
    percent: bool = False

    def allowed(self, expected: int, healthy: int) -> int:
        """Return how many pods may be evicted if so many of the ``expected`` ones run."""
        limited = self.min_available is not None or self.max_unavailable is not None
        return max(0, healthy - self.desired(expected)) if limited else 0

    def desired(self, expected: int) -> int:
        """Return how many of the ``expected`` pods have to stay; 0 without a limit."""
        if self.min_available is not None:
            return self._number(self.min_available, expected)
        if self.max_unavailable is not None:
            return max(0, expected - self._number(self.max_unavailable, expected))
        return 0

    def _number(self, value: int, expected: int) -> int:
        return -(-value * expected // 100) if self.percent else value


NO_DISRUPTION = DisruptionLimit()
"""No pod may be evicted."""
