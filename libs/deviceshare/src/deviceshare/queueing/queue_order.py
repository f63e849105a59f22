"""The order of queues: what the configured plugins say of two, tier by tier, then age, then name.

Source: Volcano pkg/scheduler/framework (QueueOrderFn), pkg/scheduler/plugins/{proportion,capacity,drf}. Its comparisons
of queues in hierarchies depend on the level on which two paths diverge, so such places are objects, not numbers.
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
"""The share of what a queue deserves, and whether it deserves nothing: of equal shares those come last."""
Levels = tuple[tuple[bool, float], ...]
"""For each node on a path whether it is saturated, and its share by weight."""


@total_ordering
class _PartialPlace:
    """A place that is compared with another one only by the part of both that :meth:`compared` returns."""

    __slots__ = ()

    def compared(self, other: Any) -> tuple[Any, Any]:
        """Return what of this place and of another one of the same class is compared."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Return whether neither comes first."""
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self.compared(other)
        return bool(mine == theirs)

    def __lt__(self, other: "_PartialPlace") -> bool:
        """Return whether this one comes first."""
        mine, theirs = self.compared(other)
        return bool(mine < theirs)

    __hash__ = None  # type: ignore[assignment]


class TreePlace(_PartialPlace):
    """The place of a queue in ``capacity``'s hierarchy: two are compared where their paths from the root diverge.

    Source: pkg/scheduler/plugins/capacity (getQueueLevel, compareShareWithDeserved).
    """

    __slots__ = ("path",)

    def __init__(self, path: tuple[tuple[str, Share], ...]) -> None:
        self.path = path
        """The queues from the top to this one, and their shares."""

    def compared(self, other: "TreePlace") -> tuple[Share, Share]:
        """Return the shares of the first queues on both paths that differ."""
        for (name, mine), (another, theirs) in zip(self.path, other.path, strict=False):
            if name != another:
                return mine, theirs
        return (0.0, False), (0.0, False)


class PathPlace(_PartialPlace):
    """The place of a queue in ``drf``'s hierarchy: level by level, as far as both paths go.

    Source: pkg/scheduler/plugins/drf (compareQueues).
    """

    __slots__ = ("levels",)

    def __init__(self, levels: Levels) -> None:
        self.levels = levels

    def compared(self, other: "PathPlace") -> tuple[Levels, Levels]:
        """Return the levels that both paths have."""
        depth = min(len(self.levels), len(other.levels))
        return self.levels[:depth], other.levels[:depth]


Place = tuple[float | bool | str | TreePlace | PathPlace, ...]


class QueueOrder:
    """The order of queues under one configuration. ``tree`` has the shares of ``drf``'s hierarchy, if that is on."""

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
        """The shares of queues with others below them when the cycle began, where those count."""

    def begin(self, accounts: Iterable[QueueAccount]) -> None:
        """Begin a cycle."""
        if self._in_tree and not self._at_once:
            self._before = {
                account.fact.name: self._share(account) for account in accounts if account.used is not account.allocated
            }

    def place(self, account: QueueAccount, *, beyond: bool) -> Place:
        """Return a queue's place. ``beyond``: among those who may pass what they deserve."""
        fact = account.fact
        place: list[float | bool | str | TreePlace | PathPlace] = []
        for plugin in self._plugins:
            if plugin == "drf" and self._tree is not None:
                place.append(PathPlace(self._tree.levels(fact.name)))
                continue
            place.append(-fact.priority)
            if self._in_tree:
                place.append(TreePlace(tuple((each.fact.name, self._share(each)) for each in reversed(account.path))))
            elif self._capacity:
                place += self._share(account)
            else:
                # Who deserves nothing comes last where only what is left over is given away.
                place.append(inf if beyond and account.deserves_nothing else share(account.used, account.deserved))
        return (*place, fact.created, fact.name)

    def _share(self, account: QueueAccount) -> Share:
        """Return the share by ``capacity``: 1 where a queue deserves nothing."""
        before = self._before.get(account.fact.name)
        if before is not None:
            return before
        return (1.0, True) if account.deserves_nothing else (share(account.used, account.deserved), False)
