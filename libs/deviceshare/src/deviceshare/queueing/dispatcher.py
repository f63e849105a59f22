"""The scheduling round: decides the jobs of all queues in order until capacity or jobs run out.

Source: Volcano pkg/scheduler/actions/{allocate,backfill}. Beyond Volcano: queues borrow unused deserved capacity of
other queues (see :mod:`deviceshare.queueing`).
"""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from math import inf

import msgspec

from deviceshare.allocation import Allocator, Placement, Unplaceable
from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, PodFact, PodRequest
from deviceshare.queueing.gangs import Decision, lacks_room
from deviceshare.queueing.group import Group
from deviceshare.queueing.job_class import NO_ROOM, ROOM, ROOM_NEAR_PODS, JobClass, is_before
from deviceshare.queueing.job_order import JobOrder
from deviceshare.queueing.job_queue import JobQueue
from deviceshare.queueing.jobs import Job
from deviceshare.queueing.overdue import OverdueJobs
from deviceshare.queueing.policies import OrderKey
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.reservation import Reservation, Reservations
from deviceshare.queueing.round_result import RoundResult
from deviceshare.queueing.round_work import ALLOCATE, BACKFILL, HOLD, RoundWork
from deviceshare.queueing.shortage import DESERVED, Shortage
from deviceshare.queueing.wake import room_for, wake_allowed, wake_borrowers, wake_for_room, wake_to_explain

MIN_PAUSE, PAUSE_PER_CLASS = 1.0, 0.05
"""Seconds between two diagnoses of a waiting job class: the minimum, and the seconds for each parked job class.

A diagnosis costs more than a decision, and with many waiting pods its numbers change with every pod that ends.
"""


class Dispatcher:
    """The job queues of the actions ``allocate`` and ``backfill``. Jobs stay until they are placed or discarded."""

    def __init__(self, allocator: Allocator, queues: Queues, conf: SchedulerConf, *, reasons: bool = True) -> None:
        self._reasons = reasons
        self._allocator = allocator
        self.queues = queues
        self.reservations = Reservations(allocator, queues, conf)
        """The nodes reserved for overdue jobs."""
        self._work = RoundWork(allocator.work)
        self._new_room = NO_ROOM
        self._now = self._wall_offset = 0.0
        self._due = inf
        """When a job that lacks capacity needs attention without an event, monotonic seconds."""
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Apply another configuration; the caller puts the jobs in again."""
        self._order = JobOrder(self.queues.policies)
        self.reservations.configure(conf)
        self._borrows = conf.extensions.borrowing
        self._only_ready = conf.extensions.gang_backfill
        self._actions = [action for action in conf.actions if action in (ALLOCATE, BACKFILL)]
        self._job_queues = {
            action: JobQueue(self._allocator.waiting_requests()) for action in (ALLOCATE, BACKFILL, HOLD)
        }
        self._overdue = OverdueJobs(self.reservations)
        self._reserved: dict[GroupKey, Sequence[tuple[PodFact, Placement]]] = {}
        """Best-effort pods of this round, and the capacity held for them until backfill places them."""

    def __len__(self) -> int:
        """Return about how many job classes the next round may place or diagnose; 0 only if there are none."""
        return sum(
            len(self._job_queues[action]) + self._job_queues[action].parked.retried(self._new_room)
            for action in self._actions
        )

    def waiting(self) -> Counter[str]:
        """Return the number of jobs in each queue."""
        return sum((jobs.counts for jobs in self._job_queues.values()), Counter())

    @property
    def parked(self) -> Collection[JobClass]:
        """The job classes of ``allocate`` that wait for room or for their queue."""
        return self._job_queues[ALLOCATE].parked.classes

    def serves(self, job: Job) -> str:
        """Return the action that serves a job if it is not configured, else ''."""
        action = _action(job)
        return "" if action in self._actions else action

    def put(self, job: Job) -> list[JobClass]:
        """Put a job in, in place of the job with its key. Returns its job classes, which may be parked."""
        self.discard(job.key)
        return self._enter(job)

    def _enter(self, job: Job) -> list[JobClass]:
        """Enqueue a job, and separately its best-effort pods if they need not wait for the other pods."""
        if BACKFILL not in self._actions and job.group.mixed:
            job.group = msgspec.structs.replace(job.group, best_effort=0)
        group = job.group
        job_classes = []
        if group.mixed and (group.enough_best_effort or not self._only_ready):
            job_classes.append(self._enter_best_effort(job, group))
        if group.mixed and group.ready:
            job.group, job.uniform = group.only_requesting(), None
        return [*job_classes, self._enqueue(_action(job), job)]

    def _enter_best_effort(self, job: Job, group: Group) -> JobClass:
        """Enqueue the best-effort pods of a job's group for backfill, as a separate job."""
        return self._enqueue(BACKFILL, msgspec.structs.replace(job, group=group.only_best_effort(), uniform=None))

    def _enqueue(self, action: str, job: Job) -> JobClass:
        if action == BACKFILL:
            action, other = (BACKFILL, HOLD) if job.group.counts_as_ready else (HOLD, BACKFILL)
            self._job_queues[other].discard(job.key)
        return self._job_queues[action].put(job, self._order_key(job))

    def discard(self, key: GroupKey) -> None:
        """Remove a job, if present."""
        self.reservations.forget(key)
        for jobs in self._job_queues.values():
            jobs.discard(key)

    def made_room(self, room: int = ROOM) -> None:
        """Retry the job classes that lack capacity in the next round; ``room`` (bits): which of them."""
        self._new_room |= room

    def decide(
        self, most: int, now: float = 0.0, wall: float | None = None, avoided: Collection[str] = ()
    ) -> RoundResult:
        """Decide until about ``most`` pods are placed, the work of a round is done, or no job is left.

        ``now`` (monotonic seconds) is for pauses, ``wall`` (unix seconds, None: the same as ``now``) determines which
        jobs are overdue. ``avoided``: nodes that only a job gets which fits nowhere else.
        """
        result, no_room = RoundResult(), dict[PodRequest, Unplaceable]()
        self._now, self.reservations.avoided = now, avoided
        self._wall_offset = 0.0 if wall is None else wall - now
        self.queues.refresh()
        shrunk = self.queues.groups.take_shrunk()
        if not (any(jobs.counts for jobs in self._job_queues.values()) or any(self.reservations)):
            self._new_room, self._due = NO_ROOM, inf
            self._work.begin(())
            return result
        for reservation in self.reservations:
            if self._job_queues[ALLOCATE].find(reservation.key) is None:
                self._drop(reservation)
        for key in shrunk:
            self._job_queues[ALLOCATE].move(key, self._order_key)
        self._wake(now)
        self._work.begin([(action, queue) for action, jobs in self._job_queues.items() for queue in jobs.queues])
        self._serve_overdue(result)
        self._wake(now)
        with self.reservations.enforced():
            for action in self._actions:
                jobs = self._job_queues[action]
                wake_allowed(jobs, self.queues)
                if action == BACKFILL:
                    self._backfill(result, most)
                    continue
                self._serve(jobs, result, no_room, most, borrowing=False)
                if self._borrows and len(result.order) < most:
                    wake_borrowers(jobs, self.queues, self.reservations, self._work)
                    self._serve(jobs, result, no_room, most, borrowing=True)
            for key in list(self._reserved):
                self._place_reserved(key, result)
        self._reserve_nodes(now)
        self.made_room(ROOM_NEAR_PODS if result.order else NO_ROOM)
        return result

    def due(self) -> list[float]:
        """Return when the next round is due without an event, monotonic seconds: [] or one time.

        At this time a job becomes overdue, its diagnosis may be repeated, nodes may be reserved for it, or a queue that
        has used up its share of the last round continues.
        """
        return [self._due] if self._due < inf else []

    @property
    def _pause(self) -> float:
        """Seconds between two diagnoses of a job class."""
        return max(MIN_PAUSE, PAUSE_PER_CLASS * sum(len(jobs.parked) for jobs in self._job_queues.values()))

    def _wake(self, now: float) -> None:
        """Wake job classes after capacity was freed, and those with a due diagnosis."""
        pause = self._pause
        for jobs in self._job_queues.values():
            wake_for_room(jobs, self._new_room)
            if self._reasons:
                wake_to_explain(jobs, now, pause)
        self._new_room = NO_ROOM

    def _serve_overdue(self, result: RoundResult) -> None:
        """Decide the jobs with reserved nodes before all others."""
        jobs = self._job_queues[ALLOCATE]
        for reservation in self.reservations:
            found = jobs.find(reservation.key)
            if found is not None and found[0].order_key is not None:
                with self.reservations.enforced(except_for=reservation.key):
                    self._decide_job(jobs, *found, result, {}, borrowing=True)
            if reservation.key in result.placed:
                self._drop(reservation)

    def _reserve_nodes(self, now: float) -> None:
        """Reserve nodes for overdue jobs: one per queue, the first ones."""
        jobs = self._job_queues[ALLOCATE]
        found = [jobs.find(reservation.key) for reservation in self.reservations]
        old = [(each[1], True) for each in found if each is not None and self.reservations.is_expired(each[1], now)]
        candidates = [*old, *((job, False) for job in sorted(self._first_overdue(now), key=self._order_key))]
        self.reservations.begin_round({job.key for job, _ in candidates})
        # A search in progress continues first.
        for job, again in sorted(candidates, key=lambda each: each[0].key != self.reservations.searching):
            before = self.reservations.of(job.queue)
            if not self.reservations.search(job, now):
                self._due = now
                return
            after = self.reservations.of(job.queue)
            if after is None and not again:
                # Jobs that its claim kept from borrowing may borrow now.
                self._due = now
            elif again and (before is None or after is None or after.nodes != before.nodes):
                self.made_room()

    def _drop(self, reservation: Reservation) -> None:
        self.reservations.drop(reservation.queue)
        self.made_room()

    def _first_overdue(self, now: float) -> list[Job]:
        """Return the overdue job of each queue for which nodes may be searched now.

        This is the one of the search in progress, or the first one. Sets ``_due`` to the time of the next round.
        """
        pause, self._due = self._pause, now if self._work.unserved else inf
        for jobs in self._job_queues.values():
            for queue in jobs.parked.outdated_queues if self._reasons else ():
                if (outdated := jobs.parked.outdated(queue)) is not None:
                    self._due = min(self._due, outdated[0] + pause)
        changed = self._job_queues[ALLOCATE].parked.take_changed()
        next_overdue = self._overdue.update(changed, now + self._wall_offset) - self._wall_offset
        first, next_search = self._overdue.to_search(now, self._order_key)
        self._due = min(self._due, next_overdue, next_search)
        return first

    def _order_key(self, job: Job) -> OrderKey:
        return self._order.key(job, self.queues.dominant_share(job.key))

    def _serve(
        self, jobs: JobQueue, result: RoundResult, no_room: dict[PodRequest, Unplaceable], most: int, *, borrowing: bool
    ) -> None:
        queues = self.queues.heap(jobs.queues, borrowing=borrowing)
        while queues and len(result.order) < most:
            queue = queues.pop()
            first = jobs.first(queue)
            if first is not None and self._work.may_decide((ALLOCATE, queue)):
                self._decide_job(jobs, *first, result, no_room, borrowing=borrowing)
                queues.push(queue)

    def _backfill(self, result: RoundResult, most: int) -> None:
        """Place best-effort pods: queue by queue, job by job, all pods of a job at once.

        Until the end of the round, capacity is held for the jobs before them whose gang is not ready, as far as the
        share of their queue allows.
        """
        jobs, unready = self._job_queues[BACKFILL], self._job_queues[HOLD]
        holding: list[Job] = []
        # No trial: what is placed between two jobs stays.
        with ExitStack() as held:
            for queue in sorted({*jobs.queues, *unready.queues}, key=self.queues.order):
                while jobs.queues and len(result.order) < most:
                    first, waiting = jobs.first(queue), unready.first(queue)
                    if waiting is not None and self._work.is_left((HOLD, queue)) and is_before(waiting, first):
                        job = waiting[1]
                        self._hold(job, held)
                        self._work.charge((HOLD, queue))
                        unready.discard(job.key)
                        holding.append(job)
                    elif first is not None and self._work.may_decide((BACKFILL, queue)):
                        self._backfill_job(first[1], result, most)
                    else:
                        break
        for job in holding:
            self._enqueue(BACKFILL, job)

    def _backfill_job(self, job: Job, result: RoundResult, most: int) -> None:
        jobs, no_room = self._job_queues[BACKFILL], dict[PodRequest, Unplaceable]()
        if not self._only_ready:
            job.group = msgspec.structs.replace(job.group, minimum=0, tasks=())
        self._place_reserved(job.key, result)
        placed: list[PodFact] = []
        while len(result.order) < most and (found := jobs.find(job.key)) is not None:
            job_class, rest = found
            now = (
                self._decide_job(jobs, job_class, rest, result, no_room, borrowing=True)
                if job_class.order_key is not None
                else ()
            )
            if not now:
                break
            placed += now
        others = self._job_queues[ALLOCATE].find(job.key)
        if placed and others is not None and others[1].group.mixed:
            others[1].group = others[1].group.without(placed).only_requesting()
            self._enqueue(ALLOCATE, others[1])

    def _place_reserved(self, key: GroupKey, result: RoundResult) -> None:
        """Place the best-effort pods with held capacity, each on the node that is best now."""
        placed = []
        for pod, reserved in self._reserved.pop(key, ()):
            self._allocator.release(reserved.node, pod.uid)
            placement = self._allocator.place(pod.ask) or reserved
            self._allocator.take(pod.uid, placement, pod.tenant)
            self.queues.hold(pod.uid)
            placed.append((pod, placement))
        if not placed:
            return
        group = result.placed[key].group
        result.add(key, Decision(group=group, placed=tuple(placed), waiting=(), fitted=len(placed)))
        jobs = self._job_queues[BACKFILL]
        found = jobs.find(key)
        if found is not None:
            job = found[1]
            jobs.discard(key)
            job.group = job.group.without([pod for pod, _ in placed])
            if job.group.pods:
                self._enqueue(BACKFILL, job)

    def _hold(self, job: Job, held: ExitStack) -> None:
        """Hold capacity for a job's pods until ``held`` ends, as Volcano does for a gang that is not ready."""
        with self.reservations.all_nodes():
            for pod in job.group.pods:
                placement = self._allocator.place(pod.ask)
                if placement is not None:
                    self._allocator.take(pod.uid, placement, pod.tenant)
                    held.callback(self._allocator.release, placement.node, pod.uid)

    def _decide_job(
        self,
        jobs: JobQueue,
        job_class: JobClass,
        job: Job,
        result: RoundResult,
        no_room: dict[PodRequest, Unplaceable],
        *,
        borrowing: bool,
    ) -> Sequence[PodFact]:
        """Decide a job, and place or park it; returns the placed pods."""
        sharer = (_action(job), job.queue)
        # A job that is decided twice in a round may have another result the second time.
        explain = (
            self._reasons
            and (self._now >= job_class.explained_at + self._pause or self._now == job_class.explained_at)
            and self._work.may_explain(sharer)
        )
        decision = self.reservations.decide(job.group, no_room, borrowing=borrowing, reasons=explain)
        self._work.charge(sharer)
        if not decision.placed:
            # Includes the pods of the gang that were placed temporarily.
            requests = dict.fromkeys(pod.ask for pod in job.group.pods)
            reasons = [reason for _, reason in decision.waiting if reason is not None]
            if explain and any(map(lacks_room, reasons)):
                job_class.explained_at = self._now
            job_class.woken_by = room_for(requests)
            job_class.needs = [
                (each.resource, self.queues.needed(each), each.bound != DESERVED)
                for each in reasons
                if isinstance(each, Shortage)
            ]
            jobs.park(job_class, reasons, requests, borrowing=borrowing)
            if job_class.unexplained:
                # The reasons of the attempt without borrowing do not apply any more.
                result.waiting.pop(job_class.name, None)
            else:
                job_class.reported_reasons = tuple(reason for _, reason in decision.waiting)
                result.waiting[job_class.name] = (job_class, decision)
            return ()
        result.waiting.pop(job_class.name, None)
        placed = [pod for pod, _ in decision.placed]
        result.add(job.key, decision)
        jobs.discard(job.key)
        if len(placed) == len(job.group.pods):
            return placed
        if job.group.mixed:
            self._enqueue_rest(job, decision)
        else:
            job.group = job.group.without(placed)
            self._enter(job)
        return placed

    def _enqueue_rest(self, job: Job, decision: Decision) -> None:
        """Enqueue the rest of a mixed gang that has its minimum; capacity may be held for some of its pods."""
        rest = job.group.without([pod for pod, _ in decision.placed])
        if decision.reserved:
            self._reserved[job.key] = decision.reserved
        self._enter_best_effort(job, rest)
        job.group, job.uniform = rest.only_requesting(), None
        if job.group.pods:
            self._enqueue(ALLOCATE, job)


def _action(job: Job) -> str:
    return BACKFILL if job.best_effort else ALLOCATE
