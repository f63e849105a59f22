"""Wakes parked job classes that limits of their queue do not hold back any more."""

from deviceshare.queueing.job_queue import JobQueue
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.reservation import Reservations
from deviceshare.queueing.shortage import DESERVED


def wake_allowed(jobs: JobQueue, queues: Queues) -> None:
    """Wake job classes whose queue allows their needs again."""
    for job_class in [job_class for job_class in jobs.parked.values() if job_class.needs]:
        if all(
            queues.allows(job_class.queue, name, amount, borrowing=borrowing)
            for name, amount, borrowing in job_class.needs
        ):
            jobs.wake(job_class)


def wake_borrowers(jobs: JobQueue, queues: Queues, reservations: Reservations) -> None:
    """Wake job classes whose queue exceeds its deserved amount only of resources that no other queue claims."""
    job_classes = [
        (job_class, {shortage.resource for shortage in job_class.shortages if shortage.bound == DESERVED})
        for job_class in jobs.parked.values()
        if not job_class.borrowing
    ]
    job_classes = [(job_class, borrowed) for job_class, borrowed in job_classes if borrowed]
    claimed = _claimed(jobs, queues, reservations) if job_classes else {}
    for job_class, borrowed in job_classes:
        if (first := job_class.first()) is not None:
            borrowed |= queues.over_deserved(job_class.queue, queues.asked(first[1].group.together))
        if all(claimed.get(name, set()) <= {job_class.queue} for name in borrowed):
            jobs.wake(job_class)


def _claimed(jobs: JobQueue, queues: Queues, reservations: Reservations) -> dict[str, set[str]]:
    """Return, by resource, the queues with jobs that wait for capacity within their deserved amount."""
    claimed = {name: set(found) for name, found in queues.claimed_elsewhere.items()}
    for job_class in jobs.parked.values():
        if job_class.borrowing or job_class.needs:
            continue
        if (first := job_class.first()) is None or reservations.is_unplaceable(first[1]):
            continue
        group = first[1].group
        for pods in [group.together] if first[1].uniform or group.missing > 1 else [(pod,) for pod in group.pods]:
            requested = queues.asked(pods)
            # The queue may have allocated more since this job class was parked.
            if not queues.over_deserved(job_class.queue, requested):
                for name in requested:
                    claimed.setdefault(name, set()).add(job_class.queue)
    return claimed
