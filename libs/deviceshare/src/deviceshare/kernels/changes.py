"""Which rows have changed: one log for all who read it, each from where they stopped."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_LEAST = 4096


class Changes:
    """The rows that changed, in the order in which they did. The oldest are forgotten.

    ``now`` is how many changes there have been; a reader remembers it. ``rows`` is how many rows there are.
    """

    def __init__(self) -> None:
        self.now = 0
        self.rows = 0
        self.forgotten = 0
        """Changes before this one are not known any more."""
        self.log: Ints = np.zeros(_LEAST, dtype=np.int64)
        """Its length is a power of two: a change stands at the last bits of its number."""
        self.last = _LEAST - 1
        self.found: Ints = np.zeros(0, dtype=np.int64)
        """int64[rows]: the rows that :meth:`since` found come first."""
        self.keys: Floats = np.zeros(0)
        self.waste: Floats = np.zeros(0)
        """float64[rows]: what those rows are worth and waste, while a reader looks at them."""
        self.marks: Ints = np.zeros(0, dtype=np.int64)
        self.mark = 0

    def grow(self, rows: int) -> None:
        """Make room for so many rows."""
        self.rows = rows
        self.found = np.zeros(rows, dtype=np.int64)
        self.keys = np.zeros(rows)
        self.waste = np.zeros(rows)
        self.marks = np.zeros(rows, dtype=np.int64)
        if 2 * rows > len(self.log):
            # Where a change stands in the log depends on its length.
            self.forget()
            self.last = (1 << (2 * rows - 1).bit_length()) - 1
            self.log = np.zeros(self.last + 1, dtype=np.int64)

    def touch(self, row: int) -> None:
        """Say that a row has changed."""
        self.log[self.now & self.last] = row
        self.now += 1
        if self.now - self.forgotten > len(self.log):
            self.forgotten = self.now - len(self.log)

    def forget(self) -> None:
        """Let every reader look at all rows again."""
        self.now += 1
        self.forgotten = self.now

    def since(self, seen: int) -> int:
        """Write each row that changed after ``seen`` into ``found``, once; returns how many.

        Where too much has changed since, or some of it is forgotten, these are all rows.
        """
        count = 0
        if seen < self.forgotten or self.now - seen > self.rows:
            for row in range(self.rows):
                self.found[row] = row
            return self.rows
        self.mark += 1
        for at in range(seen, self.now):
            row = self.log[at & self.last]
            if self.marks[row] != self.mark:
                self.marks[row] = self.mark
                self.found[count] = row
                count += 1
        return count
