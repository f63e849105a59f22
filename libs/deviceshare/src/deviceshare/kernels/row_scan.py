"""One pass over all rows for a pod class whose feasible rows and scores depend on domains of rows.

A domain is a group of rows: ``of_row`` int64[rows] is the number of each row's domain, 0 for none. What depends on
domains is an array over domains.
"""

import numpy as np

from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.kernels.best import Best
from deviceshare.kernels.constants import NEVER

_TABLE = 4096
"""Raw scores that differ by less are normalized by a table: a division of each row costs more."""


class RowScan:
    """The total score of each row (``totals`` float64[rows], -inf: infeasible), from those of a ranking on.

    Call :meth:`start`, :meth:`exclude` for each filter, the methods of each score, and :meth:`best`.
    """

    def __init__(self) -> None:
        self.able = 0
        """The number of feasible rows, as of the last call of :meth:`best`."""
        self.totals: Floats = np.zeros(0)
        self.raw: Floats = np.zeros(0)
        """float64[rows]: the score of a plugin before it is normalized."""
        self.skipped: Mask = np.zeros(0, dtype=np.uint8)
        """uint8[rows]: rows that a plugin does not score."""
        self.table: Floats = np.zeros(_TABLE)

    def start(self, keys: Floats) -> None:
        """Begin with the scores of a ranking."""
        if len(self.totals) != len(keys):
            self.totals = np.zeros(len(keys))
            self.raw = np.zeros(len(keys))
            self.skipped = np.zeros(len(keys), dtype=np.uint8)
        self.totals[:] = keys

    def best_without(self, keys: Floats, of_row: Ints, excluded: Mask, order: Best) -> int:
        """Return the best row of a ranking outside of the ``excluded`` domains, as the other methods would."""
        best = -1
        top = NEVER
        able = 0
        for row in range(len(keys)):
            key = keys[row]
            if key == NEVER or excluded[of_row[row]]:
                continue
            able += 1
            # Most rows are worse than the best one so far.
            if key < top:
                continue
            if key > top or order.precedes(row, best):
                best = row
                top = key
        self.able = able
        return best

    def exclude(self, of_row: Ints, excluded: Mask) -> None:
        """Make the rows infeasible whose domain is ``excluded`` (uint8[domains])."""
        for row in range(len(self.totals)):
            if excluded[of_row[row]]:
                self.totals[row] = NEVER

    def clear(self) -> None:
        """Begin with the score of a plugin."""
        for row in range(len(self.raw)):
            self.raw[row] = 0.0
            self.skipped[row] = 0

    def skip(self, of_row: Ints) -> None:
        """Do not score rows without a domain."""
        for row in range(len(self.raw)):
            if of_row[row] == 0:
                self.skipped[row] = 1

    def mark(self, of_row: Ints, marks: Mask) -> int:
        """Mark the domains (uint8[domains]) that have a row that is feasible and scored; return how many rows are."""
        count = 0
        for row in range(len(self.totals)):
            if self.totals[row] != NEVER and not self.skipped[row]:
                marks[of_row[row]] = 1
                count += 1
        return count

    def add(self, of_row: Ints, points: Floats) -> None:
        """Add the points of its domain to each row."""
        for row in range(len(self.raw)):
            self.raw[row] += points[of_row[row]]

    def add_counts(self, counts: Ints, factor: float, more: float) -> None:
        """Add ``count x factor + more`` to each row."""
        for row in range(len(self.raw)):
            self.raw[row] += counts[row] * factor + more

    def add_highest(self, weight: float) -> None:
        """Add the weighted score of a plugin to the totals: 100 for the highest raw score, 0 for the lowest.

        Raw scores are whole numbers.
        """
        least = most = 0.0
        first = True
        for row in range(len(self.totals)):
            if self.totals[row] != NEVER:
                value = self.raw[row]
                if first or value < least:
                    least = value
                if first or value > most:
                    most = value
                first = False
        if most <= least:
            return
        width = int(most - least)
        if width < _TABLE:
            for at in range(width + 1):
                points = int(100.0 * (at / (most - least)))
                self.table[at] = weight * points
            for row in range(len(self.totals)):
                if self.totals[row] != NEVER:
                    width = int(self.raw[row] - least)
                    self.totals[row] += self.table[width]
            return
        for row in range(len(self.totals)):
            if self.totals[row] != NEVER:
                points = int(100.0 * ((self.raw[row] - least) / (most - least)))
                self.totals[row] += weight * points

    def add_lowest(self, weight: float) -> None:
        """Add the weighted score of a plugin to the totals: the lower the rounded raw score, the more, at most 100."""
        least = most = 0.0
        first = True
        for row in range(len(self.totals)):
            if self.totals[row] != NEVER and not self.skipped[row]:
                # Half away from zero, as Go rounds: no value is negative.
                points = int(self.raw[row] + 0.5)
                value = points
                self.raw[row] = value
                if first or value < least:
                    least = value
                if value > most:
                    most = value
                first = False
        width = int(most - least)
        if width < _TABLE:
            for at in range(width + 1):
                points = 100
                if most > 0.0:
                    points = int(100.0 * (most - at) / most)
                self.table[at] = weight * points
            for row in range(len(self.totals)):
                if self.totals[row] != NEVER and not self.skipped[row]:
                    width = int(self.raw[row] - least)
                    self.totals[row] += self.table[width]
            return
        for row in range(len(self.totals)):
            if self.totals[row] != NEVER and not self.skipped[row]:
                points = int(100.0 * (most + least - self.raw[row]) / most)
                self.totals[row] += weight * points

    def best(self, order: Best) -> int:
        """Return the row with the highest total, -1 where none is feasible; ties break as in ``order``."""
        best = -1
        top = NEVER
        able = 0
        for row in range(len(self.totals)):
            total = self.totals[row]
            if total == NEVER:
                continue
            able += 1
            # Most rows are worse than the best one so far.
            if total < top:
                continue
            if total > top or order.precedes(row, best):
                best = row
                top = total
        self.able = able
        return best
