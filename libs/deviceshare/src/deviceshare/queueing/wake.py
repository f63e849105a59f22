"""Wakes parked job classes that limits of their queue do not hold back any more."""

from deviceshare.queueing.job_queue import JobQueue
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.reservation import Reservations
from deviceshare.queueing.round_work import ALLOCATE, RoundWork


def wake_allowed(jobs: JobQueue, queues: Queues) -> None:
    """Wake job classes whose queue allows their needs again."""
    for job_class in jobs.parked.allowed(queues):
        jobs.wake(job_class)


def wake_borrowers(jobs: JobQueue, queues: Queues, reservations: Reservations, work: RoundWork) -> None:
    """Wake job classes whose queue exceeds its deserved amount only of resources that no other queue claims.

    Queues of which not all jobs were decided in this round claim all that they lack. Wakes no more than this round may
    decide: in the next one a job class that is active has to be refused without borrowing first.
    """
    groups = jobs.parked.over_deserved
    claimed = _claimed(jobs, queues, reservations, work) if groups else {}
    left = {queue: work.decisions_left((ALLOCATE, queue)) for queue, _, _ in groups}
    for queue, borrowed, job_classes in groups:
        if any(claimed.get(name, set()) - {queue} for name in borrowed):
            continue
        for job_class in job_classes:
            first = job_class.first()
            over = set() if first is None else queues.over_deserved(queue, queues.asked(first[1].group.together))
            if not all(claimed.get(name, set()) <= {queue} for name in over):
                continue
            if not left[queue]:
                work.unserved.add((ALLOCATE, queue))
                break
            left[queue] -= 1
            jobs.wake(job_class)


def _claimed(jobs: JobQueue, queues: Queues, reservations: Reservations, work: RoundWork) -> dict[str, set[str]]:
    """Return, by resource, the queues with jobs that wait for capacity within their deserved amount."""
    claimed = {name: set(found) for name, found in queues.claimed_elsewhere.items()}
    for queue, (_, lacks) in queues.lacking() if work.unserved else ():
        for name in lacks if (ALLOCATE, queue) in work.unserved else ():
            claimed.setdefault(name, set()).add(queue)
    for job_class in jobs.parked.claiming:
        if (first := job_class.first()) is None or reservations.is_unplaceable(first[1]):
            continue
        group = first[1].group
        for pods in [group.together] if first[1].uniform or group.missing > 1 else [(pod,) for pod in group.pods]:
            requested = queues.asked(pods)
            if all(job_class.queue in claimed.get(name, ()) for name in requested):
                continue
            # The queue may have allocated more since this job class was parked.
            if not queues.over_deserved(job_class.queue, requested):
                for name in requested:
                    claimed.setdefault(name, set()).add(job_class.queue)
    return claimed
