"""Work that is limited to a rate on average, since it is done again and again and changes nothing."""


class WorkRate:
    """Allows ``rate`` units of work a second, and ``burst`` of them at once. Times are monotonic seconds."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst / rate
        self._done_at = 0.0
        """When the work that was done would be done at this rate."""

    def spend(self, work: float, now: float) -> None:
        """Note that so much work was done, though it may have been more than was allowed."""
        self._done_at = max(self._done_at, now) + work / self._rate

    @property
    def allows_at(self) -> float:
        """From when on more work is allowed; a time that is over: now."""
        return self._done_at - self._burst
