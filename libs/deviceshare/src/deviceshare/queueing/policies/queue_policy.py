"""What a queue policy is: a plugin that orders pods, jobs and queues, divides the cluster, or admits groups."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import msgspec

from deviceshare.conf import SchedulerConf
from deviceshare.model import PodFact
from deviceshare.queueing.hdrf import Hierarchy
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.queue_account import QueueAccount
from deviceshare.queueing.queue_limits import QueueLimits
from deviceshare.queueing.shortage import Shortage

OrderKey = tuple[Any, ...]
"""Values that are compared one after the other; the smallest key is first."""


class Application(msgspec.Struct, frozen=True):
    """A group that asks for admission to its queue at ``now``, unix seconds, with its minimum resources."""

    job: Job
    account: QueueAccount
    needs: Mapping[str, int]
    limits: QueueLimits
    committed: Callable[[], Mapping[str, int]]
    """Returns what all queues have allocated and promised."""
    now: float


class QueuePolicy:
    """A policy under one configuration.

    Each method belongs to a function of Volcano's plugins, which the configuration may turn off. A policy overrides
    the methods of the functions that it has; the others say nothing.
    """

    starts_whole: ClassVar[bool] = False
    """Whether gangs start whole (JobReady)."""
    divides: ClassVar[bool] = False
    """Whether it says what queues deserve (:meth:`divide`). Of several such policies the last registered one counts;
    its key of queues replaces those of the others. It also bounds queues (Allocatable)."""
    limits_deserved: ClassVar[bool] = False
    """Whether a queue gets more than it deserves only by borrowing."""
    tree: Hierarchy | None = None
    """Shares by which queues are compared; the accounts keep them up to date."""
    hierarchical: bool = False
    """Whether the queues have parents, whose bounds apply as well."""

    def __init__(self, conf: SchedulerConf, total: Mapping[str, int]) -> None:
        """``total``: what the cluster has, by resource; it changes with the cluster."""
        self.conf = conf
        self.total = total

    def pod_key(self, pod: PodFact) -> OrderKey:
        """Return the place of a pod within its group (TaskOrder)."""
        return ()

    def job_key(self, job: Job, share: float) -> OrderKey:
        """Return the place of a job in its queue (JobOrder); ``share`` is its dominant share."""
        return ()

    def begin_round(self, accounts: Collection[QueueAccount]) -> None:
        """Begin a round, before the keys of queues are asked for."""

    def queue_key(self, account: QueueAccount, *, borrowing: bool) -> OrderKey:
        """Return the place of a queue (QueueOrder). ``borrowing``: queues may exceed their deserved amount."""
        return ()

    def divide(self, accounts: Mapping[str, QueueAccount], existing: Collection[str]) -> None:
        """Set the deserved amounts of the queues; ``existing``: those with an object, and the default queue."""

    def admit(self, application: Application) -> Shortage | bool:
        """Return why a group is not admitted, True to admit it, False to leave it to others (JobEnqueued)."""
        return False

    def admits_at(self, job: Job) -> float | None:
        """Return when it admits a waiting job whatever there is, unix seconds; None: never."""
        return None
