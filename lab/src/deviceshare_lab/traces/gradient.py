"""Policies that choose the node and the card where a placement adds least fragmentation.

The fragmentation of a node is what is free on its cards and a typical pod could not use, averaged over typical pods.
"""

import numpy as np
from deviceshare.kernels.arrays import Floats, Ints
from deviceshare.kernels.free_cards import FreeCards
from deviceshare.kernels.typical import CARD, Typical

from deviceshare_lab.traces.nodes import TraceNodes, TracePods
from deviceshare_lab.traces.policy import TracePolicy


class GradientPolicy(TracePolicy):
    """The base. A subclass measures a row (:meth:`fragmentation`), and rounds a reduction to a score (:meth:`points`).

    Rounding is essential: see :func:`deviceshare.kernels.free_cards.steps`.
    """

    def __init__(self, nodes: TraceNodes, typical: Typical) -> None:
        super().__init__(nodes)
        self.seen: Ints = np.full(nodes.rows, -1, dtype=np.int64)
        self.before: Floats = np.zeros(nodes.rows)
        """The fragmentation of each row, as of its change ``seen``."""
        self.cards = FreeCards(nodes.free.shape[1])
        """The free amounts of the row that :meth:`fragmentation` measures."""
        self.expect(typical)

    def expect(self, typical: Typical) -> None:
        """Set the typical pods, and forget all scores."""
        self.typical = typical
        self.nodes.changes.touch_all()

    def rate(self, pods: TracePods, row: int) -> float:
        """Score a row; of a share the card with the best score, the first of equal ones."""
        before = self.before_of(row)
        cpu = self.nodes.cpu[row] - pods.cpu
        self.load(row)
        self.column = -1
        if pods.count != 1 or pods.amount == CARD:
            left = pods.count
            for column in range(self.nodes.cards[row]):
                if left > 0 and self.cards.free[column] >= pods.amount:
                    self.cards.free[column] -= pods.amount
                    left -= 1
            return self.points(before - self.fragmentation(row, cpu))
        best = 0.0
        for column in range(self.nodes.cards[row]):
            free = self.cards.free[column]
            if free < pods.amount or self.is_known(column):
                continue
            self.cards.free[column] = free - pods.amount
            score = self.points(before - self.fragmentation(row, cpu))
            self.cards.free[column] = free
            if self.column < 0 or score > best:
                best = score
                self.column = column
        return best

    def is_known(self, column: int) -> bool:
        """Return whether an earlier card, which is preferred, has the same free amount."""
        known = False
        for other in range(column):
            known = known or self.cards.free[other] == self.cards.free[column]
        return known

    def load(self, row: int) -> None:
        """Copy the free amounts of a row."""
        self.cards.number = self.nodes.cards[row]
        for column in range(self.nodes.cards[row]):
            self.cards.free[column] = self.nodes.free[row, column]

    def before_of(self, row: int) -> float:
        """Return the fragmentation of a row as it is."""
        if self.seen[row] != self.nodes.changes.times[row]:
            self.seen[row] = self.nodes.changes.times[row]
            self.load(row)
            self.before[row] = self.fragmentation(row, self.nodes.cpu[row])
        return float(self.before[row])

    def fragmentation(self, row: int, cpu: int) -> float:
        """Return the fragmentation of a row with this free CPU and the amounts of ``cards``."""
        raise NotImplementedError

    def points(self, less: float) -> float:
        """Return the score for a reduction of the fragmentation."""
        raise NotImplementedError
