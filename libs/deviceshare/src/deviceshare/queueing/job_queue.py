"""Those who wait for their turn, by queue and in order.

A heap a queue, of kinds of jobs, and a heap a kind, of jobs. What left the line in between is passed over when it comes
up, so nothing is ever sorted or searched: a change costs the logarithm of the line.
"""

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from math import inf

from deviceshare.model import GroupKey
from deviceshare.queueing.gangs import UNEXPLAINED, Reason
from deviceshare.queueing.jobs import Job, Order
from deviceshare.queueing.shortage import Shortage

_FEW = 64
"""Entries that may be left over, beside as many as there are jobs."""


class JobClass:
    """Jobs of one queue that are answered alike: in line, or parked for a reason."""

    __slots__ = ("asked_at", "at", "beyond", "entries", "heap", "jobs", "name", "needs", "queue", "told", "why")

    def __init__(self, name: Hashable, queue: str) -> None:
        self.name = name
        self.queue = queue
        self.heap: list[tuple[Order, int, Job]] = []
        self.jobs: dict[GroupKey, Job] = {}
        self.entries: dict[GroupKey, int] = {}
        """The number of each job's entry in the heap that counts."""
        self.at: Order | None = None
        """The place of the entry in the queue's heap that counts; None while the kind is parked."""
        self.why: tuple[Reason, ...] = ()
        """Why it is parked: what the pods of its first job lack."""
        self.told: tuple[Reason, ...] = ()
        """The same as it was asked last, which may be some time ago."""
        self.asked_at = -inf
        """When it was asked last why there is no room, unix seconds."""
        self.needs: list[tuple[str, int, bool]] = []
        """How much of which resources its queue would have to be allowed, and whether beyond what it deserves."""
        self.beyond = False
        """Whether it was parked when its queue could pass what it deserves."""

    @property
    def lacks_room(self) -> bool:
        """Whether it is parked for want of room."""
        return any(not isinstance(reason, Shortage) for reason in self.why)

    @property
    def unexplained(self) -> bool:
        """Whether it is parked and was not asked why."""
        return any(reason is UNEXPLAINED for reason in self.why)

    @property
    def shortages(self) -> list[Shortage]:
        """The bounds of its queue for which it is parked."""
        return [reason for reason in self.why if isinstance(reason, Shortage)]

    def tidy(self) -> None:
        """Drop entries of jobs that left, or stand elsewhere, lest they pile up behind a first one that stays."""
        if len(self.heap) > 2 * len(self.jobs) + _FEW:
            self.heap = [entry for entry in self.heap if self.entries.get(entry[2].key) == entry[1]]
            heapify(self.heap)

    def first(self) -> tuple[Order, Job] | None:
        """Return the first job and its place, None where none is left."""
        while self.heap:
            place, number, job = self.heap[0]
            if self.entries.get(job.key) == number:
                return place, job
            heappop(self.heap)
        return None


class JobQueue:
    """The line of all queues."""

    def __init__(self) -> None:
        self._job_classes: dict[Hashable, JobClass] = {}
        self._of_job: dict[GroupKey, JobClass] = {}
        self._queues: dict[str, list[tuple[Order, int, JobClass]]] = {}
        self._entries = 0
        self._in_line: set[Hashable] = set()
        self.parked: dict[Hashable, JobClass] = {}

    def __len__(self) -> int:
        """How many kinds are in line."""
        return len(self._in_line)

    @property
    def queues(self) -> set[str]:
        """The queues that have somebody in line."""
        return {self._job_classes[name].queue for name in self._in_line}

    def find(self, key: GroupKey) -> tuple[JobClass, Job] | None:
        """Return a job and its kind, None where it is not here."""
        job_class = self._of_job.get(key)
        return None if job_class is None else (job_class, job_class.jobs[key])

    def put(self, job: Job, place: Order) -> JobClass:
        """Put a job in line, in place of what stood there under its key. Returns its kind, which may be parked."""
        self.discard(job.key)
        name = job.kind
        job_class = self._job_classes.get(name)
        if job_class is None:
            job_class = self._job_classes[name] = JobClass(name, job.queue)
            self._in_line.add(name)
        job_class.jobs[job.key] = job
        self._of_job[job.key] = job_class
        self._stand(job_class, job, place)
        return job_class

    def _stand(self, job_class: JobClass, job: Job, place: Order) -> None:
        """Let a job stand somewhere within its kind, and the kind where its first job stands."""
        self._entries += 1
        job_class.entries[job.key] = self._entries
        heappush(job_class.heap, (place, self._entries, job))
        job_class.tidy()
        if job_class.name in self._in_line and (job_class.at is None or place < job_class.at):
            self._enter(job_class, place)

    def discard(self, key: GroupKey) -> None:
        """Take a job out of the line, if it is there."""
        job_class = self._of_job.pop(key, None)
        if job_class is None:
            return
        del job_class.jobs[key], job_class.entries[key]
        job_class.tidy()
        if not job_class.jobs:
            self._drop(job_class)

    def _drop(self, job_class: JobClass) -> None:
        del self._job_classes[job_class.name]
        self._in_line.discard(job_class.name)
        self.parked.pop(job_class.name, None)
        job_class.at = None

    def _enter(self, job_class: JobClass, place: Order) -> None:
        self._entries += 1
        job_class.at = place
        heappush(self._queues.setdefault(job_class.queue, []), (place, self._entries, job_class))

    def first(self, queue: str) -> tuple[JobClass, Job] | None:
        """Return the first job of a queue and its kind, None where nobody is in line. It stays there."""
        heap = self._queues.get(queue, [])
        while heap:
            place, _, job_class = heap[0]
            if job_class.at is place:
                found = job_class.first()
                if found is not None and found[0] is place:
                    return job_class, found[1]
                heappop(heap)
                if found is not None:
                    # Who stood first is gone, or was put elsewhere.
                    self._enter(job_class, found[0])
            else:
                heappop(heap)
        return None

    @property
    def claimants(self) -> list[JobClass]:
        """Those who wait for nothing but room, within what their queue deserves."""
        return [job_class for job_class in self.parked.values() if not job_class.beyond and not job_class.needs]

    def move(self, key: GroupKey, place: Callable[[Job], Order]) -> None:
        """Let a job stand where it belongs now, if it is here."""
        job_class = self._of_job.get(key)
        if job_class is not None:
            job = job_class.jobs[key]
            self._stand(job_class, job, place(job))

    def park(self, job_class: JobClass, why: Iterable[Reason], *, beyond: bool) -> None:
        """Let a kind wait for something else than its turn."""
        job_class.why, job_class.beyond, job_class.at = tuple(why), beyond, None
        self._in_line.discard(job_class.name)
        self.parked[job_class.name] = job_class

    def wake(self, job_class: JobClass) -> None:
        """Put a parked kind back in line."""
        if self.parked.pop(job_class.name, None) is None:
            return
        job_class.why, job_class.needs = (), []
        self._in_line.add(job_class.name)
        found = job_class.first()
        assert found is not None
        self._enter(job_class, found[0])
