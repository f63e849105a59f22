"""CPU, memory and every other countable resource of the nodes, as arrays: node × resource."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels import NodeAmounts
from deviceshare.model import ResourceAmounts, Resources
from deviceshare.state.card_kinds import Bools, Ints
from deviceshare.state.pod_sums import SCORED

PODS = "pods"
UNLIMITED = 2**62
"""What is allocatable of a resource that a node does not limit."""


class ResourceTable:
    """What is allocatable and used on every node. Units: :data:`deviceshare.model.Resources`.

    Only resources that some node has or had, and amounts that only scores count, have a column: a user may request
    resources of any name. A column that no node and no pod uses any more is given to another resource.

    A node that does not state how many pods it runs has no limit, and likewise for the resources of device families:
    kubelet ignores extended resources that are not allocatable (kubernetes/kubernetes, pkg/kubelet/lifecycle,
    removeMissingExtendedResources).
    """

    def __init__(self) -> None:
        self._columns: dict[str, int] = {PODS: 0}
        self._reserved_names = {PODS}
        """Resources that keep their columns."""
        self._free = [3, 2, 1]
        """Columns without a resource."""
        self.version = 0
        """Grows whenever a column gets a resource."""
        self._open = frozenset({PODS})
        """Resources of which a node has no limit unless it states one."""
        self._stated: set[str] = set()
        """Those of which some node has stated a limit, as long as they have a column."""
        self._unstated: Ints = np.array([UNLIMITED, 0, 0, 0], dtype=np.int64)
        """What is allocatable of each column on a node that does not state it."""
        self._allocatable: Ints = np.zeros((0, 4), dtype=np.int64)
        self._used: Ints = np.zeros((0, 4), dtype=np.int64)
        self._without_column: defaultdict[int, Counter[str]] = defaultdict(Counter)
        """By row, what is used of resources without a column."""
        self._reserved: dict[int, int] = {}
        """The rows that are reserved, and how many pods each may run otherwise."""
        self.amounts = NodeAmounts(self._allocatable, self._used)
        """The same arrays, as kernels read and write them."""

    def set_open(self, names: Iterable[str]) -> None:
        """Set the resources, besides pods, of which nodes have no limit unless they state one; set all nodes again."""
        self._open = frozenset({PODS, *names})
        self._stated &= self._open
        for name, column in self._columns.items():
            self._unstated[column] = UNLIMITED if name in self._open else 0
        self.version += 1

    def set_node(self, row: int, allocatable: Resources) -> None:
        """Set what a node has; what is used stays."""
        reserved = row in self._reserved
        self.set_reserved(row, reserved=False)
        columns = [self._column_for(name, allocatable) for name in allocatable]
        self._reserve(row + 1)
        if not self._stated.issuperset(new := self._open.intersection(allocatable)):
            self._stated |= new
            self.version += 1
        self._allocatable[row] = self._unstated
        for column, amount in zip(columns, allocatable.values(), strict=True):
            self._allocatable[row, column] = amount
        self.set_reserved(row, reserved=reserved)

    def set_reserved(self, row: int, *, reserved: bool) -> None:
        """Reserve a node, so that it has room for no pod, or end that."""
        if reserved and row not in self._reserved:
            self._reserved[row] = int(self._allocatable[row, 0])
            self._allocatable[row, 0] = 0
        elif not reserved and row in self._reserved:
            self._allocatable[row, 0] = self._reserved.pop(row)

    def reserved(self, rows: Ints) -> Bools:
        """Return bool[R]: whether a node is reserved."""
        return np.array([row in self._reserved for row in rows.tolist()], dtype=np.bool_)

    def clear(self, row: int) -> None:
        """Remove a node."""
        self._reserve(row + 1)
        self._reserved.pop(row, None)
        self._without_column.pop(row, None)
        self._allocatable[row] = self._unstated
        self._used[row] = 0

    def charge(self, row: int, amounts: Iterable[tuple[str, int]], sign: int, *, pods: int = 1) -> None:
        """Add (``sign`` 1) or release (-1) amounts and one pod, or another number of them."""
        add, columns = self.amounts.add, self._columns
        add(row, 0, sign * pods)
        for name, amount in amounts:
            column = columns.get(name)
            if column is None and not name.endswith(SCORED):
                self._charge_without_column(row, name, sign * amount)
                continue
            # A new name may replace the arrays by wider ones.
            column = self._column_for(name) if column is None else column
            add(row, column, sign * amount)

    def _charge_without_column(self, row: int, name: str, amount: int) -> None:
        used = self._without_column[row]
        used[name] += amount
        if not used[name]:
            del used[name]
        if not used:
            del self._without_column[row]

    def limited(self, amounts: ResourceAmounts) -> ResourceAmounts:
        """Return the amounts without those of resources that no node limits."""
        return tuple((name, amount) for name, amount in amounts if name not in self._open or name in self._stated)

    def columns(self, amounts: Sequence[tuple[str, int]]) -> tuple[Ints, Ints]:
        """Return the columns of resources, -1 for a resource that no node has, and the amounts."""
        columns = [self.column(name) for name, _ in amounts]
        return np.array(columns, dtype=np.int64), np.array([amount for _, amount in amounts], dtype=np.int64)

    def column(self, name: str) -> int:
        """Return the column of a resource, -1 for an unknown one."""
        return self._columns.get(name, -1)

    def free(self, rows: Ints, name: str) -> Ints:
        """Return int64[R]: how much is free, negative where more is used than allocatable."""
        column = self._columns.get(name)
        if column is None:
            return np.zeros(len(rows), dtype=np.int64)
        left: Ints = self._allocatable[rows, column] - self._used[rows, column]
        return left

    def allocatable(self, rows: Ints, name: str) -> Ints:
        """Return int64[R]: how much is allocatable on each node, 0 where the node does not state it."""
        column = self._columns.get(name)
        if column is None:
            return np.zeros(len(rows), dtype=np.int64)
        found: Ints = self._allocatable[rows, column]
        return np.where(found == UNLIMITED, 0, found)

    def names(self) -> list[str]:
        """Return the resources that some node states to have."""
        stated = ((self._allocatable != 0) & (self._allocatable != UNLIMITED)).any(axis=0)
        return [name for name, column in self._columns.items() if stated[column]]

    def used(self, row: int) -> Resources:
        """Return what is used on a node of the resources that it limits, or that no node has."""
        limits = self._allocatable[row]
        taken = {
            name: int(self._used[row, column])
            for name, column in self._columns.items()
            if limits[column] != UNLIMITED and not name.endswith(SCORED)
        }
        others = self._without_column.get(row, Counter())
        return taken | {name: amount for name, amount in others.items() if name not in self._open}

    def used_amount(self, row: int, name: str) -> int:
        """Return how much of one resource of a node is used."""
        column = self._columns.get(name)
        return self._without_column.get(row, Counter())[name] if column is None else int(self._used[row, column])

    def reserve(self, name: str) -> int:
        """Return the column of a resource, which keeps it for ever: for names of a configuration."""
        self._reserved_names.add(name)
        return self._column_for(name)

    def _column_for(self, name: str, keep: Container[str] = ()) -> int:
        """Return the column of a resource, an unused one for a new name; resources in ``keep`` keep their columns."""
        column = self._columns.get(name)
        if column is None:
            if not self._free:
                self._free_columns(keep)
            column = self._columns[name] = self._free.pop()
            self._unstated[column] = UNLIMITED if name in self._open else 0
            self._allocatable[:, column] = self._unstated[column]
            self.version += 1
            for row in [row for row, used in self._without_column.items() if name in used]:
                amount = self._without_column[row][name]
                self._charge_without_column(row, name, -amount)
                self.amounts.add(row, column, amount)
        return column

    def _free_columns(self, keep: Container[str]) -> None:
        """Take the columns of resources that nothing uses; widen the arrays if these are less than a quarter."""
        width = self._used.shape[1]
        in_use: Bools = (self._allocatable != self._unstated).any(axis=0) | (self._used != 0).any(axis=0)
        unused = [
            name
            for name, column in self._columns.items()
            if not (in_use[column] or name in keep or name in self._reserved_names)
        ]
        self._free = sorted((self._columns.pop(name) for name in unused), reverse=True)
        self._stated.difference_update(unused)
        if len(self._free) * 4 < width:
            self._unstated = np.pad(self._unstated, (0, width))
            self._enter(_widen(self._allocatable), _widen(self._used))
            self._free = [*range(2 * width - 1, width - 1, -1), *self._free]

    def _reserve(self, rows: int) -> None:
        has = len(self._used)
        if rows > has:
            more = ((0, max(rows - has, has // 4, 16)), (0, 0))
            self._enter(np.pad(self._allocatable, more), np.pad(self._used, more))
            self._allocatable[has:] = self._unstated

    def _enter(self, allocatable: Ints, used: Ints) -> None:
        self._allocatable = self.amounts.allocatable = allocatable
        self._used = self.amounts.used = used


def _widen(array: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.pad(array, ((0, 0), (0, array.shape[1])))
