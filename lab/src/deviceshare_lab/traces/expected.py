"""The pods that are expected: those that arrived, the recent ones with more weight."""

import numpy as np
from deviceshare.kernels import CARD, Arrivals, Typical, TypicalPod, expected_weight

from deviceshare_lab.traces.nodes import TraceNodes, TracePods

_Request = tuple[int, int, int, bytes]
"""CPU, amount of each card, number of cards, accepted models."""


class ExpectedPods:
    """Counts the arrivals on ``nodes``, which are empty, by request, memory aside; pods without cards are ignored.

    Before the first arrivals pods of one whole card are expected, with the CPU that the nodes have for each card.
    """

    def __init__(self, nodes: TraceNodes) -> None:
        self._cpu, self._cards, self._models = np.array(nodes.cpu), np.array(nodes.cards), np.array(nodes.models)
        self._all = int(np.sum(self._cards))
        self._supplies: dict[_Request, float] = {}
        """The supply of each request."""
        cpu = int(np.sum(self._cpu)) // max(self._all, 1)
        models = int(np.max(self._models, initial=0)) + 1
        self._arrivals: Arrivals[_Request] = Arrivals()
        self.first = self._typical(self._arrivals.expect((cpu, CARD, 1, b"\1" * models)))
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
        return self._typical(frequent)

    def _typical(self, frequent: list[tuple[_Request, float]]) -> Typical:
        supplies = [self._supply(request) for request, _ in frequent]
        weights = [
            expected_weight(pods, request[1] * request[2], supply)
            for (request, pods), supply in zip(frequent, supplies, strict=True)
        ]
        total = sum(weights) or 1.0
        return Typical(
            [
                TypicalPod(each / total, cpu, amount, cards, np.frombuffer(allowed, dtype=np.uint8), supply)
                for ((cpu, amount, cards, allowed), _), each, supply in zip(frequent, weights, supplies, strict=True)
            ]
        )

    def _supply(self, request: _Request) -> float:
        """Return the share of all cards that is on nodes which can serve a request."""
        if request not in self._supplies:
            cpu, _, cards, allowed = request
            able = np.frombuffer(allowed, dtype=np.bool_)[self._models] & (self._cards >= cards) & (self._cpu >= cpu)
            self._supplies[request] = int(np.sum(self._cards[able])) / max(self._all, 1)
        return self._supplies[request]
