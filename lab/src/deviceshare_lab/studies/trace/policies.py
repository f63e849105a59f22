"""The policies of ``deviceshare lab study trace``, by name."""

import random
from collections.abc import Callable

import numpy as np

from deviceshare_lab.studies.trace.product import AllocatorPlacer
from deviceshare_lab.studies.trace.runs import Placer, Run
from deviceshare_lab.traces import (
    AnyNode,
    BestFit,
    DotProd,
    ExpectedPods,
    Fgd,
    Fragmentation,
    GpuClustering,
    GpuPacking,
    Trace,
    TraceNodes,
    TracePolicy,
    Typical,
    pod_classes,
    trace_nodes,
    typical_pods,
)


class _Scored:
    """A policy that scores nodes."""

    def __init__(self, trace: Trace, policy: TracePolicy) -> None:
        self.nodes = policy.nodes
        self._classes = pod_classes(trace)
        self._policy = policy

    def place(self, pod: int) -> bool:
        return self._policy.place(self._classes[pod]) >= 0

    def retry(self, pod: int) -> bool:
        return self._policy.place(self._classes[pod]) >= 0

    def release(self, pod: int, placed: int, row: int, taken: int) -> None:
        self.nodes.release(self._classes[pod], row, taken)


class _Learning(_Scored):
    """The policy ``fragmentation``, which learns the expected pods from the arrivals."""

    def __init__(self, run: Run) -> None:
        nodes = trace_nodes(run.trace, run.ranks)
        self._expected = ExpectedPods(nodes)
        self._fragmentation = Fragmentation(nodes, self._expected.first)
        super().__init__(run.trace, self._fragmentation)
        for pod in run.past:
            self._count(pod)

    def place(self, pod: int) -> bool:
        self._count(pod)
        return self.retry(pod)

    def _count(self, pod: int) -> None:
        if self._expected.count(self._classes[pod]) and (typical := self._expected.typical()) is not None:
            self._fragmentation.expect(typical)


class _Random(_Scored):
    """A random feasible node; a random card with room for a share."""

    def __init__(self, trace: Trace, nodes: TraceNodes, seed: int) -> None:
        super().__init__(trace, AnyNode(nodes))
        self._chance = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def place(self, pod: int) -> bool:
        return self.retry(pod)

    def retry(self, pod: int) -> bool:
        pods = self._classes[pod]
        self._policy.refresh(pods)
        rows = np.flatnonzero(np.asarray(pods.scores) == 0.0)
        if not len(rows):
            return False
        row = self._chance.choice(rows)
        column = -1
        if pods.count:
            column = self._chance.choice(np.flatnonzero(np.asarray(self.nodes.free[row]) >= pods.amount))
        self.nodes.take(pods, row, column)
        return True


def _scored(policy: Callable[[TraceNodes], TracePolicy]) -> Callable[[Run], Placer]:
    return lambda run: _Scored(run.trace, policy(trace_nodes(run.trace, run.ranks)))


def _fgd(run: Run) -> Placer:
    typical = Typical(typical_pods(run.trace.pods, run.trace.models))
    return _Scored(run.trace, Fgd(trace_nodes(run.trace, run.ranks), typical))


POLICIES: dict[str, Callable[[Run], Placer]] = {
    "fragmentation": _Learning,
    "fgd": _fgd,
    "binpack": lambda run: AllocatorPlacer(run, "binpack"),
    "spread": lambda run: AllocatorPlacer(run, "spread"),
    "bestfit": _scored(BestFit),
    "dotprod": _scored(DotProd),
    "gpupacking": _scored(GpuPacking),
    "gpuclustering": _scored(GpuClustering),
    "random": lambda run: _Random(run.trace, trace_nodes(run.trace, run.ranks), run.seed),
}
"""How to start a run of each policy."""
