"""The policies of ``deviceshare simulate trace``, by name."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from deviceshare.traces import (
    BestFit,
    DotProd,
    Fgd,
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


class Placer(Protocol):
    """One run of a policy: pods are placed one after the other, and stay."""

    def place(self, pod: int) -> bool:
        """Place the pod with this index in the trace; return whether a node was feasible."""
        ...


class _Scored:
    """A policy that scores nodes."""

    def __init__(self, trace: Trace, policy: TracePolicy) -> None:
        self._classes = pod_classes(trace)
        self._policy = policy

    def place(self, pod: int) -> bool:
        return self._policy.place(self._classes[pod]) >= 0


class _Random:
    """A random feasible node; a random card with room for a share."""

    def __init__(self, trace: Trace, nodes: TraceNodes, seed: int) -> None:
        self._classes = pod_classes(trace)
        self._nodes = nodes
        self._chance = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def place(self, pod: int) -> bool:
        pods, nodes = self._classes[pod], self._nodes
        # Rows are tried at random, which is as good as a choice among the feasible ones, and ends early.
        for row in self._chance.sample(range(nodes.rows), nodes.rows):
            if nodes.fits(pods, row):
                free = np.asarray(nodes.free[row])
                column = self._chance.choice(np.flatnonzero(free >= pods.amount).tolist()) if pods.count else -1
                nodes.take(pods, row, column)
                return True
        return False


class Run(NamedTuple):
    """What a policy is made of: the trace, the ranks of the nodes, and the seed of random choices."""

    trace: Trace
    ranks: Sequence[int]
    seed: int


def _scored(policy: Callable[[TraceNodes], TracePolicy]) -> Callable[[Run], Placer]:
    return lambda run: _Scored(run.trace, policy(trace_nodes(run.trace, run.ranks)))


def _fgd(run: Run) -> Placer:
    typical = Typical(typical_pods(run.trace.pods, run.trace.models))
    return _Scored(run.trace, Fgd(trace_nodes(run.trace, run.ranks), typical))


POLICIES: dict[str, Callable[[Run], Placer]] = {
    "fgd": _fgd,
    "bestfit": _scored(BestFit),
    "dotprod": _scored(DotProd),
    "gpupacking": _scored(GpuPacking),
    "gpuclustering": _scored(GpuClustering),
    "random": lambda run: _Random(run.trace, trace_nodes(run.trace, run.ranks), run.seed),
}
"""How to start a run of each policy."""
