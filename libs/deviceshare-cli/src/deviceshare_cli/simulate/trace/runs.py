"""What a policy places pods in: one run."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from deviceshare.traces import Trace


class Placer(Protocol):
    """One run of a policy: pods are placed one after the other, and stay."""

    def place(self, pod: int) -> bool:
        """Place the pod with this index in the trace; return whether a node was feasible."""
        ...


class Run(NamedTuple):
    """What a policy is made of: the trace, the ranks of the nodes, and the seed of random choices."""

    trace: Trace
    ranks: Sequence[int]
    seed: int
