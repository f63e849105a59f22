"""Cards that give any amount of memory that is left: hami-core, MPS, gpu-share."""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.constants import CORES_USED, KIND, MEMORY_USED, NO_LIMIT, SLOTS_USED
from deviceshare.kernels.picking import Picker

Ints = NDArray[np.int64]


class SharedCards(Picker):
    """Picks cards that have room, by their kinds: ``sizes`` and ``asked`` are MiB, int64[kinds].

    Only of ``usable`` kinds (bool[kinds]) cards are to be had. The smallest ``by_memory`` x memory used + ``by_slots``
    x shares + ``by_column`` x column goes first. ``filling`` scores 100 x used / memory after the placement, a card
    each; ``spreading`` 100 / (1 + shares on the row).
    """

    def __init__(self, count: int, sizes: Ints, asked: Ints, usable: NDArray[np.bool_]) -> None:
        super().__init__(count)
        self.sizes: Ints = sizes
        self.asked: Ints = asked
        self.most_memory: Ints = np.where(usable, sizes - asked, -1)
        """int64[kinds]: how much others may have of a card, -1 where it is not to be had."""
        self.most_shares: Ints = np.full(len(sizes), NO_LIMIT, dtype=np.int64)
        self.most_cores = NO_LIMIT
        self.by_memory = 0
        self.by_slots = 0
        self.by_column = 0
        self.filling = False
        self.spreading = False

    def limit(self, shares: Ints, cores: int) -> None:
        """Say how many others may share a card (int64[kinds]) and how many cores they may have."""
        self.most_shares = shares
        self.most_cores = cores

    def pick(self, block: Ints, row: int) -> bool:
        """Pick by the order, and score."""
        self.start()
        for column in range(block.shape[2]):
            kind = block[row, KIND, column]
            memory_used = block[row, MEMORY_USED, column]
            if memory_used > self.most_memory[kind]:
                continue
            shares = block[row, SLOTS_USED, column]
            if shares > self.most_shares[kind] or block[row, CORES_USED, column] > self.most_cores:
                continue
            if self.restricted and not self.allowed[row, column]:
                continue
            key = self.by_memory * memory_used + self.by_slots * shares + self.by_column * column
            # Most cards are not among the best: they need not be offered.
            if self.held < self.count or self.preferring or key < self.keys[self.count - 1]:
                self.offer(row, column, key, 0)
        if self.held < self.count:
            return False
        if self.filling:
            self.scored = self.count
            for at in range(self.count):
                column = self.columns[at]
                kind = block[row, KIND, column]
                used: float = block[row, MEMORY_USED, column] + self.asked[kind]
                size: float = max(self.sizes[kind], 1)
                self.terms[at] = 100.0 * (used / size)
        elif self.spreading:
            self.scored = 1
            self.terms[0] = spread_score(block, row)
        return True


def spread_score(block: Ints, row: int) -> float:
    """Return 100 / (1 + how many share the row's cards)."""
    shares = 0
    for column in range(block.shape[2]):
        shares += block[row, SLOTS_USED, column]
    return 100.0 / (1 + shares)
