"""Which rows have changed: all who read it find those that did since they last looked."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_NOBODY = -1


class Changes:
    """The rows by when they last changed, in a list that is linked both ways: what changes goes to its front.

    ``now`` is how many changes there have been; a reader remembers it. ``rows`` is how many rows there are.
    """

    def __init__(self) -> None:
        self.now = 0
        self.rows = 0
        self.latest = _NOBODY
        """The row that changed last."""
        self.times: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: as which change each row last changed, 0 for never."""
        self.older: Ints = np.zeros(0, dtype=np.int64)
        self.newer: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: the neighbours of each row in the list, -1 for none."""
        self.found: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: the rows that :meth:`since` found come first."""
        self.keys: Floats = np.zeros(0)
        self.waste: Floats = np.zeros(0)
        """float64[rows]: what those rows are worth and waste, while a reader looks at them."""

    def grow(self, rows: int) -> None:
        """Make room for so many rows."""
        more = rows - self.rows
        self.times = np.pad(self.times, (0, more))
        self.older = np.pad(self.older, (0, more), constant_values=_NOBODY)
        self.newer = np.pad(self.newer, (0, more), constant_values=_NOBODY)
        self.found = np.zeros(rows, dtype=np.int64)
        self.keys = np.zeros(rows)
        self.waste = np.zeros(rows)
        self.rows = rows

    def touch(self, row: int) -> None:
        """Say that a row has changed."""
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
            self.newer[row] = _NOBODY
            self.latest = row
        self.times[row] = self.now

    def touch_all(self) -> None:
        """Say that every row has changed that ever did."""
        self.now += 1
        row = self.latest
        while row >= 0:
            self.times[row] = self.now
            row = self.older[row]

    def since(self, seen: int) -> int:
        """Write the rows that changed after ``seen`` changes into ``found``, the latest first; returns how many."""
        count = 0
        row = self.latest
        while row >= 0 and self.times[row] > seen:
            self.found[count] = row
            count += 1
            row = self.older[row]
        return count
