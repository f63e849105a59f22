"""The jobs of all queues in scheduling order.

Each queue has a heap of job classes, each job class a heap of jobs. Stale heap entries are skipped when they reach the
top, so every change takes logarithmic time and nothing is sorted or searched.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from heapq import heappop, heappush

from deviceshare.allocation import WaitingRequests
from deviceshare.model import GroupKey, PodRequest
from deviceshare.queueing.gangs import Reason
from deviceshare.queueing.job_class import JobClass
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.parked import Parked
from deviceshare.queueing.policies import OrderKey


class JobQueue:
    """The job classes of all queues: active ones in order, and parked ones (``requests``: see :class:`.Parked`)."""

    def __init__(self, requests: WaitingRequests) -> None:
        self._job_classes: dict[Hashable, JobClass] = {}
        self._of_job: dict[GroupKey, JobClass] = {}
        self._queues: dict[str, list[tuple[OrderKey, int, JobClass]]] = {}
        self._entries = 0
        self._active: set[Hashable] = set()
        self._active_in: Counter[str] = Counter()
        """The number of active job classes in each queue that has some."""
        self.counts: Counter[str] = Counter()
        """The number of jobs in each queue that has some."""
        self.parked = Parked(requests)

    def __len__(self) -> int:
        """Return the number of active job classes."""
        return len(self._active)

    @property
    def queues(self) -> Collection[str]:
        """The queues with active job classes."""
        return self._active_in.keys()

    def find(self, key: GroupKey) -> tuple[JobClass, Job] | None:
        """Return a job and its job class, or None."""
        job_class = self._of_job.get(key)
        return None if job_class is None else (job_class, job_class.jobs[key])

    def put(self, job: Job, order_key: OrderKey) -> JobClass:
        """Put a job in, in place of the job with its key. Returns its job class, which may be parked."""
        self.discard(job.key)
        name = job.class_key
        job_class = self._job_classes.get(name)
        if job_class is None:
            job_class = self._job_classes[name] = JobClass(name, job.queue)
            self._activate(job_class)
        job_class.jobs[job.key] = job
        self._of_job[job.key] = job_class
        self.counts[job.queue] += 1
        self._push_job(job_class, job, order_key)
        return job_class

    def _push_job(self, job_class: JobClass, job: Job, order_key: OrderKey) -> None:
        """Push a job onto its class's heap, and the class onto its queue's heap if the job is its first."""
        job_class.order.put(job.key, order_key, job)
        if job_class.name not in self._active:
            self.parked.jobs_changed(job_class)
        elif job_class.order_key is None or order_key < job_class.order_key:
            self._push_class(job_class, order_key)

    def discard(self, key: GroupKey) -> None:
        """Remove a job, if present."""
        job_class = self._of_job.pop(key, None)
        if job_class is None:
            return
        del job_class.jobs[key]
        job_class.order.discard(key)
        _count_down(self.counts, job_class.queue)
        if not job_class.jobs:
            self._drop(job_class)
        elif job_class.name not in self._active:
            self.parked.jobs_changed(job_class)

    def _drop(self, job_class: JobClass) -> None:
        del self._job_classes[job_class.name]
        self._deactivate(job_class)
        self.parked.discard(job_class)
        job_class.order_key = None

    def _activate(self, job_class: JobClass) -> None:
        self._active.add(job_class.name)
        self._active_in[job_class.queue] += 1

    def _deactivate(self, job_class: JobClass) -> None:
        if job_class.name in self._active:
            self._active.remove(job_class.name)
            _count_down(self._active_in, job_class.queue)

    def _push_class(self, job_class: JobClass, order_key: OrderKey) -> None:
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

    def move(self, key: GroupKey, order_key: Callable[[Job], OrderKey]) -> None:
        """Update the order of a job, if present."""
        job_class = self._of_job.get(key)
        if job_class is not None:
            job = job_class.jobs[key]
            self._push_job(job_class, job, order_key(job))

    def park(
        self, job_class: JobClass, reasons: Iterable[Reason], requests: Collection[PodRequest], *, borrowing: bool
    ) -> None:
        """Make a job class inactive until it is woken; ``requests`` are those of its pods."""
        job_class.reasons, job_class.borrowing, job_class.order_key = tuple(reasons), borrowing, None
        self._deactivate(job_class)
        self.parked.put(job_class, requests)

    def wake(self, job_class: JobClass) -> None:
        """Make a parked job class active."""
        if not self.parked.discard(job_class):
            return
        job_class.reasons, job_class.needs = (), []
        self._activate(job_class)
        found = job_class.first()
        assert found is not None
        self._push_class(job_class, found[0])


def _count_down(counts: Counter[str], queue: str) -> None:
    counts[queue] -= 1
    if not counts[queue]:
        del counts[queue]
