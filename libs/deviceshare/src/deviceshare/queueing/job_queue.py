"""The jobs of all queues in scheduling order.

Each queue has a heap of job classes, each job class a heap of jobs. Stale heap entries are skipped when they reach the
top, so every change takes logarithmic time and nothing is sorted or searched.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from math import inf

import msgspec

from deviceshare.model import GroupKey
from deviceshare.queueing.gangs import UNEXPLAINED, Reason
from deviceshare.queueing.jobs import Job, JobOrderKey
from deviceshare.queueing.shortage import Shortage

NO_ROOM, ROOM_NEAR_PODS, ROOM_FOR_VOLUMES, ROOM = 0, 1, 2, 4
"""New room since the last round, as bits: none, for pods that follow others, for pods with claims, or on nodes."""
_MAX_STALE = 64
"""Stale heap entries allowed in addition to the number of jobs."""


class JobClass(msgspec.Struct, eq=False):
    """Jobs of one queue that have the same feasibility (:attr:`Job.class_key`): active, or parked for a reason."""

    name: Hashable
    queue: str
    heap: list[tuple[JobOrderKey, int, Job]] = []
    jobs: dict[GroupKey, Job] = {}
    entries: dict[GroupKey, int] = {}
    """The number of each job's current entry in ``heap``."""
    order_key: JobOrderKey | None = None
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
    woken_by: int = ROOM
    """What new room may make nodes feasible for it, as bits: :data:`ROOM` always."""

    @property
    def lacks_room(self) -> bool:
        """Whether it is parked for lack of capacity on nodes."""
        return any(not isinstance(reason, Shortage) for reason in self.reasons)

    def may_fit(self, room: int) -> bool:
        """Return whether a job class that lacks capacity may find it, since there is new ``room`` (bits)."""
        return self.lacks_room and bool(room & self.woken_by)

    @property
    def unexplained(self) -> bool:
        """Whether it is parked without a diagnosis."""
        return any(reason is UNEXPLAINED for reason in self.reasons)

    @property
    def shortages(self) -> list[Shortage]:
        """The queue bounds for which it is parked."""
        return [reason for reason in self.reasons if isinstance(reason, Shortage)]

    def compact(self) -> None:
        """Rebuild the heap without stale entries once they outnumber the jobs."""
        if len(self.heap) > 2 * len(self.jobs) + _MAX_STALE:
            self.heap = [entry for entry in self.heap if self.entries.get(entry[2].key) == entry[1]]
            heapify(self.heap)

    def first(self) -> tuple[JobOrderKey, Job] | None:
        """Return the first job and its order key, or None."""
        while self.heap:
            order_key, number, job = self.heap[0]
            if self.entries.get(job.key) == number:
                return order_key, job
            heappop(self.heap)
        return None


class JobQueue:
    """The job classes of all queues: active ones in order, and parked ones."""

    def __init__(self) -> None:
        self._job_classes: dict[Hashable, JobClass] = {}
        self._of_job: dict[GroupKey, JobClass] = {}
        self._queues: dict[str, list[tuple[JobOrderKey, int, JobClass]]] = {}
        self._entries = 0
        self._active: set[Hashable] = set()
        self.parked: dict[Hashable, JobClass] = {}

    def counts(self) -> Counter[str]:
        """Return the number of jobs in each queue."""
        counts: Counter[str] = Counter()
        for job_class in self._job_classes.values():
            counts[job_class.queue] += len(job_class.jobs)
        return counts

    def __len__(self) -> int:
        """Return the number of active job classes."""
        return len(self._active)

    @property
    def queues(self) -> set[str]:
        """The queues with active job classes."""
        return {self._job_classes[name].queue for name in self._active}

    def find(self, key: GroupKey) -> tuple[JobClass, Job] | None:
        """Return a job and its job class, or None."""
        job_class = self._of_job.get(key)
        return None if job_class is None else (job_class, job_class.jobs[key])

    def put(self, job: Job, order_key: JobOrderKey) -> JobClass:
        """Put a job in, in place of the job with its key. Returns its job class, which may be parked."""
        self.discard(job.key)
        name = job.class_key
        job_class = self._job_classes.get(name)
        if job_class is None:
            job_class = self._job_classes[name] = JobClass(name, job.queue)
            self._active.add(name)
        job_class.jobs[job.key] = job
        self._of_job[job.key] = job_class
        self._push_job(job_class, job, order_key)
        return job_class

    def _push_job(self, job_class: JobClass, job: Job, order_key: JobOrderKey) -> None:
        """Push a job onto its class's heap, and the class onto its queue's heap if the job is its first."""
        self._entries += 1
        job_class.entries[job.key] = self._entries
        heappush(job_class.heap, (order_key, self._entries, job))
        job_class.compact()
        if job_class.name in self._active and (job_class.order_key is None or order_key < job_class.order_key):
            self._push_class(job_class, order_key)

    def discard(self, key: GroupKey) -> None:
        """Remove a job, if present."""
        job_class = self._of_job.pop(key, None)
        if job_class is None:
            return
        del job_class.jobs[key], job_class.entries[key]
        job_class.compact()
        if not job_class.jobs:
            self._drop(job_class)

    def _drop(self, job_class: JobClass) -> None:
        del self._job_classes[job_class.name]
        self._active.discard(job_class.name)
        self.parked.pop(job_class.name, None)
        job_class.order_key = None

    def _push_class(self, job_class: JobClass, order_key: JobOrderKey) -> None:
        self._entries += 1
        job_class.order_key = order_key
        heappush(self._queues.setdefault(job_class.queue, []), (order_key, self._entries, job_class))

    def first(self, queue: str) -> tuple[JobClass, Job] | None:
        """Return the first active job of a queue and its job class, or None; does not remove it."""
        heap = self._queues.get(queue, [])
        while heap:
            order_key, _, job_class = heap[0]
            if job_class.order_key is order_key:
                found = job_class.first()
                if found is not None and found[0] is order_key:
                    return job_class, found[1]
                heappop(heap)
                if found is not None:
                    # The former first job was removed or moved.
                    self._push_class(job_class, found[0])
            else:
                heappop(heap)
        return None

    def move(self, key: GroupKey, order_key: Callable[[Job], JobOrderKey]) -> None:
        """Update the order of a job, if present."""
        job_class = self._of_job.get(key)
        if job_class is not None:
            job = job_class.jobs[key]
            self._push_job(job_class, job, order_key(job))

    def park(self, job_class: JobClass, reasons: Iterable[Reason], *, borrowing: bool) -> None:
        """Make a job class inactive until it is woken."""
        job_class.reasons, job_class.borrowing, job_class.order_key = tuple(reasons), borrowing, None
        self._active.discard(job_class.name)
        self.parked[job_class.name] = job_class

    def wake(self, job_class: JobClass) -> None:
        """Make a parked job class active."""
        if self.parked.pop(job_class.name, None) is None:
            return
        job_class.reasons, job_class.needs = (), []
        self._active.add(job_class.name)
        found = job_class.first()
        assert found is not None
        self._push_class(job_class, found[0])
