"""A policy that scores nodes one by one: each class of pods keeps its scores, refreshed for the rows that changed."""

import numpy as np
from deviceshare.kernels.constants import NEVER
from deviceshare.kernels.typical import CARD

from deviceshare_lab.traces.nodes import TraceNodes, TracePods


class TracePolicy:
    """Places pods on ``nodes``. A subclass scores a row, and chooses the card of a share (:meth:`rate`)."""

    def __init__(self, nodes: TraceNodes) -> None:
        self.nodes = nodes
        self.column = -1
        """The card that :meth:`rate` chose on the row."""

    def place(self, pods: TracePods) -> int:
        """Place a pod on the feasible row with the highest score, the first of equal ones; -1: no row is feasible."""
        self.refresh(pods)
        best, top = -1, NEVER
        for row in range(self.nodes.rows):
            if pods.scores[row] > top:
                best, top = row, pods.scores[row]
        if best >= 0:
            self.nodes.take(pods, best, pods.columns[best])
        return best

    def refresh(self, pods: TracePods) -> int:
        """Score the rows that changed since the pods were last placed; return how many changed."""
        if len(pods.scores) == 0:
            pods.scores = np.full(self.nodes.rows, NEVER)
            pods.columns = np.full(self.nodes.rows, -1, dtype=np.int64)
        count = self.nodes.changes.since(pods.seen)
        pods.seen = self.nodes.changes.now
        for at in range(count):
            row = self.nodes.changes.found[at]
            if self.nodes.fits(pods, row):
                pods.scores[row] = self.rate(pods, row)
                pods.columns[row] = self.column
            else:
                pods.scores[row] = NEVER
        return count

    def rate(self, pods: TracePods, row: int) -> float:
        """Return the score of a row on which the pods fit."""
        raise NotImplementedError

    def fitting_card(self, pods: TracePods, row: int) -> int:
        """Return the card for a share under policies that fill cards, -1 for pods that get no share."""
        if pods.count != 1 or pods.amount == CARD:
            return -1
        return self.nodes.tightest(row, pods.amount)
