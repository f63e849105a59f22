"""Whether the ranges in which waiting pods start are right: ``deviceshare lab study trace --start-times``."""

from collections.abc import Sequence
from math import inf
from statistics import fmean, median
from typing import Any, NamedTuple

from deviceshare_cli.output import table
from deviceshare_metrics.core.start_estimates import INTERVAL, MARGIN, StartEstimates, StartRange

from deviceshare_lab.studies.trace.churn import ArrivalPlan, Churn
from deviceshare_lab.traces import Trace

_EVERY = 120
"""Seconds between two questions about a waiting pod."""


class _Question(NamedTuple):
    at: int
    arrival: int
    expected: StartRange | str


class StartTimesResult(NamedTuple):
    """``asked``: questions about waiting pods; ``unanswered``: without a range; ``open``: not known at the end.

    ``right``: the share of the other ranges that are right; ``ratio``: median of latest to earliest.
    """

    workload: str
    policy: str
    seed: int
    asked: int
    unanswered: int
    open: int
    right: float
    ratio: float


def run_start_times(trace: Trace, planned: ArrivalPlan, policy: str, seed: int) -> StartTimesResult:
    """Run a policy, and ask all the time after the warm-up when one of the waiting pods starts."""
    run = _Asked(trace, planned, policy, seed)
    run.run()
    right, ratios = [], []
    unanswered = undecided = 0
    for at, arrival, expected in run.questions:
        if isinstance(expected, str):
            unanswered += 1
            continue
        ratios.append((expected.latest + MARGIN) / (expected.earliest + MARGIN))
        waited = run.started.get(arrival, inf) - at
        if waited == inf and planned.until - at <= expected.latest:
            undecided += 1
        else:
            right.append(expected.earliest <= waited <= expected.latest)
    return StartTimesResult(
        trace.workload, policy, seed, len(run.questions), unanswered, undecided, fmean(right) if right else 0.0,
        median(ratios) if ratios else 0.0,
    )  # fmt: skip


class _Asked(Churn):
    """A run with the estimates of the metrics service; kinds are pods with equal requests of cards."""

    def __init__(self, trace: Trace, planned: ArrivalPlan, policy: str, seed: int) -> None:
        super().__init__(trace, planned, policy, seed)
        self._estimates = StartEstimates()
        self._open: dict[int, None] = {}
        self._clock = 0
        self.questions: list[_Question] = []
        self.started: dict[int, int] = {}

    def _arrive(self, arrival: int, now: int) -> None:
        self._ask_until(now)
        before = self.waiting.count
        super()._arrive(arrival, now)
        if self.waiting.count > before:
            pod = self._pods[self._arriving[arrival]]
            self._open[arrival] = None
            self._estimates.wait(str(arrival), "", (pod.cards, pod.amount), now)

    def _start(self, arrival: int, now: int) -> None:
        super()._start(arrival, now)
        if arrival in self._open:
            del self._open[arrival]
            self.started[arrival] = now
            self._estimates.end(str(arrival), now, started=True)

    def _end_until(self, now: int) -> None:
        while self._ending and self._ending[0][0] <= now:
            at = self._ending[0][0]
            self._ask_until(at)
            super()._end_until(at)

    def _ask_until(self, now: int) -> None:
        while self._clock + _EVERY <= now:
            self._clock += _EVERY
            if self._clock % int(INTERVAL) == 0:
                self._estimates.probe(self._clock)
            if self._open and self._clock >= self._plan.warm:
                waiting = list(self._open)
                arrival = waiting[self._clock // _EVERY * 7919 % len(waiting)]
                expected = self._estimates.expected(str(arrival), "", self._clock)
                self.questions.append(_Question(self._clock, arrival, expected))


def as_json(results: Sequence[StartTimesResult]) -> dict[str, Any]:
    """Return the results as the value of ``--json``."""
    return {"runs": [each._asdict() for each in results]}


def as_text(results: Sequence[StartTimesResult]) -> str:
    """Return a table with a line for each run."""
    head = ("WORKLOAD", "POLICY", "SEED", "ASKED", "NO RANGE", "NOT KNOWN", "RIGHT", "LATEST/EARLIEST")
    rows = [
        (
            *(
                each.workload,
                each.policy,
                str(each.seed),
                str(each.asked),
                f"{each.unanswered / max(each.asked, 1):.0%}",
            ),
            *(str(each.open), f"{each.right:.1%}", f"{each.ratio:.1f}"),
        )
        for each in results
    ]
    return f"Ranges in which waiting pods start, of which 80% have to be right:\n{table(head, rows)}"
