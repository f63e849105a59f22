"""The fragmentation of one node: the free capacity of its cards that typical pods could not use.

This is the policy ``fragmentation``, of the scheduler and of ``deviceshare lab study trace``; docs/policies.md explains
it. Amounts are thousandths of a card, CPU thousandths of a core.
"""

import numpy as np

from deviceshare.kernels.arrays import Ints
from deviceshare.kernels.typical import Typical

_UNWANTED = 1.5
"""The weight of capacity of a model for which there is less demand than for the mean of all cards."""
_NO_CPU = 1.5
"""The weight of capacity that the node's CPU cannot serve."""
_STEP = 160.0
"""The resolution of scores."""
_MANY = 1_000_000
_NO_LEVELS: Ints = np.zeros(1, dtype=np.int64)


class FreeCards:
    """The free parts of a node's cards: ``free`` int64[number] is the largest one of each card.

    ``more`` int64[parts] are the further ones of cards that are partitioned.
    """

    def __init__(self, columns: int, parts: int = 0) -> None:
        self.number = 0
        self.parts = 0
        self.free: Ints = np.zeros(columns, dtype=np.int64)
        self.more: Ints = np.zeros(parts, dtype=np.int64)
        self.total = 0
        """The sum of all free parts, as of the last call of :meth:`count`."""
        self.unserved = 0.0
        """The part of the fragmentation, as of its last calculation, that is for want of a model or of CPU: it does not
        depend on how what is free is distributed over cards."""
        self.counts: Ints = _NO_LEVELS
        self.sums: Ints = _NO_LEVELS
        """The number of cards with less than each level, and the sum of their parts with less."""

    def count(self, typical: Typical) -> int:
        """Count what is free below each amount of typical pods into ``counts`` and ``sums``; return the sum of all."""
        if len(self.counts) <= typical.levels:
            self.counts = np.zeros(typical.levels + 1, dtype=np.int64)
            self.sums = np.zeros(typical.levels + 1, dtype=np.int64)
        for at in range(typical.levels + 1):
            self.counts[at] = 0
            self.sums[at] = 0
        total = 0
        for at in range(self.number):
            free = self.free[at]
            total += free
            self.counts[typical.position[free]] += 1
            self.sums[typical.position[free]] += free
        for at in range(self.parts):
            free = self.more[at]
            total += free
            self.sums[typical.position[free]] += free
        for at in range(1, typical.levels + 1):
            self.counts[at] += self.counts[at - 1]
            self.sums[at] += self.sums[at - 1]
        self.total = total
        return total

    def lost(self, typical: Typical, model: int, cpu: int) -> float:
        """Return the fragmentation of a node with cards of a model and this free CPU.

        It is the mean of the free capacity that a typical pod cannot use, and in addition the capacity that the free
        CPU cannot serve if pods use CPU and cards in the proportion of all typical pods, and that of models for which
        there is little demand: pods that accept them leave the other ones free.
        """
        self.count(typical)
        return self.lost_if(typical, model, cpu, 0, 0)

    def lost_if(self, typical: Typical, model: int, cpu: int, before: int, after: int) -> float:
        """Return the fragmentation if a card had ``after`` instead of ``before`` (no card: 0 and 0).

        The caller called :meth:`count`, which this saves for each card that is tried.
        """
        total = self.total - before + after
        self.unserved = 0.0
        if total == 0:
            return 0.0
        was, now = typical.position[before], typical.position[after]
        lost = 0.0
        unserved = 0.0
        for at in range(typical.size):
            if not typical.allowed[at, model]:
                lost += typical.shares[at] * total
                unserved += typical.shares[at] * total
                continue
            level = typical.level[at]
            fewer, rest = self.counts[level], self.sums[level]
            if was <= level:
                fewer -= 1
                rest -= before
            if now <= level:
                fewer += 1
                rest += after
            if cpu < typical.cpu[at]:
                lost += typical.shares[at] * total
                unserved += typical.shares[at] * total
            elif self.number - fewer < typical.count[at]:
                lost += typical.shares[at] * total
            else:
                lost += typical.shares[at] * rest
        served = cpu * typical.cards_per_cpu
        if served < total and typical.cards_per_cpu > 0.0:
            lost += _NO_CPU * (total - served)
            unserved += _NO_CPU * (total - served)
        unwanted: float = _UNWANTED * typical.unwanted[model] * total
        self.unserved = unserved + unwanted
        return lost + unwanted


def steps(less: float) -> float:
    """Return a reduction of fragmentation in steps of 0.16 cards, rounded; 0 for unchanged fragmentation.

    Rounding is essential: it makes most decisions ties, which go to the first node. So nodes fill one after the other,
    and the last ones stay empty for large pods.
    """
    rounded = int(less / _STEP + _MANY + 0.5)
    return float(rounded - _MANY)
