"""FGD, fragmentation gradient descent ("Beware of Fragmentation", USENIX ATC 2023), with its integer scores.

The fragmentation of a node is the free amount of its cards that a typical pod could not use, averaged over the typical
pods of the trace. FGD chooses the node and the card where a placement adds least of it.
"""

from collections.abc import Sequence
from math import exp
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

    ``position`` int64[1001] is the number of amounts that are no more than a free amount.
    """

    def __init__(self, pods: Sequence[TypicalPod]) -> None:
        levels = sorted({pod.amount for pod in pods if pod.cards})
        self.size, self.levels = len(pods), len(levels)
        self.shares: Floats = np.array([pod.share for pod in pods])
        self.cpu, self.count, self.level = (
            np.array(values, dtype=np.int64)
            for values in (
                [pod.cpu for pod in pods],
                [pod.cards for pod in pods],
                [levels.index(pod.amount) if pod.cards else 0 for pod in pods],
            )
        )
        self.allowed: Mask = np.array([pod.allowed for pod in pods], dtype=np.uint8)
        self.position: Ints = np.searchsorted(levels, np.arange(CARD + 1), side="right").astype(np.int64)


class Fgd(TracePolicy):
    """The policy FGD. The order of its sums decides equal scores, and is that of the published runs."""

    def __init__(self, nodes: TraceNodes, typical: Typical) -> None:
        super().__init__(nodes)
        self.typical = typical
        self.seen: Ints = np.full(nodes.rows, -1, dtype=np.int64)
        self.before: Floats = np.zeros(nodes.rows)
        """The fragmentation of each row, as of its change ``seen``."""
        self.free: Ints = np.zeros(nodes.free.shape[1], dtype=np.int64)
        """The free amounts of the row that :meth:`fragmentation` measures."""
        self.counts: Ints = np.zeros(typical.levels + 1, dtype=np.int64)
        self.sums: Ints = np.zeros(typical.levels + 1, dtype=np.int64)
        """Number and sum of the free amounts that are less than each level."""

    def rate(self, pods: TracePods, row: int) -> float:
        """Score a row: 50 for unchanged fragmentation, a point for each 40 thousandths of a card."""
        before = self.before_of(row)
        cpu = self.nodes.cpu[row] - pods.cpu
        for column in range(self.nodes.cards[row]):
            self.free[column] = self.nodes.free[row, column]
        self.column = -1
        if pods.count == 0:
            return points(before - self.fragmentation(row, cpu))
        if pods.count > 1 or pods.amount == CARD:
            left = pods.count
            for column in range(self.nodes.cards[row]):
                if left > 0 and self.free[column] >= pods.amount:
                    self.free[column] -= pods.amount
                    left -= 1
            return points(before - self.fragmentation(row, cpu))
        best = -1.0
        for column in range(self.nodes.cards[row]):
            free = self.free[column]
            if free < pods.amount:
                continue
            known = False
            for other in range(column):
                # The same as an earlier card, which is preferred.
                known = known or self.free[other] == free
            if known:
                continue
            self.free[column] = free - pods.amount
            score = points(before - self.fragmentation(row, cpu))
            self.free[column] = free
            if score > best:
                best = score
                self.column = column
        return best

    def before_of(self, row: int) -> float:
        """Return the fragmentation of a row."""
        if self.seen[row] != self.nodes.changes.times[row]:
            self.seen[row] = self.nodes.changes.times[row]
            for column in range(self.nodes.cards[row]):
                self.free[column] = self.nodes.free[row, column]
            self.before[row] = self.fragmentation(row, self.nodes.cpu[row])
        return float(self.before[row])

    def fragmentation(self, row: int, cpu: int) -> float:
        """Return the fragmentation of a row with this free CPU and the amounts ``free``, in thousandths of a card."""
        typical = self.typical
        for at in range(typical.levels + 1):
            self.counts[at] = 0
            self.sums[at] = 0
        total = 0
        for column in range(self.nodes.cards[row]):
            free = self.free[column]
            total += free
            self.counts[typical.position[free]] += 1
            self.sums[typical.position[free]] += free
        for at in range(1, typical.levels + 1):
            self.counts[at] += self.counts[at - 1]
            self.sums[at] += self.sums[at - 1]
        model = self.nodes.models[row]
        lacks_both = lacks_cards = lacks_cpu = no_cards = no_cards_cpu = no_model = 0.0
        for at in range(typical.size):
            share = typical.shares[at]
            level = typical.level[at]
            if not typical.allowed[at, model]:
                no_model += total * share
            elif typical.count[at] == 0:
                if cpu >= typical.cpu[at]:
                    no_cards += total * share
                else:
                    no_cards_cpu += total * share
            else:
                fitting = self.nodes.cards[row] - self.counts[level]
                if cpu >= typical.cpu[at]:
                    if fitting >= typical.count[at]:
                        lacks_cards += self.sums[level] * share
                    else:
                        lacks_cards += total * share
                elif fitting >= typical.count[at]:
                    lacks_cpu += total * share
                else:
                    lacks_both += total * share
        return ((((lacks_both + lacks_cards) + lacks_cpu) + no_cards) + no_cards_cpu) + no_model


def points(less: float) -> float:
    """Return the integer score for a reduction of fragmentation, 0 to 100."""
    score = int(100.0 * (1.0 / (1.0 + exp(-less / 1000.0))))
    return float(score)
