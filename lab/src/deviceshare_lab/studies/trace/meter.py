"""What is measured in a run with departures: used and unusable capacity over time, and waiting times."""

from collections import defaultdict
from statistics import fmean
from typing import NamedTuple

import numpy as np


class Capacity(NamedTuple):
    """Time averages, in percent of all cards.

    ``allocated``; ``unusable``: the smaller one of what is free and what waiting pods request; ``free_while_waiting``:
    what is free while pods with cards wait, else 0.
    """

    allocated: float
    unusable: float
    free_while_waiting: float


class Meter:
    """Integrates capacity over time, exactly. ``used`` and ``demand`` (of waiting pods): thousandths of cards, now.

    Time ends at ``until``, a multiple of ``sample`` seconds.
    """

    def __init__(self, capacity: int, sample: int, until: int) -> None:
        self._capacity, self._sample, self._until = capacity, sample, until
        self._now = 0
        self.used = self.demand = 0
        self.samples = [[0, 0, 0] for _ in range(until // sample)]
        """Sums over each sample in thousandths of cards times seconds: allocated, unusable, free while pods wait."""

    def advance(self, now: int) -> None:
        """Account for the time until now, before ``used`` or ``demand`` change."""
        now = min(now, self._until)
        while self._now < now:
            at = self._now // self._sample
            end = min(now, (at + 1) * self._sample)
            seconds = end - self._now
            free = self._capacity - self.used
            sums = self.samples[at]
            sums[0] += self.used * seconds
            if self.demand:
                sums[1] += min(free, self.demand) * seconds
                sums[2] += free * seconds
            self._now = end

    def total(self, begin: int, end: int | None = None) -> Capacity:
        """Return the averages over samples."""
        chosen = self.samples[begin:end]
        whole = self._capacity * self._sample * len(chosen)
        return Capacity(*(100 * sum(each[at] for each in chosen) / whole for at in range(3)))


class Wait(NamedTuple):
    """Waiting seconds of some pods: their number, the mean, the median and the 99th percentile."""

    pods: int
    mean: float
    p50: float
    p99: float


class Fairness(NamedTuple):
    """How evenly the classes of pods wait.

    ``worst``: the longest mean of a class, relative to the mean of all pods (1 if no pod waits). ``jain``: Jain's index
    of the means of the classes: 1 if all are equal, 1 / classes if only one class waits.
    """

    worst: float
    jain: float


class Waits:
    """Waiting seconds by class of pods: the number of cards, 0.5 for a share."""

    def __init__(self) -> None:
        self._seconds: defaultdict[float, list[int]] = defaultdict(list)

    def add(self, kind: float, seconds: int) -> None:
        """Count a pod."""
        self._seconds[kind].append(seconds)

    def extend(self, other: "Waits") -> None:
        """Count the pods of another run."""
        for kind, seconds in other._seconds.items():
            self._seconds[kind].extend(seconds)

    def by_kind(self) -> dict[float, Wait]:
        """Return the waiting times of each class."""
        return {kind: _wait(seconds) for kind, seconds in sorted(self._seconds.items())}

    def all(self) -> Wait:
        """Return the waiting times of all pods."""
        return _wait([each for seconds in self._seconds.values() for each in seconds])

    def fairness(self) -> Fairness:
        """Return how evenly the classes wait."""
        means = [each.mean for each in self.by_kind().values()]
        mean = self.all().mean
        if not mean:
            return Fairness(1.0, 1.0)
        return Fairness(max(means) / mean, sum(means) ** 2 / (len(means) * sum(each**2 for each in means)))


def _wait(seconds: list[int]) -> Wait:
    if not seconds:
        return Wait(0, 0.0, 0.0, 0.0)
    p50, p99 = np.percentile(seconds, (50, 99), method="inverted_cdf").tolist()
    return Wait(len(seconds), fmean(seconds), float(p50), float(p99))
