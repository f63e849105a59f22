"""The order of queues: the configured plugins in tier order, then age, then name.

Source: Volcano pkg/scheduler/framework (QueueOrderFn), pkg/scheduler/plugins/{proportion,capacity,drf}. In hierarchies
the comparison depends on the level at which two paths diverge, so the keys of hierarchies are objects, not numbers.
"""

from collections.abc import Iterable
from functools import total_ordering
from math import inf
from typing import Any

from deviceshare.conf import SchedulerConf
from deviceshare.queueing.hdrf import Hierarchy
from deviceshare.queueing.proportion import share
from deviceshare.queueing.queue_account import QueueAccount

Share = tuple[float, bool]
"""Allocated part of the deserved amount, and whether the queue deserves nothing (sorts last among equal shares)."""
Levels = tuple[tuple[bool, float], ...]
"""For each node on a path: whether it is saturated, and its share divided by its weight."""


@total_ordering
class _PartialKey:
    """A key that compares only the parts that :meth:`compared` returns."""

    __slots__ = ()

    def compared(self, other: Any) -> tuple[Any, Any]:
        """Return the parts to compare of this key and of another key of the same class."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self.compared(other)
        return bool(mine == theirs)

    def __lt__(self, other: "_PartialKey") -> bool:
        mine, theirs = self.compared(other)
        return bool(mine < theirs)

    __hash__ = None  # type: ignore[assignment]


class CapacityHierarchyKey(_PartialKey):
    """Key of a queue in ``capacity``'s hierarchy; compares the shares at which two paths from the root diverge.

    Source: pkg/scheduler/plugins/capacity (getQueueLevel, compareShareWithDeserved).
    """

    __slots__ = ("path",)

    def __init__(self, path: tuple[tuple[str, Share], ...]) -> None:
        self.path = path
        """Name and share of each queue from the root to this queue."""

    def compared(self, other: "CapacityHierarchyKey") -> tuple[Share, Share]:
        """Return the shares of the first different queues on both paths."""
        for (name, mine), (another, theirs) in zip(self.path, other.path, strict=False):
            if name != another:
                return mine, theirs
        return (0.0, False), (0.0, False)


class DrfHierarchyKey(_PartialKey):
    """Key of a queue in ``drf``'s hierarchy; compares level by level, up to the depth of the shorter path.

    Source: pkg/scheduler/plugins/drf (compareQueues).
    """

    __slots__ = ("levels",)

    def __init__(self, levels: Levels) -> None:
        self.levels = levels

    def compared(self, other: "DrfHierarchyKey") -> tuple[Levels, Levels]:
        """Return the levels that exist in both paths."""
        depth = min(len(self.levels), len(other.levels))
        return self.levels[:depth], other.levels[:depth]


QueueOrderKey = tuple[float | bool | str | CapacityHierarchyKey | DrfHierarchyKey, ...]


class QueueOrder:
    """The order of queues under one configuration. ``tree``: the shares of ``drf``'s hierarchy, if enabled."""

    def __init__(self, conf: SchedulerConf, tree: Hierarchy | None) -> None:
        self._tree = tree
        self._capacity = not conf.does("proportion", "QueueOrder") and not conf.does("proportion", "Allocatable")
        self._in_tree = self._capacity and conf.has_hierarchy("capacity")
        self._plugins = [
            name
            for name in conf.enabled("QueueOrder")
            if name in ("proportion", "capacity") or (name == "drf" and tree is not None)
        ]
        self._at_once = conf.extensions.parent_shares
        self._before: dict[str, Share] = {}
        """Shares of parent queues at the start of the round, used where the round must not update them."""

    def begin(self, accounts: Iterable[QueueAccount]) -> None:
        """Begin a scheduling round."""
        if self._in_tree and not self._at_once:
            self._before = {
                account.fact.name: self._share(account) for account in accounts if account.used is not account.allocated
            }

    def key(self, account: QueueAccount, *, borrowing: bool) -> QueueOrderKey:
        """Return a queue's sort key. ``borrowing``: queues may exceed their deserved amount."""
        fact = account.fact
        key: list[float | bool | str | CapacityHierarchyKey | DrfHierarchyKey] = []
        for plugin in self._plugins:
            if plugin == "drf" and self._tree is not None:
                key.append(DrfHierarchyKey(self._tree.levels(fact.name)))
                continue
            key.append(-fact.priority)
            if self._in_tree:
                key.append(
                    CapacityHierarchyKey(tuple((each.fact.name, self._share(each)) for each in reversed(account.path)))
                )
            elif self._capacity:
                key += self._share(account)
            else:
                # A queue that deserves nothing borrows last.
                key.append(inf if borrowing and account.deserves_nothing else share(account.used, account.deserved))
        return (*key, fact.created, fact.name)

    def _share(self, account: QueueAccount) -> Share:
        """Return the share under ``capacity``: 1 if a queue deserves nothing."""
        before = self._before.get(account.fact.name)
        if before is not None:
            return before
        return (1.0, True) if account.deserves_nothing else (share(account.used, account.deserved), False)
