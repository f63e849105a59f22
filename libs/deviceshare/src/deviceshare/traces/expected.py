"""The pods that are expected: those that arrived, the recent ones with more weight."""

import numpy as np

from deviceshare.kernels import CARD, Arrivals, Typical, TypicalPod
from deviceshare.traces.nodes import TraceNodes, TracePods

_Request = tuple[int, int, int, bytes]
"""CPU, amount of each card, number of cards, accepted models."""


class ExpectedPods:
    """Counts the arrivals on ``nodes`` by request, memory aside; pods without cards are ignored.

    Before the first arrivals pods of one whole card are expected, with the CPU that the nodes have for each card.
    """

    def __init__(self, nodes: TraceNodes) -> None:
        cpu = int(np.sum(nodes.cpu)) // max(int(np.sum(nodes.cards)), 1)
        models = int(np.max(nodes.models, initial=0)) + 1
        self._arrivals: Arrivals[_Request] = Arrivals()
        self.first = _typical(self._arrivals.expect((cpu, CARD, 1, b"\1" * models)))
        """What is expected before the first update."""

    def count(self, pods: TracePods) -> bool:
        """Count an arrival; return whether :meth:`typical` is due."""
        request = (pods.cpu, pods.amount, pods.count, bytes(pods.allowed)) if pods.count else None
        return self._arrivals.count(request)

    def typical(self) -> Typical | None:
        """Return the expected pods, None if they are nearly those that were returned last; give them less weight."""
        frequent = self._arrivals.frequent(lambda request: request)
        if frequent is None:
            return None
        return _typical(frequent)


def _typical(frequent: list[tuple[_Request, float]]) -> Typical:
    total = sum(weight for _, weight in frequent)
    return Typical(
        [
            TypicalPod(weight / total, cpu, amount, cards, np.frombuffer(allowed, dtype=np.uint8))
            for (cpu, amount, cards, allowed), weight in frequent
        ]
    )
