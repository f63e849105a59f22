"""Which rows changed: each reader finds the rows that changed since it last looked."""

import numpy as np

from deviceshare.kernels.arrays import Floats, Ints

_NO_ROW = -1


class Changes:
    """The rows in a doubly linked list, the row that changed last at its front.

    ``now`` is the number of changes so far, which a reader remembers; ``rows`` is the number of rows.
    """

    def __init__(self) -> None:
        self.now = 0
        self.rows = 0
        self.latest = _NO_ROW
        """The row that changed last."""
        self.times: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: the number of the last change of each row, 0 for none."""
        self.older: Ints = np.zeros(0, dtype=np.int64)
        self.newer: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: the neighbours of each row in the list, -1 for none."""
        self.found: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: the rows that :meth:`since` found, at the front."""
        self.keys: Floats = np.zeros(0)
        self.waste: Floats = np.zeros(0)
        """float64[rows]: score and waste of these rows, while a reader evaluates them."""

    def grow(self, rows: int) -> None:
        """Allocate this number of rows."""
        more = rows - self.rows
        self.times = np.pad(self.times, (0, more))
        self.older = np.pad(self.older, (0, more), constant_values=_NO_ROW)
        self.newer = np.pad(self.newer, (0, more), constant_values=_NO_ROW)
        self.found = np.zeros(rows, dtype=np.int64)
        self.keys = np.zeros(rows)
        self.waste = np.zeros(rows)
        self.rows = rows

    def touch(self, row: int) -> None:
        """Record a change of a row."""
        self.now += 1
        if row != self.latest:
            newer, older = self.newer[row], self.older[row]
            if newer >= 0:
                self.older[newer] = older
            if older >= 0:
                self.newer[older] = newer
            if self.latest >= 0:
                self.newer[self.latest] = row
            self.older[row] = self.latest
            self.newer[row] = _NO_ROW
            self.latest = row
        self.times[row] = self.now

    def touch_all(self) -> None:
        """Record a change of every row that changed before."""
        self.now += 1
        row = self.latest
        while row >= 0:
            self.times[row] = self.now
            row = self.older[row]

    def since(self, seen: int) -> int:
        """Write the rows that changed after change ``seen`` into ``found``, the latest first; return their number."""
        count = 0
        row = self.latest
        while row >= 0 and self.times[row] > seen:
            self.found[count] = row
            count += 1
            row = self.older[row]
        return count
