"""Checks of requests against the limits of queues.

Source: Volcano pkg/scheduler/plugins/{proportion,capacity} (Allocatable, JobEnqueueable).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from deviceshare.model import ResourceAmounts
from deviceshare.queueing.amounts import Counting
from deviceshare.queueing.proportion import NOTHING
from deviceshare.queueing.queue_account import QueueAccount, add
from deviceshare.queueing.shortage import CAPABILITY, CLUSTER, DESERVED, GUARANTEED, Shortage
from deviceshare.state import PODS

_ROUNDING = 1e-6
"""Tolerance, in the unit of each resource: exact deserved amounts are fractions."""


class QueueLimits:
    """The limits under one configuration. ``pods`` is never limited.

    ``bounded``: whether bounds and deserved amounts apply to pods. ``deserved``: whether a queue gets more than it
    deserves only by borrowing. ``hierarchical``: whether queues have parents. ``exact``: whether deserved amounts are.
    """

    def __init__(self, counting: Counting, *, bounded: bool, deserved: bool, hierarchical: bool, exact: bool) -> None:
        self._counting = counting
        self._bounded = bounded
        self._limits_deserved = deserved
        self._hierarchical = hierarchical
        self._rounding = _ROUNDING if exact else 0.0

    def shortage(self, account: QueueAccount, amounts: ResourceAmounts, *, borrowing: bool) -> Shortage | None:
        """Return the first limit that a pod with these amounts would exceed in its queue, or None.

        ``borrowing``: the queue may exceed its deserved amount.
        """
        if not self._bounded:
            return None
        for name, amount in amounts:
            if name == PODS:
                continue
            for each in account.path:
                used, most = each.used[name], each.bound.get(name)
                if most is not None and used + amount > most:
                    return Shortage(each.fact.name, _bound(each, name), name, most, used, amount)
            used, fair = account.used[name], self._deserved(account, name, borrowing=borrowing)
            if fair is not None and used + amount > fair + self._rounding:
                return Shortage(account.fact.name, DESERVED, name, int(fair), used, amount)
        return None

    def allows(self, account: QueueAccount, resource: str, amount: int, *, borrowing: bool) -> bool:
        """Return whether a queue may allocate an additional amount of a resource."""
        if resource == PODS:
            return True
        if any(each.used[resource] + amount > each.bound.get(resource, inf) for each in account.path):
            return False
        fair = self._deserved(account, resource, borrowing=borrowing)
        return fair is None or account.used[resource] + amount <= fair + self._rounding

    def _deserved(self, account: QueueAccount, resource: str, *, borrowing: bool) -> float | None:
        """Return the deserved amount if it is a limit, else None."""
        return None if borrowing or not self._limits_deserved else account.deserved.get(resource)

    def capability_shortage(self, account: QueueAccount, needs: Mapping[str, int]) -> Shortage | None:
        """Return the limit that keeps a queue from admitting a group with these minimum resources, or None.

        A queue without a bound is limited by the cluster. In a hierarchy it may commit more than the cluster has, as
        in Volcano, but not of a resource that the cluster lacks.
        """
        for each in account.path:
            for name, amount in needs.items():
                if name == PODS:
                    continue
                total = self.of_cluster(name)
                default = None if self._hierarchical and total else total
                used, most = each.promised[name], each.bound.get(name, default)
                if most is not None and amount and used + amount > most:
                    bound = _bound(each, name) if name in each.bound else CLUSTER
                    return Shortage(each.fact.name, bound, name, most, used, amount, promised=True)
        return None

    def excess(self, account: QueueAccount, amounts: Iterable[ResourceAmounts]) -> Shortage | None:
        """Return the bound of a queue or its ancestors that amounts exceed together, ignoring their usage, or None."""
        total: Counter[str] = Counter()
        for of_pod in amounts:
            add(total, of_pod, 1)
        for each in account.path:
            for name, amount in total.items():
                if amount > (most := each.bound.get(name, amount)):
                    return Shortage(each.fact.name, _bound(each, name), name, most, 0, amount)
        return None

    def of_cluster(self, resource: str) -> int | None:
        """Return how much the cluster has of a resource, None without a limit."""
        return self._counting.limit(resource)

    def lacking(self, accounts: Iterable[QueueAccount]) -> Iterator[tuple[str, tuple[int, list[str]]]]:
        """Yield the queues that have less than they deserve and request.

        For each: a number that changes with its allocations, and the resources that it lacks.
        """
        for account in accounts if self._limits_deserved else ():
            lacks = [
                resource
                for resource, deserved in account.deserved.items()
                if resource != PODS
                and account.allocated[resource] + NOTHING < min(deserved, account.requested[resource])
            ]
            if lacks:
                yield account.fact.name, (account.allocated.total(), lacks)


def _bound(account: QueueAccount, resource: str) -> str:
    """Return what the bound of a queue for a resource is due to."""
    return GUARANTEED if resource in account.guaranteed else CAPABILITY
