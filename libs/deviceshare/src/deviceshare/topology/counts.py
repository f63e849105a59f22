"""How many of the selected pods are in each domain, kept up to date pod by pod."""

from collections.abc import Callable, Sequence

import numpy as np

from deviceshare.model import NodeFact
from deviceshare.topology.domains import Bools, Domains, Ints
from deviceshare.topology.selections import Selection


class Eligible:
    """The nodes that count for some constraints: ``nodes`` bool[rows]; ``accepts`` tells whether a node counts."""

    def __init__(self, accepts: Callable[[NodeFact], bool], nodes: Sequence[NodeFact | None], rows: int) -> None:
        self.accepts = accepts
        self.nodes: Bools = np.zeros(rows, dtype=np.bool_)
        for row, node in enumerate(nodes):
            self.put(row, node)

    def put(self, row: int, node: NodeFact | None) -> None:
        """Set the node of a row."""
        self.nodes[row] = node is not None and self.accepts(node)

    def grow(self, rows: int) -> None:
        """Allocate this number of rows."""
        self.nodes = np.pad(self.nodes, (0, rows - len(self.nodes)))


class PodCount:
    """The pods of one selection on each node (``per_row`` int64[rows]), and by domain as far as constraints use it.

    ``version`` is that of the nodes by which domains were counted last.
    """

    def __init__(self, selection: Selection, rows: int, version: int) -> None:
        self.selection = selection
        self.per_row: Ints = np.zeros(rows, dtype=np.int64)
        self._on_row = self.per_row.data
        """The same, whose single elements are read and written in less time."""
        self.version = version
        self.by_domain: list[DomainCount] = []

    def add(self, row: int, pods: int, version: int) -> None:
        """Add pods on a node; ``version`` is the current one of the nodes."""
        self._on_row[row] += pods
        if self.version == version:
            for count in self.by_domain:
                count.add(row, pods)

    def of(self, domains: Domains, eligible: Eligible | None) -> "DomainCount":
        """Return the count by domain for one more user."""
        for count in self.by_domain:
            if count.domains is domains and count.eligible is eligible:
                break
        else:
            count = DomainCount(self, domains, eligible)
            self.by_domain.append(count)
        count.users += 1
        return count

    def grow(self, rows: int) -> None:
        """Allocate this number of rows."""
        self.per_row = np.pad(self.per_row, (0, rows - len(self.per_row)))
        self._on_row = self.per_row.data

    def refresh(self, version: int) -> None:
        """Count by domain again if nodes have changed."""
        if self.version != version:
            self.version = version
            for count in self.by_domain:
                count.recount()


class DomainCount:
    """The counted pods in each domain of one topology key: ``pods`` int64[domains], ``total`` in all of them.

    With ``eligible`` only pods on eligible nodes count; ``nodes`` int64[domains] is the number of such nodes in
    each domain. Nodes without the label count nowhere: the first entry is 0.
    """

    def __init__(self, on_nodes: PodCount, domains: Domains, eligible: Eligible | None) -> None:
        self.on_nodes = on_nodes
        self.domains = domains
        self.eligible = eligible
        self.users = 0
        self.total = 0
        self.pods: Ints = np.zeros(0, dtype=np.int64)
        self.nodes: Ints = np.zeros(0, dtype=np.int64)
        self.populated = 0
        """The number of domains with such nodes."""
        self._least = 0
        self._at_least = 0
        """With ``eligible`` the lowest number of pods in one of these domains, and how many have it; 0: not known."""
        self.recount()

    def recount(self) -> None:
        """Count all pods again."""
        counting = self.domains.of_row > 0
        if self.eligible is not None:
            counting &= self.eligible.nodes
        of_row, size = self.domains.of_row[counting], self.domains.size
        pods = np.bincount(of_row, weights=self.on_nodes.per_row[counting], minlength=size)
        self.pods = pods.astype(np.int64)
        self.nodes = np.bincount(of_row, minlength=size)
        self.total = int(self.pods.sum())
        self._pods_in = self.pods.data
        if self.eligible is not None:
            self.populated = int(np.count_nonzero(self.nodes))
            self._at_least = 0

    def add(self, row: int, pods: int) -> None:
        """Add pods on a node."""
        domain = self.domains.domain_of[row]
        if not domain or (self.eligible is not None and not self.eligible.nodes[row]):
            return
        self.total += pods
        before = self._pods_in[domain]
        self._pods_in[domain] = after = before + pods
        if self._at_least:
            if before == self._least:
                self._at_least -= 1
            if after == self._least:
                self._at_least += 1
            elif after < self._least:
                self._at_least = 0

    @property
    def least(self) -> int:
        """The lowest number of pods in a domain with eligible nodes, 0 without such domains."""
        if not self._at_least and self.populated:
            pods = self.pods[self.nodes > 0]
            self._least = int(pods.min())
            self._at_least = int(np.count_nonzero(pods == self._least))
        return self._least if self.populated else 0
