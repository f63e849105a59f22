"""Nodes by the value of one label."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Mask = NDArray[np.uint8]


class Domains:
    """The domains of one topology key, as numbers.

    ``of_row`` int64[rows] is the domain of each node, 0 for a node without the label: the first entry of arrays over
    domains is that of these nodes. Numbers of domains that have no node any more are used again.
    """

    def __init__(self, key: str, rows: int) -> None:
        self.key = key
        self.of_row: Ints = np.zeros(rows, dtype=np.int64)
        self.domain_of = self.of_row.data
        """The same, whose single elements are read in less time."""
        self.size = 1
        """The length of arrays over domains."""
        self._numbers: dict[str, int] = {}
        self._values: list[str | None] = [None]
        self._nodes: list[int] = [0]
        """The number of nodes of each domain."""
        self._free: list[int] = []

    @property
    def single(self) -> bool:
        """Whether no domain has several nodes."""
        return max(self._nodes) <= 1

    def grow(self, rows: int) -> None:
        """Allocate this number of rows."""
        self.of_row = np.pad(self.of_row, (0, rows - len(self.of_row)))
        self.domain_of = self.of_row.data

    def put(self, row: int, value: str | None) -> None:
        """Set the label of a node, None for no label."""
        before = int(self.of_row[row])
        if (was := self._values[before]) is not None:
            if was == value:
                return
            self._nodes[before] -= 1
            if not self._nodes[before]:
                del self._numbers[was]
                self._free.append(before)
        if value is None:
            self.of_row[row] = 0
            return
        number = self._numbers.get(value)
        if number is None:
            number = self._free.pop() if self._free else self.size
            if number == self.size:
                self.size += 1
                self._values.append(value)
                self._nodes.append(0)
            self._values[number] = value
            self._numbers[value] = number
        self._nodes[number] += 1
        self.of_row[row] = number


class DomainFilter(NamedTuple):
    """Nodes that are not feasible: those in the ``excluded`` domains (uint8[domains]), for one reason of a plugin."""

    reason: str
    domains: Domains
    excluded: Mask


def failing(filters: Iterable[DomainFilter], rows: int) -> dict[str, Bools]:
    """Return the nodes (bool[rows]) that each reason makes infeasible; each node fails by its first filter only."""
    undecided = np.ones(rows, dtype=np.bool_)
    found: dict[str, Bools] = {}
    for reason, domains, excluded in filters:
        fails = excluded.take(domains.of_row).astype(np.bool_) & undecided
        undecided &= ~fails
        found[reason] = found[reason] | fails if reason in found else fails
    return found
