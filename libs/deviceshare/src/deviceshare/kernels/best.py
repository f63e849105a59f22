"""The best of all rows, at any time: each block of rows keeps its best row, and is searched again only where that row
got worse.
"""

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.kernels.constants import NEVER

_BITS = 6
"""A block has 64 rows: 8 cache lines of keys. 20,000 nodes have 313 blocks."""


class TieOrder:
    """Which of equal rows is best: the row with the lowest of ``ranks`` int64[rows]. All rankings share one order.

    Ranks may change only if the order of any two rows stays, except for rows that are put again.
    """

    def __init__(self) -> None:
        self.ranks: Ints = np.zeros(0, dtype=np.int64)


class Best:
    """The score of each row (``keys`` float64[rows], -inf: infeasible), and the row with the highest score.

    Ties break by least ``waste`` (float32[rows], whole MiB), then by ``order``. A change of a row is cheap. Where the
    best row of a block got worse, all rows of the block are compared when the best row is next looked for.
    """

    def __init__(self, order: TieOrder) -> None:
        self.order = order
        self.rows = 0
        self.able = 0
        """The number of feasible rows."""
        self.keys: Floats = np.zeros(0)
        self.wasteful = False
        """Whether ``waste`` is allocated: most kinds of cards waste nothing."""
        self.waste: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
        self.blocks = 0
        self.winners: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        """int32[blocks]: the best row of each block."""
        self.tops: Floats = np.zeros(0)
        """float64[blocks]: the score of that row."""
        self.stale: Mask = np.zeros(0, dtype=np.uint8)
        """uint8[blocks]: where ``winners`` and ``tops`` are out of date."""

    def grow(self, rows: int) -> None:
        """Allocate this number of rows; new rows are infeasible."""
        keys = np.full(rows, NEVER)
        keys[: self.rows] = np.asarray(self.keys)
        self.keys = keys
        if self.wasteful:
            waste = np.zeros(rows, dtype=np.float32)
            waste[: self.rows] = np.asarray(self.waste)
            self.waste = waste
        self.rows = rows
        self.blocks = (rows + (1 << _BITS) - 1) >> _BITS
        self.winners = np.zeros(self.blocks, dtype=np.int32)
        self.tops = np.full(self.blocks, NEVER)
        self.stale = np.ones(self.blocks, dtype=np.uint8)

    def first(self) -> int:
        """Return the best row, -1 where none is feasible."""
        best = -1
        top = NEVER
        for block in range(self.blocks):
            if self.stale[block]:
                self.compare(block)
            if self.tops[block] == NEVER or self.tops[block] < top:
                continue
            row = self.winners[block]
            if self.tops[block] > top or self.precedes(row, best):
                best = row
                top = self.tops[block]
        return best

    def key(self, row: int) -> float:
        """Return the score of a row."""
        return float(self.keys[row])

    def put(self, row: int, key: float, waste: float) -> None:
        """Set the score and the waste of a row."""
        before = self.keys[row]
        if before == NEVER and key == NEVER:
            return
        self.able += (1 if key != NEVER else 0) - (1 if before != NEVER else 0)
        self.keys[row] = key
        if waste != 0.0 and not self.wasteful:
            self.wasteful = True
            self.waste = np.zeros(self.rows, dtype=np.float32)
        if self.wasteful:
            self.waste[row] = waste
        block = row >> _BITS
        if self.stale[block]:
            return
        if self.winners[block] == row and key <= before:
            # The rank of the row may have changed as well.
            self.stale[block] = 1
        elif self.winners[block] == row or key > self.tops[block] or self.levels(row, block):
            self.winners[block] = row
            self.tops[block] = key

    def levels(self, row: int, block: int) -> bool:
        """Return whether a row has the score of the best row of its block, and precedes it."""
        return bool(self.keys[row] == self.tops[block] and self.precedes(row, self.winners[block]))

    def put_rows(self, rows: Ints, keys: Floats, wastes: Floats) -> None:
        """Set the scores and wastes of some rows."""
        for at in range(len(rows)):
            self.put(rows[at], keys[at], wastes[at])

    def precedes(self, one: int, other: int) -> bool:
        """Return whether a row precedes another one with the same score."""
        if self.wasteful and self.waste[one] != self.waste[other]:
            return bool(self.waste[one] < self.waste[other])
        return bool(self.order.ranks[one] < self.order.ranks[other])

    def compare(self, block: int) -> None:
        """Find the best row of a block."""
        best = block << _BITS
        last = min(best + (1 << _BITS), self.rows)
        top = self.keys[best]
        for row in range(best + 1, last):
            key = self.keys[row]
            if key < top or key == NEVER:
                continue
            if key > top or self.precedes(row, best):
                best = row
                top = key
        self.winners[block] = best
        self.tops[block] = top
        self.stale[block] = 0
