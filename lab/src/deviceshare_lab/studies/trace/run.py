"""One run: the pods of a trace arrive one by one, and each is placed at once or fails."""

import time
from collections import Counter
from typing import NamedTuple

from deviceshare_lab.studies.trace.arrivals import Arrivals
from deviceshare_lab.studies.trace.policies import POLICIES
from deviceshare_lab.studies.trace.runs import Run
from deviceshare_lab.traces import CARD, Trace

STEP = 10
"""Percent between the loads that are reported."""


class Result(NamedTuple):
    """The result of a run.

    ``allocated``: percent of all cards that are allocated when pods that request this percentage have arrived, the mean
    over these arrivals; by percentage. ``failed``: arrivals without a feasible node. ``pods_per_second``: per second of
    CPU. ``arrived`` and ``placed``: pods by number of cards (0.5: a share). ``curve``: allocated by arrived percent.
    """

    workload: str
    policy: str
    seed: int
    allocated: dict[int, float]
    failed: int
    pods_per_second: float
    arrived: Counter[float]
    placed: Counter[float]
    curve: list[tuple[int, float]]


def run(trace: Trace, arrivals: Arrivals, load: float, policy: str, seed: int) -> Result:
    """Run a policy. Times the placements alone."""
    placer = POLICIES[policy](Run(trace, arrivals.ranks, seed))
    # Seconds of CPU: runs on other cores, and other processes, do not matter.
    began = time.process_time()
    placed = [placer.place(pod) for pod in arrivals.pods]
    seconds = max(time.process_time() - began, 1e-9)
    capacity = trace.milli
    sums: Counter[int] = Counter()
    events: Counter[int] = Counter()
    requested = used = 0
    kinds: tuple[Counter[float], Counter[float]] = Counter(), Counter()
    for at, done in zip(arrivals.pods, placed, strict=True):
        pod = trace.pods[at]
        requested += pod.milli
        used += pod.milli * done
        percent = round(requested / capacity * 100)
        # In hundredths of a percent, so that sums are exact.
        sums[percent] += round(round(used / capacity * 100, 2) * 100)
        events[percent] += 1
        kind = 0.5 if pod.amount < CARD and pod.cards else float(pod.cards)
        kinds[0][kind] += 1
        kinds[1][kind] += done
    return Result(
        trace.workload,
        policy,
        seed,
        {percent: _mean(sums, events, percent) for percent in reported(load)},
        placed.count(False),
        len(placed) / seconds,
        *kinds,
        [(percent, sums[percent] / events[percent] / 100) for percent in sorted(events)],
    )


def reported(load: float) -> list[int]:
    """Return the percentages that are reported for a load: 100, 110 and so on, or the load if it is less."""
    last = round(load * 100)
    return [*range(100, last, STEP), last] if last >= 100 else [last]


def _mean(sums: Counter[int], events: Counter[int], percent: int) -> float:
    """Return the mean over the arrivals at a percentage, else over those within one percent, else the value before."""
    near = [percent] if events[percent] else [each for each in (percent - 1, percent + 1) if events[each]]
    near = near or [max((each for each in events if each < percent), default=percent)]
    count = sum(events[each] for each in near)
    return round(sum(sums[each] for each in near) / count / 100, 2) if count else 0.0
