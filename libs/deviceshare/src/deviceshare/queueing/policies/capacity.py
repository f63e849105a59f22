"""The policy ``capacity``: queues deserve what their object says, also in a hierarchy of queues.

Source: Volcano pkg/scheduler/plugins/capacity (buildQueueAttrs; for hierarchies buildHierarchicalQueueAttrs and
checkHierarchicalQueue). In hierarchies the comparison depends on the level at which two paths diverge, so the keys are
objects, not numbers.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from math import inf

from deviceshare.conf import SchedulerConf
from deviceshare.model import QueueFact
from deviceshare.queueing.bounds import capability, set_bounds, with_guarantees
from deviceshare.queueing.hierarchy import ROOT
from deviceshare.queueing.policies.partial_keys import PartialKey
from deviceshare.queueing.policies.queue_policy import Application, OrderKey, QueuePolicy
from deviceshare.queueing.proportion import share
from deviceshare.queueing.queue_account import QueueAccount
from deviceshare.queueing.shortage import Shortage
from deviceshare.state import PODS

Share = tuple[float, bool]
"""Allocated part of the deserved amount, and whether the queue deserves nothing (sorts last among equal shares)."""


class CapacityHierarchyKey(PartialKey):
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


class CapacityPolicy(QueuePolicy):
    """Divides the cluster by the objects of queues."""

    divides = True

    def __init__(self, conf: SchedulerConf, total: Mapping[str, int]) -> None:
        super().__init__(conf, total)
        self.hierarchical = conf.has_hierarchy("capacity")
        self._before: dict[str, Share] = {}
        """Shares of parent queues at the start of the round, used where the round must not update them."""

    def begin_round(self, accounts: Collection[QueueAccount]) -> None:
        """Keep the shares of parents, unless allocations change them at once."""
        self._before = {}
        if self.hierarchical and not self.conf.extensions.parent_shares:
            self._before = {
                account.fact.name: self._share(account) for account in accounts if account.used is not account.allocated
            }

    def queue_key(self, account: QueueAccount, *, borrowing: bool) -> OrderKey:
        """Return the priority of the queue and its share, in a hierarchy the shares on its path."""
        if not self.hierarchical:
            return (-account.fact.priority, *self._share(account))
        path = tuple((each.fact.name, self._share(each)) for each in reversed(account.path))
        return (-account.fact.priority, CapacityHierarchyKey(path))

    def divide(self, accounts: Mapping[str, QueueAccount], existing: Collection[str]) -> None:
        """Set the deserved amounts: at most the bound of the queue, at least its guarantee."""
        if self.hierarchical:
            set_in_hierarchy(accounts.values(), accounts[ROOT], self.total)
            return
        most = with_guarantees(accounts.values(), self.total)
        for account in accounts.values():
            account.deserved = _deserved(account.fact, _smaller(most, account.bound))

    def admit(self, application: Application) -> Shortage | bool:
        """Admit what is within the capability of the queue."""
        return application.limits.capability_shortage(application.account, application.needs) or True

    def _share(self, account: QueueAccount) -> Share:
        """Return the share: 1 if a queue deserves nothing."""
        before = self._before.get(account.fact.name)
        if before is not None:
            return before
        return (1.0, True) if account.deserves_nothing else (share(account.used, account.deserved), False)


def set_in_hierarchy(accounts: Collection[QueueAccount], root: QueueAccount, total: Mapping[str, int]) -> None:
    """Set the bounds and deserved amounts of all queues below the root.

    A root without a capability is unbounded, and then the guarantees of its children bound no queue either. A root
    with a capability has 0 of each resource that the capability does not name. Deserved amounts may exceed the bounds.
    """
    children: defaultdict[str, list[QueueAccount]] = defaultdict(list)
    for account in accounts:
        if account.above:
            children[account.above[0].fact.name].append(account)
    named = capability(root.fact)
    root.bound = (
        {name: named.get(name, 0) for name in named.keys() | total.keys() if name != PODS}
        if any(named.values())
        else {}
    )
    todo: list[tuple[QueueAccount, Mapping[str, int]]] = [(root, root.bound)]
    while todo:
        parent, most = todo.pop()
        below = children[parent.fact.name]
        set_bounds(below, most)
        for account in below:
            account.deserved = _deserved(account.fact, {})
            todo.append((account, _smaller(most, account.bound)))


def _deserved(fact: QueueFact, most: Mapping[str, int]) -> dict[str, float]:
    names = fact.deserved.keys() | fact.guarantee.keys()
    return {
        name: max(min(fact.deserved.get(name, 0), most.get(name, inf)), fact.guarantee.get(name, 0)) for name in names
    }


def _smaller(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: min(amount, other.get(name, amount)) for name, amount in {**other, **one}.items()}


POLICY = CapacityPolicy
