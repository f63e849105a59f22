"""The policy ``fragmentation``: as FGD, and capacity that lacks CPU or is of another model counts more.

The expected pods are learned from the arrivals (:mod:`.expected`).
"""

from deviceshare.traces.gradient import GradientPolicy

_NO_MODEL = 10.0
"""The weight of capacity of a model that an expected pod does not accept: unlike a remainder, no other pod frees it."""
_NO_CPU = 4.0
"""The weight of capacity that the node's CPU cannot serve."""
_STEP = 160.0
"""The resolution of scores, in thousandths of a card."""
_MANY = 1_000_000


class Fragmentation(GradientPolicy):
    """Chooses the node and the card where a placement adds least fragmentation, in steps of 0.16 cards.

    Fragmentation is the mean of the free capacity that an expected pod cannot use, and in addition the capacity that
    the node's free CPU cannot serve if pods use CPU and cards in the proportion of all expected pods.
    """

    def fragmentation(self, row: int, cpu: int) -> float:
        """Return the fragmentation of a row."""
        typical = self.typical
        total = self.count_free(row)
        if total == 0:
            return 0.0
        model = self.nodes.models[row]
        lost = 0.0
        for at in range(typical.size):
            level = typical.level[at]
            if not typical.allowed[at, model]:
                lost += _NO_MODEL * typical.shares[at] * total
            elif cpu < typical.cpu[at] or self.nodes.cards[row] - self.counts[level] < typical.count[at]:
                lost += typical.shares[at] * total
            else:
                lost += typical.shares[at] * self.sums[level]
        fed = cpu * typical.cards_per_cpu
        if fed < total:
            lost += _NO_CPU * (total - fed)
        return lost

    def points(self, less: float) -> float:
        """Return the reduction in steps, rounded; 0 for unchanged fragmentation."""
        steps = int(less / _STEP + _MANY + 0.5)
        return float(steps - _MANY)
