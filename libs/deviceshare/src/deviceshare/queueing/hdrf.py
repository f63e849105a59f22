"""Hierarchical dominant resource fairness (HDRF): the shares of the nodes of a tree of queues whose leaves are jobs.

The allocation of a node is the sum of its children's allocations, each scaled down to the smallest share among them, so
that a child which cannot use more does not count against its siblings. A job is *saturated* if it has its full request
of a resource, or requests an exhausted resource; a node is saturated if all its children are. Saturated nodes sort last
and are not scaled.

Source: Volcano pkg/scheduler/plugins/drf (buildHierarchy, updateHierarchicalShare, resourceSaturated), which recomputes
the whole tree after each pod; this module recomputes only changed nodes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from deviceshare.model import GroupKey, QueueFact, ResourceAmounts
from deviceshare.queueing.proportion import NOTHING, share
from deviceshare.queueing.queue_account import add

_DIGITS = 10
"""Decimal digits to which shares are compared: they are sums of rounded fractions."""


class _Node(msgspec.Struct, eq=False):
    """A node of the tree; ``allocated``, ``share`` and ``saturated`` are the values that its parent has counted."""

    parent: "_Node | None" = None
    weight: float = 1.0
    children: dict[str, "_Node"] = {}
    """Child nodes by name, without jobs."""
    allocated: Mapping[str, float] = {}
    share: float = 0.0
    saturated: bool = True
    changed: dict["_Node", None] = {}
    """Children to recompute."""
    full: dict[str, float] = {}
    """Total allocation of saturated children."""
    scaled: dict[str, float] = {}
    """Total allocation of the other children, each divided by its share."""
    shares: dict["_Node", float] = {}
    """Nonzero shares of unsaturated children."""
    unsaturated: set["_Node"] = set()

    def mark(self) -> None:
        """Mark the node and its ancestors for recomputation."""
        node = self
        while node.parent is not None and node not in node.parent.changed:
            node.parent.changed[node] = None
            node = node.parent

    def count(self, child: "_Node", sign: int) -> None:
        """Add a child to the sums, or remove it (sign -1)."""
        if child.saturated:
            if child.share:
                _add(self.full, child.allocated, sign)
            return
        if sign > 0:
            self.unsaturated.add(child)
        else:
            self.unsaturated.discard(child)
        if child.share:
            _add(self.scaled, child.allocated, sign / child.share)
            if sign > 0:
                self.shares[child] = child.share
            else:
                self.shares.pop(child)
                if not self.shares:
                    self.scaled.clear()

    def recompute(self, total: Mapping[str, int], demanding: frozenset[str]) -> None:
        """Recompute marked children, then allocation, share and saturation of the node."""
        for child in self.changed:
            self.count(child, -1)
            child.recompute(total, demanding)
            self.count(child, 1)
        self.changed.clear()
        smallest = min((1.0, *self.shares.values()))
        allocated = dict(self.full)
        _add(allocated, self.scaled, smallest)
        self.allocated = allocated
        self.share = share(allocated, total)
        self.saturated = not self.unsaturated


class _Job(_Node, eq=False):
    queue: str = ""
    requested: Counter[str] = msgspec.field(default_factory=Counter)
    held: Counter[str] = msgspec.field(default_factory=Counter)

    def leave(self) -> None:
        if self.parent is not None:
            self.parent.count(self, -1)
            self.parent.changed.pop(self, None)
            self.parent.mark()
            self.saturated, self.share = True, 0.0

    def recompute(self, total: Mapping[str, int], demanding: frozenset[str]) -> None:
        self.allocated = dict(self.held)
        self.share = share(self.held, total)
        self.saturated = any(
            self.requested[name] and (amount >= self.requested[name] or name not in demanding)
            for name, amount in self.held.items()
            if amount >= NOTHING
        )


class Hierarchy:
    """The tree of queue nodes and jobs. Jobs of queues without a path are children of the root."""

    def __init__(self, total: Mapping[str, int]) -> None:
        self._total = total
        self._jobs: dict[GroupKey, _Job] = {}
        self._allocated: Counter[str] = Counter()
        self._demanding: frozenset[str] = frozenset()
        self._root = _Node()
        self._nodes: dict[str, list[_Node]] = {}
        """The nodes on the path of each queue, top-down."""

    def set_queues(self, facts: Iterable[QueueFact]) -> None:
        """Rebuild the tree. If queues give a node different weights, the oldest queue's weight applies."""
        self._root = _Node()
        self._nodes = {}
        for fact in sorted(facts, key=lambda fact: (fact.created, fact.name)):
            node = self._root
            self._nodes[fact.name] = nodes = []
            for name, weight in fact.hierarchy:
                if name not in node.children:
                    node.children[name] = _Node(node, weight)
                node = node.children[name]
                nodes.append(node)
        for job in self._jobs.values():
            job.parent, job.saturated, job.share = self._node(job.queue), True, 0.0
        self.mark_all()

    def mark_all(self) -> None:
        """Mark all jobs for recomputation, for example after a change of the cluster total."""
        for job in self._jobs.values():
            job.mark()

    def add_request(self, group: GroupKey, queue: str, amounts: ResourceAmounts, sign: int) -> None:
        """Add the request of a pod of a group, or remove it (sign -1)."""
        job = self._jobs.get(group)
        if job is None:
            job = self._jobs[group] = _Job(self._node(queue), queue=queue)
        if job.queue != queue and sign > 0:
            job.leave()
            job.queue, job.parent = queue, self._node(queue)
        add(job.requested, amounts, sign)
        job.mark()
        if not any(job.requested.values()):
            job.leave()
            del self._jobs[group]

    def charge(self, group: GroupKey, amounts: ResourceAmounts, sign: int) -> None:
        """Add the allocation of a pod of a group, or remove it (sign -1)."""
        job = self._jobs.get(group)
        if job is not None:
            add(job.held, amounts, sign)
            add(self._allocated, amounts, sign)
            job.mark()

    def levels(self, queue: str) -> tuple[tuple[bool, float], ...]:
        """Return for each node on a queue's path: whether it is saturated, and share / weight. Lower sorts first."""
        demanding = frozenset(name for name, amount in self._total.items() if self._allocated[name] < amount)
        if demanding != self._demanding:
            self._demanding = demanding
            self.mark_all()
        if self._root.changed:
            self._root.recompute(self._total, demanding)
        return tuple((node.saturated, round(node.share / node.weight, _DIGITS)) for node in self._nodes.get(queue, ()))

    def _node(self, queue: str) -> _Node:
        nodes = self._nodes.get(queue)
        return nodes[-1] if nodes else self._root


def _add(amounts: dict[str, float], more: Mapping[str, float], factor: float) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0.0) + amount * factor
