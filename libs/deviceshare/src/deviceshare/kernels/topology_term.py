"""One inter-pod constraint of a pod class: pods counted by domain, and what their number means for a node."""

import numpy as np

from deviceshare.kernels.arrays import Ints, Mask
from deviceshare.kernels.constants import UNLABELLED


class TopologyTerm:
    """The pods that a constraint counts: ``counts`` int64[domains], ``of_row`` int64[rows] the domain of each row.

    A filter makes rows infeasible with fewer than ``least`` or more than ``most`` pods; the number of pods of a row
    without a domain is :data:`~.constants.UNLABELLED`. A score adds ``pods x points + more`` to the raw score of a row.

    ``by_row``: each domain has one row, so that the number of pods changes with the row only; with ``of_rows`` as well,
    ``counts`` is an array over rows. Otherwise ``of_group`` int64[groups] is the domain of each group of rows.
    """

    def __init__(self, counts: Ints, of_row: Ints, *, by_row: bool, of_rows: bool = False) -> None:
        self.counts = counts
        self.of_row = of_row
        self.by_row = by_row
        self.of_rows = of_rows
        self.of_group: Ints = np.zeros(0, dtype=np.int64)
        self.least = UNLABELLED
        self.most = 0
        self.points = 0.0
        self.more = 0.0
        self.cap = 1 << 61
        """Numbers of pods of rows above it count as this number, since they mean the same."""
        self.slot = 0
        """Its index among the terms by row."""
        self.marks: Mask = np.zeros(0, dtype=np.uint8)
        """uint8[domains]: scratch."""

    def of(self, row: int) -> int:
        """Return the number of pods for a row."""
        domain = self.of_row[row]
        if domain == 0:
            return UNLABELLED
        pods = self.counts[row] if self.of_rows else self.counts[domain]
        return self.cap if pods > self.cap else pods

    def of_groups(self, group: int) -> int:
        """Return the number of pods for the rows of a group."""
        domain = self.of_group[group]
        return UNLABELLED if domain == 0 else self.counts[domain]

    def excludes(self, pods: int) -> bool:
        """Return whether rows with this number of pods are infeasible."""
        return pods < self.least or pods > self.most
