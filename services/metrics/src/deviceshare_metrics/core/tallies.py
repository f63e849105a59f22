"""Values that only grow: steps, the services' counters, undecodable messages, how long pods waited to be bound."""

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TypeVar

from deviceshare_bus.messages import Events

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""Upper bounds in seconds: from one message to a queue that is full for hours."""
MOST_SERIES = 1000
"""Series per counter. Further ones are added up under :data:`OTHER`."""
OTHER = "other"
_OTHERS = (OTHER, OTHER)
K = TypeVar("K")


class Histogram:
    """Counts durations (seconds) by bucket."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, how many were at most that) as Prometheus wants them, the last bound ``+Inf``."""
        bounds = [*map(str, BUCKETS), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))


class Tallies:
    """The counters: what happened since the start of this process. Prometheus handles the restart at 0."""

    def __init__(self) -> None:
        self.steps: Counter[tuple[str, str]] = Counter()
        """By service and step."""
        self.counters: Counter[tuple[str, str]] = Counter()
        """By service and name."""
        self.undecodable: Counter[str] = Counter()
        """Messages by stream."""
        self.seen_to_bound = Histogram()

    def add(self, events: Events) -> None:
        """Count the steps and add the counters of a message; undecodable messages are counted by the core."""
        for step in events.steps:
            _increment(self.steps, (events.service, step.name), 1, _OTHERS)
        for name, amount in events.counters.items():
            _increment(self.counters, (events.service, name), amount, _OTHERS)

    def add_undecodable(self, stream: str) -> None:
        """Count an undecodable message."""
        _increment(self.undecodable, stream, 1, OTHER)


def _increment(counter: Counter[K], key: K, amount: int, other: K) -> None:
    counter[key if key in counter or len(counter) < MOST_SERIES else other] += amount
