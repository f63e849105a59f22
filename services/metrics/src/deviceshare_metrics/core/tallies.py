"""Values that only grow: steps, the services' counters, undecodable messages, how long pods waited to be bound."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

from deviceshare.model import Eviction, trace_id
from deviceshare_bus.messages.codec import ATTEMPTS, VICTIMS, Events, VictimLabels, victim_labels

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""Upper bounds in seconds: from one message to a queue that is full for hours."""
MAX_SERIES = 1000
"""Series per counter. Further ones are added up under :data:`OTHER`."""
OTHER = "other"
_OTHERS = (OTHER, OTHER)
K = TypeVar("K")


class Histogram:
    """Counts durations (seconds) by bucket."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0
        self.exemplars: list[tuple[str, float, float] | None] = [None] * (len(BUCKETS) + 1)
        """The latest pod of each bucket that was given with one: trace id, seconds, and unix time."""

    def observe(self, seconds: float) -> int:
        """Count one duration; return its bucket."""
        bucket = bisect_left(BUCKETS, seconds)
        self._counts[bucket] += 1
        self.sum += seconds
        return bucket

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
        self.victims: Counter[VictimLabels] = Counter()
        """Evicted pods."""
        self.undecodable: Counter[str] = Counter()
        """Messages by stream."""
        self.seen_to_bound, self.nominated_to_bound = Histogram(), Histogram()
        self.sampled: Callable[[str], bool] = _no_traces
        """Whether the trace of a pod (uid) is exported."""

    def add(self, events: Events) -> None:
        """Count the steps and add the counters of a message; undecodable messages are counted by the core."""
        for step in events.steps:
            _increment(self.steps, (events.service, step.name), 1, _OTHERS)
        for name, amount in events.counters.items():
            if name.startswith(VICTIMS):
                self._count_victims(name.removeprefix(VICTIMS).split("\n"), amount)
            else:
                _increment(self.counters, (events.service, name), amount, _OTHERS)

    def chosen(self, eviction: Eviction) -> None:
        """Note that a pod has to go: its counter exists before it is evicted, so that its first increment is seen."""
        self._count_victims(victim_labels(eviction), 0)

    def _count_victims(self, labels: Sequence[str], amount: int) -> None:
        if len(labels) <= len(VictimLabels._fields):
            found = VictimLabels(*labels)
            _increment(self.victims, found, amount, VictimLabels(found.action, OTHER, OTHER, OTHER))

    @property
    def attempts(self) -> Counter[str]:
        """Attempts to place pods by result."""
        return self.labelled(ATTEMPTS)

    def labelled(self, prefix: str) -> Counter[str]:
        """Return the counters whose names have a prefix, by the rest of the name."""
        found: Counter[str] = Counter()
        for (_, name), count in self.counters.items():
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] += count
        return found

    def bound(self, uid: str, seconds: float, at: float) -> None:
        """Count a pod that was bound ``at`` (unix seconds) after it had waited for so long."""
        bucket = self.seen_to_bound.observe(seconds)
        if self.sampled(uid):
            self.seen_to_bound.exemplars[bucket] = (trace_id(uid), seconds, at)

    def add_undecodable(self, stream: str) -> None:
        """Count an undecodable message."""
        _increment(self.undecodable, stream, 1, OTHER)


def _no_traces(_: str) -> bool:
    return False


def _increment(counter: Counter[K], key: K, amount: int, other: K) -> None:
    counter[key if key in counter or len(counter) < MAX_SERIES else other] += amount
