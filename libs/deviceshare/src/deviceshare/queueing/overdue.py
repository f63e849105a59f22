"""The parked jobs that have waited too long for capacity, by queue."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from math import inf

from deviceshare.queueing.job_class import JobClass
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.policies import OrderKey
from deviceshare.queueing.replacing_heap import ReplacingHeap
from deviceshare.queueing.reservation import Reservations


class OverdueJobs:
    """The first jobs of job classes, as they become overdue. Times are unix seconds."""

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations
        self._waiting: ReplacingHeap[float, JobClass] = ReplacingHeap()
        """Job classes by the time at which their first job is overdue."""
        self._overdue: defaultdict[str, dict[Hashable, JobClass]] = defaultdict(dict)

    def update(self, changed: Iterable[JobClass], now: float) -> float:
        """Apply that job classes were parked, or that their jobs changed; return when the next one is overdue."""
        for job_class in changed:
            self.discard(job_class)
            first = job_class.first() if job_class.fits_nowhere else None
            overdue = None if first is None else self._reservations.overdue_at(first[1])
            if overdue is not None:
                self._waiting.put(job_class.name, overdue, job_class)
        while (first_due := self._waiting.first()) is not None and first_due[0] <= now:
            job_class = first_due[1]
            self._waiting.discard(job_class.name)
            self._overdue[job_class.queue][job_class.name] = job_class
        return inf if first_due is None else first_due[0]

    def discard(self, job_class: JobClass) -> None:
        """Remove a job class, which is not parked any more."""
        self._waiting.discard(job_class.name)
        known = self._overdue.get(job_class.queue)
        if known is not None and known.pop(job_class.name, None) is not None and not known:
            del self._overdue[job_class.queue]

    def to_search(self, now: float, order: Callable[[Job], OrderKey]) -> tuple[list[Job], float]:
        """Return the job of each queue for which nodes may be searched now, and when there are others.

        It is that of the search in progress, or the first one by ``order``. Times are monotonic.
        """
        jobs: list[Job] = []
        later = inf
        for queue in self._overdue:
            search_at = self._reservations.next_search_at(queue)
            if now < search_at:
                later = min(later, search_at)
            elif overdue := self._of(queue):
                searching = (job for job in overdue if job.key == self._reservations.searching)
                jobs.append(next(searching, None) or min(overdue, key=order))
        return jobs, later

    def _of(self, queue: str) -> list[Job]:
        """Return the overdue jobs of a queue that would fit if nodes were empty, as far as is known."""
        first_jobs = (job_class.first() for job_class in self._overdue.get(queue, {}).values())
        return [
            first[1] for first in first_jobs if first is not None and not self._reservations.is_unplaceable(first[1])
        ]
