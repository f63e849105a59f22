"""Dominant resource fairness among queues in a hierarchy: the shares of the nodes of a tree, whose leaves are jobs.

A node has what its children have, each scaled down to the smallest share among them, so that a child which cannot use
more does not count against its siblings. A job that has all that it asks of a resource, or asks one of which nothing is
left, is *saturated*, and so is a node all of whose children are: those come last and are not scaled.

Source: Volcano pkg/scheduler/plugins/drf (buildHierarchy, updateHierarchicalShare, resourceSaturated), which works out
the whole tree anew after each pod; here only what changed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from deviceshare.model import GroupKey, QueueFact
from deviceshare.queueing.drf import dominant_share
from deviceshare.queueing.proportion import NOTHING
from deviceshare.queueing.queue_account import add

Amounts = Iterable[tuple[str, int]]
_DIGITS = 10
"""Shares are sums of fractions: what differs after so many digits does not differ."""


class _Node:
    """A part of the tree: ``allocated``, ``share`` and ``saturated`` as its parent counts them."""

    __slots__ = ("allocated", "changed", "children", "full", "parent", "saturated", "scaled", "share", "shares",
                 "unsaturated", "weight")  # fmt: skip

    def __init__(self, parent: "_Node | None" = None, weight: float = 1.0) -> None:
        self.parent = parent
        self.weight = weight
        self.children: dict[str, _Node] = {}
        """The nodes below it by name; jobs are not among them."""
        self.allocated: Mapping[str, float] = {}
        self.share = 0.0
        self.saturated = True
        self.changed: dict[_Node, None] = {}
        """The nodes and jobs below it that have to be looked at."""
        self.full: dict[str, float] = {}
        """What saturated children have."""
        self.scaled: dict[str, float] = {}
        """What the other children have for each unit of their share."""
        self.shares: dict[_Node, float] = {}
        """The shares of those, where they have any."""
        self.unsaturated: set[_Node] = set()

    def mark(self) -> None:
        """Let it be looked at, and so all nodes above it."""
        node = self
        while node.parent is not None and node not in node.parent.changed:
            node.parent.changed[node] = None
            node = node.parent

    def count(self, child: "_Node", sign: int) -> None:
        """Count a child, or with the sign -1 no more."""
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

    def work_out(self, total: Mapping[str, int], demanding: frozenset[str]) -> None:
        """Look at the children that changed, and work out what the node has and its share."""
        for child in self.changed:
            self.count(child, -1)
            child.work_out(total, demanding)
            self.count(child, 1)
        self.changed.clear()
        smallest = min((1.0, *self.shares.values()))
        allocated = dict(self.full)
        _add(allocated, self.scaled, smallest)
        self.allocated = allocated
        self.share = dominant_share(allocated, total)
        self.saturated = not self.unsaturated


class _Job(_Node):
    __slots__ = ("asked", "has", "queue")

    def __init__(self, parent: _Node, queue: str) -> None:
        super().__init__(parent)
        self.queue = queue
        self.asked: Counter[str] = Counter()
        self.has: Counter[str] = Counter()

    def leave(self) -> None:
        """Go from its node."""
        if self.parent is not None:
            self.parent.count(self, -1)
            self.parent.changed.pop(self, None)
            self.parent.mark()
            self.saturated, self.share = True, 0.0

    def work_out(self, total: Mapping[str, int], demanding: frozenset[str]) -> None:
        self.allocated = dict(self.has)
        self.share = dominant_share(self.has, total)
        self.saturated = any(
            self.asked[name] and (amount >= self.asked[name] or name not in demanding)
            for name, amount in self.has.items()
            if amount >= NOTHING
        )


class Hierarchy:
    """The tree of the queues' nodes and all jobs. Queues without a path have their jobs at the root."""

    def __init__(self, total: Mapping[str, int]) -> None:
        self._total = total
        self._jobs: dict[GroupKey, _Job] = {}
        self._allocated: Counter[str] = Counter()
        self._demanding: frozenset[str] = frozenset()
        self._root = _Node()
        self._nodes: dict[str, list[_Node]] = {}
        """The nodes on the path of each queue, from the top."""

    def set_queues(self, facts: Iterable[QueueFact]) -> None:
        """Build the tree anew. Where queues give a node different weights that of the oldest queue counts."""
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
        self.look_at_all()

    def look_at_all(self) -> None:
        """Compute all shares again: what the cluster has changed."""
        for job in self._jobs.values():
            job.mark()

    def ask(self, group: GroupKey, queue: str, amounts: Amounts, sign: int) -> None:
        """Enter what a pod of a group asks, or with the sign -1 take it out."""
        job = self._jobs.get(group)
        if job is None:
            job = self._jobs[group] = _Job(self._node(queue), queue)
        if job.queue != queue and sign > 0:
            job.leave()
            job.queue, job.parent = queue, self._node(queue)
        add(job.asked, amounts, sign)
        job.mark()
        if not any(job.asked.values()):
            job.leave()
            del self._jobs[group]

    def charge(self, group: GroupKey, amounts: Amounts, sign: int) -> None:
        """Enter what a pod of a group has, or with the sign -1 take it back."""
        job = self._jobs.get(group)
        if job is not None:
            add(job.has, amounts, sign)
            add(self._allocated, amounts, sign)
            job.mark()

    def levels(self, queue: str) -> tuple[tuple[bool, float], ...]:
        """Return for each node on a queue's path whether it is saturated, and its share by weight: low is first."""
        demanding = frozenset(name for name, amount in self._total.items() if self._allocated[name] < amount)
        if demanding != self._demanding:
            self._demanding = demanding
            self.look_at_all()
        if self._root.changed:
            self._root.work_out(self._total, demanding)
        return tuple((node.saturated, round(node.share / node.weight, _DIGITS)) for node in self._nodes.get(queue, ()))

    def _node(self, queue: str) -> _Node:
        nodes = self._nodes.get(queue)
        return nodes[-1] if nodes else self._root


def _add(amounts: dict[str, float], more: Mapping[str, float], factor: float) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0.0) + amount * factor
