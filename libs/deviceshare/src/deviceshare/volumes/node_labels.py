"""Which nodes match the terms of a volume or of a class."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels import Changes
from deviceshare.model import NodeFact, NodeTerms, Requirement, meets
from deviceshare.volumes.reasons import Bools

Ints = NDArray[np.int64]

MAX_LABELS = 64
"""Labels whose values are kept; beyond, the one that was used least recently is read again."""
MAX_ROWS = 4_000_000
"""Rows that are kept for the terms of volumes, 8 bytes each; beyond, all are computed again."""
_NAME_FIELD = "metadata.name"
_MISSING = 0


class _Column:
    """The values of one label as numbers: ``codes`` int64[rows], 0 where a node does not have it."""

    def __init__(self) -> None:
        self.codes: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.numbers: dict[str, int] = {}
        self.seen = -1

    def present(self) -> Bools:
        found: Bools = self.codes != _MISSING
        return found

    def put(self, row: int, value: str | None) -> None:
        self.codes[row] = _MISSING if value is None else self.numbers.setdefault(value, len(self.numbers) + 1)


class NodeLabels:
    """The labels of the nodes by row, as far as terms name them.

    Args:
        facts: the changes of the nodes.
        nodes: the node of each row, None for a row without one; the caller changes it in place.
    """

    def __init__(self, facts: Changes, nodes: Sequence[NodeFact | None]) -> None:
        self._facts = facts
        self._nodes = nodes
        self._every_row: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._columns: OrderedDict[tuple[str, bool], _Column] = OrderedDict()
        self._matching: dict[NodeTerms, Ints] = {}
        """Rows by terms, those of the nodes at ``_matching_at``."""
        self._matching_at = -1
        self._kept_rows = 0
        """How many rows ``_matching`` has."""

    @property
    def version(self) -> int:
        """Changes with the nodes."""
        return self._facts.now

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._facts.rows

    def every_row(self, rows: int) -> NDArray[np.int64]:
        """Return the numbers of the first ``rows`` rows, not to be changed: an array that all callers share."""
        if len(self._every_row) != rows:
            self._every_row = np.arange(rows, dtype=np.int64)
        return self._every_row

    def names(self) -> list[str]:
        """Return the names of the nodes by row, '' for a row without one."""
        return ["" if node is None else node.name for node in self._nodes[: self.rows]]

    def matching(self, terms: NodeTerms | None) -> Bools:
        """Return the nodes (bool[rows]) that meet all requirements of one term; None: all. An empty term has none."""
        if terms is None:
            return np.ones(self.rows, dtype=np.bool_)
        found = np.zeros(self.rows, dtype=np.bool_)
        for term in terms:
            if term:
                meets = self._meets(term[0])
                for requirement in term[1:]:
                    meets = meets & self._meets(requirement)
                found |= meets
        return found

    def matching_rows(self, terms: NodeTerms | None) -> Ints:
        """Return the rows (int64, ascending, not to be changed) that :meth:`matching` selects; kept for the next call.

        Of the many local volumes of a cluster each matches one node.
        """
        if terms is None:
            return self.every_row(self.rows)
        if self._matching_at != self._facts.now or self._kept_rows > MAX_ROWS:
            self._matching.clear()
            self._matching_at, self._kept_rows = self._facts.now, 0
        found = self._matching.get(terms)
        if found is None:
            found = self._matching[terms] = np.flatnonzero(self.matching(terms))
            self._kept_rows += len(found) + 1
        return found

    def has_value(self, key: str, values: Iterable[str]) -> Bools:
        """Return the nodes whose label ``key`` has one of these values."""
        return self._one_of(self._column(key, field=False), values)

    def has(self, key: str) -> Bools:
        """Return the nodes with a label."""
        return self._column(key, field=False).present()

    def _meets(self, requirement: Requirement) -> Bools:
        column = self._column(requirement.key, field=requirement.field)
        operator, values = requirement.operator, requirement.values
        missing = meets(operator, values, None)
        # Where a node without the label meets it, those that do not are fewer: the values that NotIn names.
        named = values if operator in ("In", "NotIn") else column.numbers
        others = [value for value in named if meets(operator, values, value) != missing]
        found = self._one_of(column, others)
        return ~found if missing else found

    @staticmethod
    def _one_of(column: _Column, values: Iterable[str]) -> Bools:
        codes = [code for value in values if (code := column.numbers.get(value)) is not None]
        found: Bools = column.codes == codes[0] if len(codes) == 1 else np.isin(column.codes, codes)
        return found

    def _column(self, key: str, *, field: bool) -> _Column:
        """Return the values of a label, or of a field of nodes, of which only the name exists."""
        facts, at = self._facts, (key, field)
        column = self._columns.get(at)
        if column is None:
            column = self._columns[at] = _Column()
            if len(self._columns) > MAX_LABELS:
                self._columns.popitem(last=False)
        else:
            self._columns.move_to_end(at)
        if column.seen == facts.now:
            return column
        if len(column.numbers) > 2 * facts.rows + MAX_LABELS:  # values of nodes that are gone
            column.numbers, column.seen = {}, -1
        if len(column.codes) < facts.rows:
            column.codes = np.pad(column.codes, (0, facts.rows - len(column.codes)))
        for row in np.array(facts.found[: facts.since(column.seen)]).tolist():
            node = self._nodes[row]
            if node is None:
                column.put(row, None)
            elif field:
                column.put(row, node.name if key == _NAME_FIELD else None)
            else:
                column.put(row, node.labels.get(key))
        column.seen = facts.now
        return column
