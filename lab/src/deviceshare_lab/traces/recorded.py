"""When the pods of a trace arrive by their recorded times, and for how long they run, scaled to a load.

The recorded trace is started again and again, on average once in each *cycle*: like a company that is as many times as
large. Times between the pods of one copy, and lifetimes, remain as recorded. If a trace had ``area`` card-seconds in
all pods, a cycle of ``area / (load * cards)`` seconds has this load in the time average.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from deviceshare.kernels.arrays import Ints

from deviceshare_lab.traces.trace import Trace, TracePod

LONGEST = 10**10
"""Seconds: no pod was created later, or ran longer."""


class Schedule(NamedTuple):
    """Arrivals in their order: ``pods`` (indices in the trace), ``times`` and ``seconds`` (to run), int64[arrivals].

    Pods that would already run at time 0 arrive then, in the order in which they were created, with the rest of their
    lifetimes. ``cycle``: the mean time between the copies of the trace. ``past`` int64[pods]: the pods that arrived in
    the cycles before time 0, and ended before it.
    """

    pods: Ints
    times: Ints
    seconds: Ints
    cycle: float
    past: Ints


def lifetime(pod: TracePod) -> int:
    """Return how long a pod runs, at least a second."""
    return max(pod.deleted - pod.created, 1)


def with_times(trace: Trace, recorded: Trace) -> Trace:
    """Return the trace with the times of pods of the same name in ``recorded`` for pods that have none.

    The others get those of recorded pods with the same number of cards in turn, or of any if there is none. Raises
    ValueError if no pod has times.
    """
    known = {pod.name: pod for pod in recorded.pods if pod.deleted}
    if not known:
        raise ValueError("no pod has times")
    by_cards: defaultdict[int, list[TracePod]] = defaultdict(list)
    for pod in known.values():
        by_cards[pod.cards].append(pod)
    turns: defaultdict[int, count[int]] = defaultdict(count)
    found = []
    for pod in trace.pods:
        if not pod.deleted:
            like = by_cards.get(pod.cards) or list(known.values())
            source = known.get(pod.name) or like[next(turns[pod.cards]) % len(like)]
            pod = pod._replace(created=source.created, deleted=source.deleted)
        found.append(pod)
    return trace._replace(pods=tuple(found))


def cycle_seconds(trace: Trace, load: float) -> float:
    """Return the mean time between copies of a trace at a load; 0 if its pods request no cards."""
    return sum(pod.milli * lifetime(pod) for pod in trace.pods) / (load * trace.milli)


def arrivals_until(trace: Trace, cycle: float, until: float) -> float:
    """Return how many pods arrive, on average."""
    return sum((lifetime(pod) + until) / cycle for pod in trace.pods)


def schedule(trace: Trace, cycle: float, since: int, until: int, draw: Callable[[int], int]) -> Schedule:
    """Return the arrivals before a time, and the past ones from ``since``, which is before time 0.

    The copies start once in each cycle, at times that ``draw`` chooses: it returns a whole number below its argument.
    """
    created = np.array([pod.created for pod in trace.pods], dtype=np.int64)
    seconds = np.array([lifetime(pod) for pod in trace.pods], dtype=np.int64)
    # The first copy whose last pod may still run at time 0, or arrives late enough for the past, and the last one whose
    # first pod arrives in time.
    first = floor(min(-int(np.max(created + seconds)), since - int(np.max(created))) / cycle) - 1
    last = ceil((until - int(np.min(created))) / cycle)
    width = max(round(cycle), 1)
    parts: list[Sequence[Ints]] = []
    for copy in range(first, last + 1):
        times = floor(copy * cycle) + draw(width) + created
        pods = np.flatnonzero((times < until) & ((times + seconds > 0) | (times >= since)))
        parts.append((times[pods], np.full(len(pods), copy, dtype=np.int64), pods))
    times, copies, pods = (np.concatenate([part[at] for part in parts]) for at in range(3))
    order = np.lexsort((pods, copies, times))
    times, pods = times[order], pods[order]
    past = pods[(times >= since) & (times + seconds[pods] <= 0)]
    left = seconds[pods] + np.minimum(times, 0)
    runs = left > 0
    return Schedule(pods[runs], np.maximum(times, 0)[runs], left[runs], cycle, past)
