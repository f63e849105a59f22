"""The policy ``drf``: dominant resource fairness among jobs, and in a tree of queues (HDRF).

Source: Volcano pkg/scheduler/plugins/drf.
"""

from collections.abc import Mapping

from deviceshare.conf import SchedulerConf
from deviceshare.queueing.hdrf import Hierarchy
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.policies.partial_keys import PartialKey
from deviceshare.queueing.policies.queue_policy import OrderKey, QueuePolicy
from deviceshare.queueing.queue_account import QueueAccount

Levels = tuple[tuple[bool, float], ...]
"""For each node on a path: whether it is saturated, and its share divided by its weight."""


class DrfHierarchyKey(PartialKey):
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


class DrfPolicy(QueuePolicy):
    """Orders jobs by their dominant share, and with ``enableHierarchy`` queues by the shares in their tree."""

    def __init__(self, conf: SchedulerConf, total: Mapping[str, int]) -> None:
        super().__init__(conf, total)
        self.tree = Hierarchy(total) if conf.has_hierarchy("drf") else None

    def job_key(self, job: Job, share: float) -> OrderKey:
        """Return the dominant share of the job."""
        return (share,)

    def queue_key(self, account: QueueAccount, *, borrowing: bool) -> OrderKey:
        """Return the shares on the path of the queue."""
        return () if self.tree is None else (DrfHierarchyKey(self.tree.levels(account.fact.name)),)


POLICY = DrfPolicy
