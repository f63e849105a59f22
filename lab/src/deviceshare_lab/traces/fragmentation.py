"""The policy ``fragmentation`` (:mod:`deviceshare.kernels.free_cards`) on the nodes of a trace.

The expected pods are learned from the arrivals (:mod:`.expected`).
"""

from deviceshare.kernels.free_cards import steps

from deviceshare_lab.traces.gradient import GradientPolicy


class Fragmentation(GradientPolicy):
    """Chooses the node and the card where a placement adds least fragmentation, in steps of 0.16 cards."""

    def fragmentation(self, row: int, cpu: int) -> float:
        """Return the fragmentation of a row."""
        return self.cards.lost(self.typical, self.nodes.models[row], cpu)

    def points(self, less: float) -> float:
        """Return the reduction in steps, rounded; 0 for unchanged fragmentation."""
        return steps(less)
