"""What a policy places pods in: one run."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from deviceshare_lab.traces import Trace, TraceNodes


class Placer(Protocol):
    """One run of a policy: pods are placed one after the other."""

    nodes: TraceNodes
    """What is free; ``row`` and ``taken`` are where the last pod was placed."""

    def place(self, pod: int) -> bool:
        """Place an arriving pod, the one with this index in the trace; return whether a node was feasible."""
        ...

    def retry(self, pod: int) -> bool:
        """Place a pod that arrived before."""
        ...

    def release(self, pod: int, placed: int, row: int, taken: int) -> None:
        """Remove a pod from where it was placed; ``placed`` is the number of this placement, of the first one 1."""
        ...


class Run(NamedTuple):
    """What a policy is made of: the trace, the ranks of the nodes, and the seed of random choices.

    ``past``: pods that arrived and ended before the run, by index in the trace; the policy ``fragmentation`` has
    counted them.
    """

    trace: Trace
    ranks: Sequence[int]
    seed: int
    past: Sequence[int] = ()
