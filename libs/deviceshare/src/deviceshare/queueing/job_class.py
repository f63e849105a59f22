"""Job classes: jobs of one queue that are decided alike."""

from collections.abc import Hashable
from math import inf

import msgspec

from deviceshare.model import GroupKey
from deviceshare.queueing.gangs import UNEXPLAINED, Reason, lacks_room
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.policies import OrderKey
from deviceshare.queueing.replacing_heap import ReplacingHeap
from deviceshare.queueing.shortage import Shortage

NO_ROOM, ROOM_NEAR_PODS, ROOM_FOR_VOLUMES, ROOM, ROOM_FOR_DEVICES = 0, 1, 2, 4, 8
"""New room since the last round, as bits: none, for pods that follow others, for pods with claims, or on nodes."""


class JobClass(msgspec.Struct, eq=False):
    """Jobs of one queue that have the same feasibility (:attr:`Job.class_key`): active, or parked for a reason."""

    name: Hashable
    queue: str
    order: ReplacingHeap[OrderKey, Job] = msgspec.field(default_factory=ReplacingHeap)
    jobs: dict[GroupKey, Job] = {}
    order_key: OrderKey | None = None
    """The key of its current entry in the queue's heap; None while parked."""
    reasons: tuple[Reason, ...] = ()
    """Why it is parked: the reasons of its first job's pods."""
    reported_reasons: tuple[Reason, ...] = ()
    """The reasons of the last diagnosis, which may be older than ``reasons``."""
    explained_at: float = -inf
    """When the lack of capacity was last diagnosed, monotonic seconds."""
    needs: list[tuple[str, int, bool]] = []
    """Resource, additional amount that its queue must allow, and whether the deserved amount is ignored."""
    borrowing: bool = False
    """Whether its queue was allowed to borrow when it was parked."""
    preemption: str = ""
    """Why no pod goes for its jobs, '' if that is not known."""
    woken_by: int = ROOM
    """What new room may make nodes feasible for it, as bits: :data:`ROOM` always."""

    @property
    def lacks_room(self) -> bool:
        """Whether new room on nodes may serve it."""
        return any(map(lacks_room, self.reasons))

    @property
    def fits_nowhere(self) -> bool:
        """Whether it is parked for lack of capacity on nodes."""
        return any(not isinstance(reason, Shortage) for reason in self.reasons)

    @property
    def unexplained(self) -> bool:
        """Whether it is parked without a diagnosis."""
        return any(reason is UNEXPLAINED for reason in self.reasons)

    @property
    def shortages(self) -> list[Shortage]:
        """The queue bounds for which it is parked."""
        return [reason for reason in self.reasons if isinstance(reason, Shortage)]

    def first(self) -> tuple[OrderKey, Job] | None:
        """Return the first job and its order key, or None."""
        return self.order.first()


def is_before(one: tuple[JobClass, Job], other: tuple[JobClass, Job] | None) -> bool:
    """Return whether the first job of an active job class comes before the one of another class, if any."""
    return other is None or (one[0].order_key or ()) < (other[0].order_key or ())
