"""One run with departures: pods arrive by recorded times, wait while they do not fit, and end after their lifetimes.

The discipline is first come, first served with skipping: an arriving pod is tried at once; whenever a pod ends, all
waiting pods are tried in the order of their arrival. Of what happens in the same second, pods end first.
"""

import random
import time
from heapq import heappop, heappush
from typing import NamedTuple

from deviceshare_cli.errors import CommandError

from deviceshare_lab.studies.trace.meter import Capacity, Meter, Waits
from deviceshare_lab.studies.trace.policies import POLICIES
from deviceshare_lab.studies.trace.runs import Run
from deviceshare_lab.traces import (
    CARD,
    Schedule,
    Trace,
    TracePod,
    WaitingPods,
    arrivals_until,
    cycle_seconds,
    pod_classes,
    schedule,
    trace_nodes,
)

PAST, WARM_UP, MEASURED = 4, 4, 8
"""Cycles before time 0 whose arrivals a policy has seen, cycles before the measurement, and cycles of it."""
_SAMPLES = 10
"""Samples in a cycle."""
_MAX_PODS = 5_000_000
_MAX_COPIES = 100_000


class ArrivalPlan(NamedTuple):
    """What all policies see: the arrivals, the rank of each node, and the seconds of a sample."""

    schedule: Schedule
    ranks: tuple[int, ...]
    sample: int

    @property
    def warm(self) -> int:
        """When the measurement begins, in seconds."""
        return WARM_UP * _SAMPLES * self.sample

    @property
    def until(self) -> int:
        """When the run ends."""
        return (WARM_UP + MEASURED) * _SAMPLES * self.sample


class ChurnResult(NamedTuple):
    """The result of a run. ``capacity``: after the warm-up; ``curve``: for each sample its hour and the capacity.

    ``waits``: waiting seconds of the pods that arrived after the warm-up, by number of cards (0.5: a share).
    ``waiting``: the pods that wait at the end. ``impossible``: arrivals that fit on no empty node; they do not wait.
    ``pods_per_second``: arrivals per second of CPU.
    """

    workload: str
    policy: str
    seed: int
    capacity: Capacity
    waits: Waits
    waiting: int
    impossible: int
    arrived: int
    pods_per_second: float
    curve: list[tuple[float, Capacity]]


def plan_arrivals(trace: Trace, load: float, seed: int) -> ArrivalPlan:
    """Draw when pods arrive, for a load, from a seed. Raises CommandError for a load that needs too many pods."""
    cycle = cycle_seconds(trace, load)
    if cycle <= 0:
        raise CommandError(f"workload {trace.workload}: no pod requests cards: must have some for --churn")
    sample = max(round(cycle / _SAMPLES), 1)
    until = (WARM_UP + MEASURED) * _SAMPLES * sample
    longest = max(pod.deleted for pod in trace.pods) - min(pod.created for pod in trace.pods)
    pods, copies = arrivals_until(trace, cycle, until), (longest + until) / cycle
    if pods > _MAX_PODS or copies > _MAX_COPIES:
        raise CommandError(
            f"--load: {load}: takes {pods:,.0f} pods of {copies:,.0f} copies of workload {trace.workload}: "
            f"must be less, for at most {_MAX_PODS:,} pods of {_MAX_COPIES:,} copies"
        )
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    ranks = list(range(len(trace.nodes)))
    chance.shuffle(ranks)
    since = -PAST * _SAMPLES * sample
    return ArrivalPlan(schedule(trace, cycle, since, until, chance.randrange), tuple(ranks), sample)


def run_churn(trace: Trace, planned: ArrivalPlan, policy: str, seed: int) -> ChurnResult:
    """Run a policy. Times the run without what came before."""
    simulation = Churn(trace, planned, policy, seed)
    # Seconds of CPU: runs on other cores, and other processes, do not matter.
    began = time.process_time()
    simulation.run()
    seconds = max(time.process_time() - began, 1e-9)
    meter = simulation.meter
    return ChurnResult(
        trace.workload,
        policy,
        seed,
        meter.total(WARM_UP * _SAMPLES),
        simulation.waits,
        simulation.waiting.count,
        simulation.impossible,
        len(planned.schedule.pods),
        len(planned.schedule.pods) / seconds,
        [((at + 0.5) * planned.sample / 3600, meter.total(at, at + 1)) for at in range(len(meter.samples))],
    )


class Churn:
    """A run. ``placed`` are arrivals (their numbers) that were placed, in this order."""

    def __init__(self, trace: Trace, planned: ArrivalPlan, policy: str, seed: int) -> None:
        self._plan = planned
        self._pods = trace.pods
        classes = pod_classes(trace)
        known = {id(each): number for number, each in enumerate(dict.fromkeys(classes))}
        self._class_of = [known[id(each)] for each in classes]
        distinct = list(dict.fromkeys(classes))
        empty = trace_nodes(trace, planned.ranks)
        self._possible = [any(empty.fits(each, row) for row in range(empty.rows)) for each in distinct]
        past = [pod for pod in planned.schedule.past.tolist() if self._possible[self._class_of[pod]]]
        self._placer = POLICIES[policy](Run(trace, planned.ranks, seed, past))
        self.nodes = self._placer.nodes
        self._arriving = planned.schedule.pods.tolist()
        self._times = planned.schedule.times.tolist()
        self._seconds = planned.schedule.seconds.tolist()
        self._ending: list[tuple[int, int, int, int, int]] = []
        """When a pod ends, the number of its placement, its arrival, row and cards."""
        self.waiting = WaitingPods(self.nodes, distinct)
        self.meter = Meter(trace.milli, planned.sample, planned.until)
        self.waits = Waits()
        self.placed: list[int] = []
        self.impossible = 0

    def run(self) -> None:
        """Run until the end of the plan."""
        for arrival, now in enumerate(self._times):
            self._end_until(now)
            self._arrive(arrival, now)
        self._end_until(self._plan.until - 1)
        self.meter.advance(self._plan.until)
        self._count_waiting()

    def finish(self) -> None:
        """End all pods that run, and let those that wait run after them."""
        while self._ending:
            self._end_until(self._ending[0][0])

    def _arrive(self, arrival: int, now: int) -> None:
        pod = self._arriving[arrival]
        kind = self._class_of[pod]
        if not self._possible[kind]:
            self.impossible += 1
        elif self._placer.place(pod):
            self._start(arrival, now)
            self._count_wait(arrival, now)
        else:
            self.waiting.add(kind, arrival)
            self.meter.advance(now)
            self.meter.demand += self._pods[pod].milli

    def _start(self, arrival: int, now: int) -> None:
        self.placed.append(arrival)
        entry = (now + self._seconds[arrival], len(self.placed), arrival, self.nodes.row, self.nodes.taken)
        heappush(self._ending, entry)
        self.meter.advance(now)
        self.meter.used += self._pods[self._arriving[arrival]].milli

    def _end_until(self, now: int) -> None:
        """Let pods end, and after each of them place those that wait."""
        while self._ending and self._ending[0][0] <= now:
            at, number, arrival, row, taken = heappop(self._ending)
            pod = self._arriving[arrival]
            self._placer.release(pod, number, row, taken)
            self.meter.advance(at)
            self.meter.used -= self._pods[pod].milli
            if self.waiting.count:
                self._retry(row, at)

    def _retry(self, row: int, now: int) -> None:
        """Place waiting pods on the only row that has more room."""
        self.waiting.begin()
        while (kind := self.waiting.next_fitting(row)) >= 0:
            arrival = self.waiting.remove(kind)
            pod = self._arriving[arrival]
            if not self._placer.retry(pod):
                raise AssertionError(f"pod {self._pods[pod].name} fits on row {row}, and was not placed")
            self.meter.advance(now)
            self.meter.demand -= self._pods[pod].milli
            self._start(arrival, now)
            self._count_wait(arrival, now)

    def _count_wait(self, arrival: int, now: int) -> None:
        if self._plan.warm <= self._times[arrival] and now < self._plan.until:
            self.waits.add(card_count(self._pods[self._arriving[arrival]]), now - self._times[arrival])

    def _count_waiting(self) -> None:
        """Count what still waits with the time until the end."""
        for queue in self.waiting.queues:
            for arrival in queue:
                if self._plan.warm <= self._times[arrival]:
                    cards = card_count(self._pods[self._arriving[arrival]])
                    self.waits.add(cards, self._plan.until - self._times[arrival])


def card_count(pod: TracePod) -> float:
    """Return the number of cards of a pod, 0.5 for a share."""
    return 0.5 if pod.amount < CARD and pod.cards else float(pod.cards)
