"""The policies to which "Beware of Fragmentation" (USENIX ATC 2023) compares FGD, with its integer scores.

Each score is 0 to 100, higher is better.
"""

import numpy as np
from deviceshare.kernels.arrays import Ints
from deviceshare.kernels.typical import CARD

from deviceshare_lab.traces.nodes import TraceNodes, TracePods
from deviceshare_lab.traces.policy import TracePolicy

_CPU = 128_000.0
_CARDS = 8000.0
"""The largest node: CPU and cards are counted relative to it."""


class BestFit(TracePolicy):
    """The node with the least free CPU and card capacity after the placement."""

    def rate(self, pods: TracePods, row: int) -> float:
        """Score a row."""
        self.column = self.fitting_card(pods, row)
        part = 0.5 * (self.nodes.cpu[row] - pods.cpu) / _CPU
        part += 0.5 * (self.nodes.total[row] - pods.amount * pods.count) / _CARDS
        score = int(100.0 * (1.0 - part))
        return float(score)


class DotProd(TracePolicy):
    """The node whose free capacity has the smallest dot product with the request."""

    def rate(self, pods: TracePods, row: int) -> float:
        """Score a row."""
        self.column = self.fitting_card(pods, row)
        product = (self.nodes.cpu[row] / _CPU) * (pods.cpu / _CPU)
        product += (self.nodes.total[row] / _CARDS) * (pods.amount * pods.count / _CARDS)
        score = int(100.0 * (1.0 - product / 2.0))
        return float(score)


class GpuPacking(TracePolicy):
    """First cards in use, then free cards of nodes in use, then empty nodes."""

    def __init__(self, nodes: TraceNodes) -> None:
        super().__init__(nodes)
        self.picked: Ints = np.zeros(nodes.free.shape[1], dtype=np.int64)
        """The free amounts of the cards that a pod would get, the least first."""

    def rate(self, pods: TracePods, row: int) -> float:
        """Score a row."""
        self.column = self.fitting_card(pods, row)
        if pods.count == 0:
            return 0.0
        if self.nodes.whole[row] == self.nodes.cards[row]:
            return float(max(33 - self.nodes.whole[row], self.nodes.whole[row]))
        self.pick(pods, row)
        fresh = 0
        percent = 0
        for at in range(pods.count):
            if self.picked[at] == CARD:
                fresh += 1
            percent += self.picked[at] // 10
        if fresh:
            return max(50 - fresh, 33)
        return max(100 - percent // 10, 50)

    def pick(self, pods: TracePods, row: int) -> None:
        """Pick the fitting cards with the least free amounts."""
        held = 0
        for column in range(self.nodes.cards[row]):
            free = self.nodes.free[row, column]
            if free < pods.amount or (held == pods.count and free >= self.picked[held - 1]):
                continue
            at = held
            if at == pods.count:
                at -= 1
            else:
                held += 1
            while at > 0 and self.picked[at - 1] > free:
                self.picked[at] = self.picked[at - 1]
                at -= 1
            self.picked[at] = free


class GpuClustering(TracePolicy):
    """Nodes on which only pods with the same number of cards were placed."""

    def rate(self, pods: TracePods, row: int) -> float:
        """Score a row."""
        self.column = self.fitting_card(pods, row)
        if pods.count == 0:
            return 0.0
        base = 25 * (8000 - self.nodes.total[row]) // 8000
        kinds = self.nodes.kinds[row]
        if kinds & pods.kind:
            return float(base + (75 if kinds == pods.kind else 50))
        return float(base + (0 if kinds else 25))


class AnyNode(TracePolicy):
    """All feasible nodes have the same score; the policy ``random`` chooses among them."""

    def rate(self, pods: TracePods, row: int) -> float:
        """Score a row."""
        self.column = self.fitting_card(pods, row)
        return 0.0
