"""Rows that serve a request without cards of the table: kubelet chooses whole ones, which no plugin registers."""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.arrays import Mask
from deviceshare.kernels.card_selector import CardSelector
from deviceshare.kernels.constants import KIND


class UnregisteredSelector(CardSelector):
    """Picks no cards: a row is feasible if none of its cards is of the ``registered`` kinds (bool[kinds]).

    The score is 0, except under the policy fragmentation. Whether the row has enough whole cards is no matter of cards.
    """

    def __init__(self, registered: NDArray[np.bool_]) -> None:
        super().__init__(0)
        self.registered: Mask = registered.view(np.uint8)

    def pick(self, row: int) -> bool:
        """Return whether the row has no card of the registered kinds."""
        for column in range(self.cards.block.shape[2]):
            if self.registered[self.cards.block[row, KIND, column]]:
                return False
        self.scored = 0
        self.waste = 0.0
        if self.fragmentation is not None and self.scoring_fragmentation:
            self.terms[0] = self.steps_of_pick(row)
            self.scored = 1
        return True
