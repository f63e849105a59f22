"""The cards of each row in the order in which a policy picks them, for the pods of all classes."""

import numpy as np

from deviceshare.kernels.arrays import Ints
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.charges import CardCharges
from deviceshare.kernels.constants import CORES_USED, KIND, MEMORY_USED, SLOTS_USED

_NO_CARDS: Ints = np.zeros((0, 0, 4), dtype=np.int64)


class CardOrder:
    """Sorts a row once after each change, however many classes of pods look at it.

    The card with the smallest ``by_memory`` x used memory + ``by_shares`` x shares + ``by_column`` x column goes first,
    of equal ones the first.
    """

    def __init__(self, charges: CardCharges, by_memory: int, by_shares: int, by_column: int) -> None:
        self.charges = charges
        self.by_memory = by_memory
        self.by_shares = by_shares
        self.by_column = by_column
        self.cards: Ints = _NO_CARDS
        """int64[rows, columns, 4]: of each card its kind, used memory, used cores and shares; kind 0 ends the cards of
        a row."""
        self.times: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: the number of the change of a row since which it is sorted, -1 for none."""
        self.keys: Ints = np.zeros(0, dtype=np.int64)
        self.columns: Ints = np.zeros(0, dtype=np.int64)

    def refresh(self, changes: Changes, count: int) -> None:
        """Sort those of the first ``count`` rows of ``changes.found`` that changed since they were sorted."""
        rows = self.charges.block.shape[0]
        columns = self.charges.block.shape[2]
        if self.cards.shape[0] != rows or self.cards.shape[1] != columns:
            self.cards = np.zeros((rows, columns, 4), dtype=np.int64)
            self.times = np.full(rows, -1, dtype=np.int64)
            self.keys = np.zeros(columns, dtype=np.int64)
            self.columns = np.zeros(columns, dtype=np.int64)
        for at in range(count):
            row = changes.found[at]
            if self.times[row] != changes.times[row]:
                self.sort(row)
                self.times[row] = changes.times[row]

    def sort(self, row: int) -> None:
        """Sort the cards of a row."""
        kept = 0
        for column in range(self.charges.block.shape[2]):
            if self.charges.block[row, KIND, column] == 0:
                continue
            key = self.by_memory * self.charges.block[row, MEMORY_USED, column]
            key += self.by_shares * self.charges.block[row, SLOTS_USED, column] + self.by_column * column
            at = kept
            while at > 0 and self.keys[at - 1] > key:
                self.keys[at] = self.keys[at - 1]
                self.columns[at] = self.columns[at - 1]
                at -= 1
            self.keys[at] = key
            self.columns[at] = column
            kept += 1
        for at in range(kept):
            column = self.columns[at]
            self.cards[row, at, 0] = self.charges.block[row, KIND, column]
            self.cards[row, at, 1] = self.charges.block[row, MEMORY_USED, column]
            self.cards[row, at, 2] = self.charges.block[row, CORES_USED, column]
            self.cards[row, at, 3] = self.charges.block[row, SLOTS_USED, column]
        if kept < self.cards.shape[1]:
            self.cards[row, kept, 0] = 0
