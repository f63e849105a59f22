"""Checks of requests against the limits of queues and of the cluster.

Source: Volcano pkg/scheduler/plugins/{proportion,capacity} (Allocatable, JobEnqueueable) and overcommit.
"""

from collections.abc import Mapping
from math import inf

from deviceshare.conf import SchedulerConf
from deviceshare.model import ResourceAmounts
from deviceshare.queueing.amounts import Counting
from deviceshare.queueing.queue_account import QueueAccount
from deviceshare.queueing.shortage import CAPABILITY, CLUSTER, DESERVED, GUARANTEED, OVERCOMMIT, Shortage
from deviceshare.state import PODS

_ROUNDING = 1e-6
"""Tolerance, in the unit of each resource: exact deserved amounts are fractions."""


class QueueLimits:
    """The limits under one configuration. ``pods`` is never limited."""

    def __init__(self, conf: SchedulerConf, counting: Counting) -> None:
        self._counting = counting
        self._enabled = conf.bounds_queues("Allocatable")
        self.by_weight, self.by_deserved = (
            conf.does(plugin, "Allocatable") or conf.does(plugin, "QueueOrder") for plugin in ("proportion", "capacity")
        )
        self.hierarchical = self.by_deserved and conf.has_hierarchy("capacity")
        self._rounding = _ROUNDING if conf.extensions.exact_shares else 0.0

    def shortage(self, account: QueueAccount, amounts: ResourceAmounts, *, borrowing: bool) -> Shortage | None:
        """Return the first limit that a pod with these amounts would exceed in its queue, or None.

        ``borrowing``: the queue may exceed its deserved amount.
        """
        if not self._enabled:
            return None
        for name, amount in amounts:
            if name == PODS:
                continue
            for each in account.path:
                used, most = each.used[name], each.bound.get(name)
                if most is not None and used + amount > most:
                    bound = GUARANTEED if name in each.guaranteed else CAPABILITY
                    return Shortage(each.fact.name, bound, name, most, used, amount)
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
        return None if borrowing or not self.by_weight else account.deserved.get(resource)

    def capability_shortage(self, account: QueueAccount, needs: Mapping[str, int]) -> Shortage | None:
        """Return the limit that keeps a queue from admitting a group with these minimum resources, or None.

        A queue without a bound is limited by the cluster. In a hierarchy it may commit more than the cluster has, as
        in Volcano, but not of a resource that the cluster lacks.
        """
        for each in account.path:
            for name, amount in needs.items():
                if name == PODS:
                    continue
                total = self._counting.limit(name)
                default = None if self.hierarchical and total else total
                used, most = each.promised[name], each.bound.get(name, default)
                if most is not None and amount and used + amount > most:
                    bound = GUARANTEED if name in each.guaranteed else CAPABILITY if name in each.bound else CLUSTER
                    return Shortage(each.fact.name, bound, name, most, used, amount, promised=True)
        return None

    def overcommit_shortage(
        self, queue: str, needs: Mapping[str, int], factor: float, committed: Mapping[str, int]
    ) -> Shortage | None:
        """Return the resource of which ``committed`` and ``needs`` exceed ``factor`` times the cluster, or None."""
        for name, amount in needs.items():
            if amount and name != PODS and (total := self._counting.limit(name)) is not None:
                used = committed.get(name, 0)
                if used + amount > total * factor:
                    return Shortage(queue, OVERCOMMIT, name, int(total * factor), used, amount, promised=True)
        return None
