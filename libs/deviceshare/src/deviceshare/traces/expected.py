"""The pods that are expected: those that arrived, the recent ones with more weight."""

import numpy as np

from deviceshare.traces.constants import CARD
from deviceshare.traces.gradient import Typical, TypicalPod
from deviceshare.traces.nodes import TraceNodes, TracePods

HALF_LIFE = 20_000
"""After this many arrivals a pod has half of its weight."""
MOST_EXPECTED = 256
"""The most requests that are expected: the most frequent ones."""
_FIRST = 8
_SELDOM = 4096
"""Arrivals between two updates: first, and at most. It doubles, since all scores are computed again."""
_PRIOR = 4.0
"""The weight of the pods that are expected before the first arrivals, in pods."""
_MOST_COUNTED = 4096

_Request = tuple[int, int, int, bytes]
"""CPU, amount of each card, number of cards, accepted models."""


class ExpectedPods:
    """Counts the arrivals on ``nodes`` by request, memory aside; pods without cards are ignored.

    Before the first arrivals pods of one whole card are expected, with the CPU that the nodes have for each card.
    """

    def __init__(self, nodes: TraceNodes) -> None:
        cpu = int(np.sum(nodes.cpu)) // max(int(np.sum(nodes.cards)), 1)
        models = int(np.max(nodes.models, initial=0)) + 1
        self._weights: dict[_Request, float] = {(cpu, CARD, 1, b"\1" * models): _PRIOR}
        self._arrived = 0
        self._interval = _FIRST

    def count(self, pods: TracePods) -> bool:
        """Count an arrival; return whether :meth:`typical` is due."""
        self._arrived += 1
        if pods.count:
            request = (pods.cpu, pods.amount, pods.count, bytes(pods.allowed))
            self._weights[request] = self._weights.get(request, 0.0) + 1.0
        return self._arrived >= self._interval

    def typical(self) -> Typical:
        """Return the expected pods, and give them less weight from now on."""
        if self._arrived >= self._interval:
            self._interval = min(2 * self._interval, _SELDOM)
        left = 0.5 ** (self._arrived / HALF_LIFE)
        self._arrived = 0
        frequent = sorted(self._weights.items(), key=lambda item: (-item[1], item[0]))[:_MOST_COUNTED]
        self._weights = {request: weight * left for request, weight in frequent}
        frequent = frequent[:MOST_EXPECTED]
        total = sum(weight for _, weight in frequent)
        return Typical(
            [
                TypicalPod(weight / total, cpu, amount, cards, np.frombuffer(allowed, dtype=np.uint8))
                for (cpu, amount, cards, allowed), weight in frequent
            ]
        )
