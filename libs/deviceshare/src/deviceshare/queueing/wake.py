"""Wakes parked job classes: nodes have new room for them, their queue allows more, or their diagnosis is due."""

from collections.abc import Collection
from functools import partial

from deviceshare.model import PodRequest
from deviceshare.queueing.job_class import NO_ROOM, ROOM, ROOM_FOR_DEVICES, ROOM_FOR_VOLUMES, ROOM_NEAR_PODS, JobClass
from deviceshare.queueing.job_queue import JobQueue
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.reservation import Reservations
from deviceshare.queueing.round_work import ALLOCATE, RoundWork

MAX_WOKEN = 100
"""Job classes of a queue that one round wakes to diagnose again why they wait."""


def room_for(requests: Collection[PodRequest]) -> int:
    """Return what new room (bits) may make nodes feasible for pods with these requests."""
    room = ROOM
    for request in requests:
        room |= ROOM_NEAR_PODS if request.follows_pods else NO_ROOM
        room |= ROOM_FOR_VOLUMES if request.volumes else NO_ROOM
        room |= ROOM_FOR_DEVICES if request.devices else NO_ROOM
    return room


def wake_for_room(jobs: JobQueue, room: int) -> None:
    """Wake job classes for which there is new room (bits); what others lack is diagnosed again when it is due."""
    for job_class in jobs.parked.served(room):
        jobs.wake(job_class)
    if room & ROOM:
        jobs.parked.outdate()


def wake_to_explain(jobs: JobQueue, now: float, pause: float) -> None:
    """Wake job classes whose outdated diagnosis was made ``pause`` seconds ago."""
    for queue in jobs.parked.outdated_queues:
        for _ in range(MAX_WOKEN):
            if (first := jobs.parked.outdated(queue)) is None or now < first[0] + pause:
                break
            jobs.wake(first[1])


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
    if not groups:
        return
    claims = _Claims(jobs, queues, reservations, work)
    left = {queue: work.decisions_left((ALLOCATE, queue)) for queue, _, _ in groups}
    for queue, borrowed, job_classes in groups:
        if any(claims.of_others(name, queue) for name in borrowed):
            continue
        for job_class in job_classes:
            first = job_class.first()
            over = set() if first is None else queues.over_deserved(queue, queues.asked(first[1].group.together))
            if any(claims.of_others(name, queue) for name in over):
                continue
            if not left[queue]:
                work.unserved.add((ALLOCATE, queue))
                break
            left[queue] -= 1
            jobs.wake(job_class)


class _Claims:
    """Which queues have jobs that wait for a resource within their deserved amount."""

    def __init__(self, jobs: JobQueue, queues: Queues, reservations: Reservations, work: RoundWork) -> None:
        self._claiming, self._queues, self._reservations = jobs.parked.claiming, queues, reservations
        self._claiming.update(queues)
        self._known = {name: set(found) for name, found in queues.claimed_elsewhere.items()}
        """By resource, the queues that claim it."""
        for queue, (_, lacks) in queues.lacking() if work.unserved else ():
            for name in lacks if (ALLOCATE, queue) in work.unserved else ():
                self._known.setdefault(name, set()).add(queue)
        self._has: dict[tuple[str, str], bool] = {}
        """By resource and queue, whether one of its parked job classes claims it."""

    def of_others(self, resource: str, queue: str) -> bool:
        """Return whether another queue claims a resource."""
        if self._known.get(resource, set()) - {queue}:
            return True
        return any(self._parked_in(other, resource) for other in self._claiming.queues_of(resource) if other != queue)

    def _parked_in(self, queue: str, resource: str) -> bool:
        key = (resource, queue)
        if key not in self._has:
            self._has[key] = self._claiming.has(queue, resource, partial(self._is_claimed_by, resource))
        return self._has[key]

    def _is_claimed_by(self, resource: str, job_class: JobClass) -> bool:
        if (first := job_class.first()) is None or self._reservations.is_unplaceable(first[1]):
            return False
        group = first[1].group
        for pods in [group.together] if first[1].uniform or group.missing > 1 else [(pod,) for pod in group.pods]:
            requested = self._queues.asked(pods)
            # The queue may have allocated more since this job class was parked.
            if resource in requested and not self._queues.over_deserved(job_class.queue, requested):
                return True
        return False
