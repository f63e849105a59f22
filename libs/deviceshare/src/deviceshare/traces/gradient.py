"""Policies that choose the node and the card where a placement adds least fragmentation.

The fragmentation of a node is what is free on its cards and a typical pod could not use, averaged over typical pods.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.traces.constants import CARD
from deviceshare.traces.nodes import TraceNodes, TracePods
from deviceshare.traces.policy import TracePolicy


class TypicalPod(NamedTuple):
    """A request that is frequent in a trace, and its share of the typical pods; ``allowed`` uint8[models]."""

    share: float
    cpu: int
    amount: int
    cards: int
    allowed: Mask


class Typical:
    """Typical pods as arrays. ``level`` is the index of a pod's amount among all amounts.

    ``position`` int64[1001] is the number of amounts that are no more than a free amount. ``cards_per_cpu``: what pods
    with cards request of cards, per thousandth of a core that they request; 0 if they request no CPU.
    """

    def __init__(self, pods: Sequence[TypicalPod]) -> None:
        levels = sorted({pod.amount for pod in pods if pod.cards})
        self.size, self.levels = len(pods), len(levels)
        self.shares: Floats = np.array([pod.share for pod in pods], dtype=np.float64)
        self.cpu: Ints = np.array([pod.cpu for pod in pods], dtype=np.int64)
        self.count: Ints = np.array([pod.cards for pod in pods], dtype=np.int64)
        self.level: Ints = np.array([levels.index(pod.amount) if pod.cards else 0 for pod in pods], dtype=np.int64)
        self.allowed: Mask = np.array([pod.allowed for pod in pods], dtype=np.uint8).reshape(len(pods), -1)
        self.position: Ints = np.searchsorted(levels, np.arange(CARD + 1), side="right").astype(np.int64)
        cpu = sum(pod.share * pod.cpu for pod in pods if pod.cards)
        self.cards_per_cpu = sum(pod.share * pod.amount * pod.cards for pod in pods) / cpu if cpu else 0.0


class GradientPolicy(TracePolicy):
    """The base. A subclass measures a row (:meth:`fragmentation`), and rounds a reduction to a score (:meth:`points`).

    Rounding is essential: it makes most decisions ties, which go to the first row. So nodes fill one after the other,
    and the last ones stay empty for large pods.
    """

    def __init__(self, nodes: TraceNodes, typical: Typical) -> None:
        super().__init__(nodes)
        self.seen: Ints = np.full(nodes.rows, -1, dtype=np.int64)
        self.before: Floats = np.zeros(nodes.rows)
        """The fragmentation of each row, as of its change ``seen``."""
        self.free: Ints = np.zeros(nodes.free.shape[1], dtype=np.int64)
        """The free amounts of the row that :meth:`fragmentation` measures."""
        self.expect(typical)

    def expect(self, typical: Typical) -> None:
        """Set the typical pods, and forget all scores."""
        self.typical = typical
        self.counts: Ints = np.zeros(typical.levels + 1, dtype=np.int64)
        self.sums: Ints = np.zeros(typical.levels + 1, dtype=np.int64)
        """Number and sum of the free amounts that are less than each level."""
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
                if left > 0 and self.free[column] >= pods.amount:
                    self.free[column] -= pods.amount
                    left -= 1
            return self.points(before - self.fragmentation(row, cpu))
        best = 0.0
        for column in range(self.nodes.cards[row]):
            free = self.free[column]
            if free < pods.amount or self.is_known(column):
                continue
            self.free[column] = free - pods.amount
            score = self.points(before - self.fragmentation(row, cpu))
            self.free[column] = free
            if self.column < 0 or score > best:
                best = score
                self.column = column
        return best

    def is_known(self, column: int) -> bool:
        """Return whether an earlier card of ``free``, which is preferred, has the same free amount."""
        known = False
        for other in range(column):
            known = known or self.free[other] == self.free[column]
        return known

    def load(self, row: int) -> None:
        """Copy the free amounts of a row."""
        for column in range(self.nodes.cards[row]):
            self.free[column] = self.nodes.free[row, column]

    def before_of(self, row: int) -> float:
        """Return the fragmentation of a row as it is."""
        if self.seen[row] != self.nodes.changes.times[row]:
            self.seen[row] = self.nodes.changes.times[row]
            self.load(row)
            self.before[row] = self.fragmentation(row, self.nodes.cpu[row])
        return float(self.before[row])

    def count_free(self, row: int) -> int:
        """Count the amounts ``free`` below each level into ``counts`` and ``sums``; return the sum of all."""
        for at in range(self.typical.levels + 1):
            self.counts[at] = 0
            self.sums[at] = 0
        total = 0
        for column in range(self.nodes.cards[row]):
            free = self.free[column]
            total += free
            self.counts[self.typical.position[free]] += 1
            self.sums[self.typical.position[free]] += free
        for at in range(1, self.typical.levels + 1):
            self.counts[at] += self.counts[at - 1]
            self.sums[at] += self.sums[at - 1]
        return total

    def fragmentation(self, row: int, cpu: int) -> float:
        """Return the fragmentation of a row with this free CPU and the amounts ``free``, in thousandths of a card."""
        raise NotImplementedError

    def points(self, less: float) -> float:
        """Return the score for a reduction of the fragmentation."""
        raise NotImplementedError
