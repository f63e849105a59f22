"""Whose turn it is: the jobs of all queues are decided one after the other, until room or jobs run out.

Source: Volcano pkg/scheduler/actions/{allocate,backfill}. Beyond Volcano: what a queue leaves of what it deserves is
given to others when nobody waits for it (see :mod:`deviceshare.queueing`).
"""

from collections.abc import Hashable, Sequence
from math import inf

import msgspec

from deviceshare.allocation import Allocator, Placement, Unplaceable
from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, PodFact, PodUid
from deviceshare.queueing.gangs import Decision, Group, decide
from deviceshare.queueing.job_queue import JobClass, JobQueue
from deviceshare.queueing.jobs import Job, JobOrder, Order
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.reservation import Reservation, Reservations
from deviceshare.queueing.shortage import DESERVED

ALLOCATE, BACKFILL = "allocate", "backfill"
LEAST_PAUSE, EXPLAINING = 1.0, 0.05
"""Seconds for which those who wait are not asked again why: at least, and for each kind of them. To ask costs more than
to decide, and where many wait the numbers change with every pod that ends."""


class Turns(msgspec.Struct):
    """What became of a round: ``placed`` by group, and by kind those of which the first job waits now, and why."""

    placed: dict[GroupKey, Decision] = {}
    waiting: dict[Hashable, tuple[JobClass, Decision]] = {}
    order: list[PodUid] = []
    """The pods that were placed, in the order in which they were."""


class Dispatcher:
    """The lines of those who wait, and their turns. Jobs stay until they are decided or taken out."""

    def __init__(self, allocator: Allocator, queues: Queues, conf: SchedulerConf, *, reasons: bool = True) -> None:
        self._reasons = reasons
        self._allocator = allocator
        self.queues = queues
        self.reservations = Reservations(allocator, queues, conf)
        """The nodes that are kept free for who waited too long."""
        self._room_was_made = False
        self._now = self._wall_offset = 0.0
        self._due = inf
        """When somebody who lacks room has to be looked at though nothing happens, monotonic seconds."""
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Order by another configuration from now on; jobs have to be put in again."""
        self._order = JobOrder(conf)
        self.reservations.configure(conf)
        self._borrows = conf.extensions.borrowing
        self._only_ready = conf.extensions.gang_backfill
        self._actions = [action for action in conf.actions if action in (ALLOCATE, BACKFILL)]
        self._lines = {action: JobQueue() for action in (ALLOCATE, BACKFILL)}
        self._reserved: dict[GroupKey, Sequence[tuple[PodFact, Placement]]] = {}
        """Pods of this round that request nothing, and where room is held for them until backfill places them."""

    def __len__(self) -> int:
        """How many kinds of jobs have something to hope for from the next round."""
        in_line = sum(len(self._lines[action]) for action in self._actions)
        hoping = (
            job_class.unexplained or (self._room_was_made and job_class.lacks_room)
            for action in self._actions
            for job_class in self._lines[action].parked.values()
        )
        return in_line + sum(hoping)

    def serves(self, job: Job) -> str:
        """Return the action that serves a job and is not configured, '' where it is."""
        action = _action(job)
        return "" if action in self._actions else action

    def put(self, job: Job) -> list[JobClass]:
        """Put a job in line, in place of what stands there under its key; its kinds may be parked."""
        self.discard(job.key)
        return self._enter(job)

    def _enter(self, job: Job) -> list[JobClass]:
        """Put a job in line: its pods that request nothing apart, where they need not wait for the others."""
        if BACKFILL not in self._actions and job.group.mixed:
            job.group = msgspec.structs.replace(job.group, best_effort=0)
        group = job.group
        job_classes = []
        if group.mixed and (group.enough_best_effort or not self._only_ready):
            job_classes.append(self._enter_best_effort(job, group))
        if group.mixed and group.ready:
            job.group, job.alike = group.only_requesting(), None
        return [*job_classes, self._enqueue(_action(job), job)]

    def _enter_best_effort(self, job: Job, group: Group) -> JobClass:
        """Put the pods of a job's group that request nothing in line for backfill, as a job of their own."""
        return self._enqueue(BACKFILL, msgspec.structs.replace(job, group=group.only_best_effort(), alike=None))

    def _enqueue(self, action: str, job: Job) -> JobClass:
        return self._lines[action].put(job, self._place(job))

    def discard(self, key: GroupKey) -> None:
        """Take a job out, if it is here."""
        self.reservations.forget(key)
        for line in self._lines.values():
            line.discard(key)

    def made_room(self) -> None:
        """Give all that lack room another turn in the next round."""
        self._room_was_made = True

    def decide(self, most: int, now: float = 0.0, wall: float | None = None) -> Turns:
        """Decide until ``most`` pods are placed, more or less, or nobody is left whose turn it could be.

        ``now`` (monotonic seconds) is for pauses, ``wall`` (unix seconds, None: the same as ``now``) for the ages of
        jobs.
        """
        turns = Turns()
        no_room: dict[int, Unplaceable] = {}
        self._now = now
        self._wall_offset = 0.0 if wall is None else wall - now
        self.queues.refresh()
        for reservation in self.reservations:
            if self._lines[ALLOCATE].find(reservation.key) is None:
                self._drop(reservation)
        for key in self.queues.lighter:
            self._lines[ALLOCATE].move(key, self._place)
        self.queues.lighter.clear()
        self._wake(now)
        self._serve_overdue(turns)
        self._wake(now)
        with self.reservations.kept_free():
            for action in self._actions:
                line = self._lines[action]
                self._wake_unbound(line)
                if action == BACKFILL:
                    self._backfill(turns, most)
                    continue
                self._serve(line, turns, no_room, most, beyond=False)
                if self._borrows and len(turns.order) < most:
                    self._wake_beyond(line)
                    self._serve(line, turns, no_room, most, beyond=True)
            for key in list(self._reserved):
                self._place_reserved(key, turns)
        self._keep_free(now)
        return turns

    def due(self) -> list[float]:
        """Return when there is something to do though nothing happens, monotonic seconds.

        Jobs that lack room will have waited too long, or may be asked again why there is none; nodes may be looked for
        that are kept free for them.
        """
        return [self._due] if self._due < inf else []

    @property
    def _pause(self) -> float:
        """For how many seconds a kind of jobs is not asked again why there is no room."""
        return max(LEAST_PAUSE, EXPLAINING * sum(len(line.parked) for line in self._lines.values()))

    def _wake(self, now: float) -> None:
        """Wake those for whom room was made, and those who may be asked again why there is none."""
        pause = self._pause
        for line in self._lines.values():
            for job_class in list(line.parked.values()):
                asked_again = job_class.unexplained and self._reasons and now >= job_class.asked_at + pause
                if asked_again or (self._room_was_made and job_class.lacks_room):
                    line.wake(job_class)
        self._room_was_made = False

    def _serve_overdue(self, turns: Turns) -> None:
        """Give those for whom nodes are kept free their turn before all others."""
        line = self._lines[ALLOCATE]
        for reservation in self.reservations:
            found = line.find(reservation.key)
            if found is not None and found[0].at is not None:
                with self.reservations.kept_free(but_for=reservation.key):
                    self._turn(line, *found, turns, {}, beyond=True)
            if reservation.key in turns.placed:
                self._drop(reservation)

    def _keep_free(self, now: float) -> None:
        """Keep nodes free for those who have waited too long, one of each queue, the first ones."""
        line = self._lines[ALLOCATE]
        waiting = [(job, False) for _, _, job in sorted(self._overdue(now))]
        found = [line.find(reservation.key) for reservation in self.reservations]
        old = [(each[1], True) for each in found if each is not None and self._is_old(each[1], now)]
        candidates = [*old, *waiting]
        self.reservations.begin_round({job.key for job, _ in candidates})
        # A search that is in progress goes on first.
        for job, again in sorted(candidates, key=lambda each: each[0].key != self.reservations.searching):
            before = self.reservations.of(job.queue)
            look_at = 0.0 if again else self.reservations.may_plan_at(job.queue)
            if now < look_at:
                self._due = min(self._due, look_at)
                continue
            if not self.reservations.plan(job, now):
                self._due = now
                return
            after = self.reservations.of(job.queue)
            if after is None and not again:
                # Those who left room to it need not any more.
                self._due = now
            elif again and (before is None or after is None or after.nodes != before.nodes):
                self.made_room()

    def _is_old(self, job: Job, now: float) -> bool:
        """Return whether the nodes that are kept free for a job should be chosen anew."""
        reservation = self.reservations.of(job.queue)
        return reservation is not None and now >= self.reservations.old_at(reservation, job)

    def _drop(self, reservation: Reservation) -> None:
        self.reservations.drop(reservation.queue)
        self.made_room()

    def _overdue(self, now: float) -> list[tuple[Order, int, Job]]:
        """Return who lacks room and has waited too long; notes when somebody else will have."""
        found: list[tuple[Order, int, Job]] = []
        pause, self._due = self._pause, inf
        for line in self._lines.values() if self._reasons else ():
            asked_at = min(
                (job_class.asked_at for job_class in line.parked.values() if job_class.unexplained), default=inf
            )
            self._due = min(self._due, asked_at + pause)
        for job_class in self._lines[ALLOCATE].parked.values():
            if not job_class.lacks_room or (first := job_class.first()) is None:
                continue
            job = first[1]
            overdue = self.reservations.overdue_at(job)
            if overdue is None:
                continue
            overdue -= self._wall_offset
            if now < overdue:
                self._due = min(self._due, overdue)
            elif not self.reservations.is_hopeless(job):
                found.append((self._place(job), len(found), job))
        return found

    def _place(self, job: Job) -> Order:
        return self._order.place(job, self.queues.dominant_share(job.key))

    def _wake_unbound(self, line: JobQueue) -> None:
        """Wake those whose queue may have more now."""
        for job_class in [job_class for job_class in line.parked.values() if job_class.needs]:
            if all(
                self.queues.allows(job_class.queue, name, amount, beyond=beyond)
                for name, amount, beyond in job_class.needs
            ):
                line.wake(job_class)

    def _wake_beyond(self, line: JobQueue) -> None:
        """Wake those that only their queue's part keeps from what nobody of another queue waits for."""
        job_classes = [
            (job_class, {shortage.resource for shortage in job_class.shortages if shortage.bound == DESERVED})
            for job_class in line.parked.values()
            if not job_class.beyond
        ]
        job_classes = [(job_class, more) for job_class, more in job_classes if more]
        claimed = self._claimed(line) if job_classes else {}
        for job_class, more in job_classes:
            if (first := job_class.first()) is not None:
                more |= self.queues.more_than_deserved(job_class.queue, self.queues.asked(first[1].group.together))
            if all(claimed.get(name, set()) <= {job_class.queue} for name in more):
                line.wake(job_class)

    def _claimed(self, line: JobQueue) -> dict[str, set[str]]:
        """Return the queues that wait for room within what they deserve, by the resources that they ask."""
        claimed: dict[str, set[str]] = {}
        for job_class in line.claimants:
            if (first := job_class.first()) is None or self.reservations.is_hopeless(first[1]):
                continue
            group = first[1].group
            for pods in [group.together] if first[1].alike or group.missing > 1 else [(pod,) for pod in group.pods]:
                asked = self.queues.asked(pods)
                # The queue may have got more since it was this one's turn.
                if not self.queues.more_than_deserved(job_class.queue, asked):
                    for name in asked:
                        claimed.setdefault(name, set()).add(job_class.queue)
        return claimed

    def _serve(self, line: JobQueue, turns: Turns, no_room: dict[int, Unplaceable], most: int, *, beyond: bool) -> None:
        queues = self.queues.turns(line.queues, beyond=beyond)
        while queues and len(turns.order) < most:
            queue = queues.pop()
            first = line.first(queue)
            if first is None:
                continue
            self._turn(line, *first, turns, no_room, beyond=beyond)
            queues.push(queue)

    def _backfill(self, turns: Turns, most: int) -> None:
        """Serve pods that request nothing: queue by queue, job by job, each job with all of its pods."""
        line = self._lines[BACKFILL]
        unready: list[Job] = []
        held: list[tuple[str, PodUid]] = []
        for queue in sorted(line.queues, key=self.queues.order):
            while len(turns.order) < most and (first := line.first(queue)) is not None:
                job = first[1]
                if job.group.counts_as_ready:
                    self._backfill_job(job, turns, most)
                    continue
                held += self._hold(job)
                line.discard(job.key)
                unready.append(job)
        for node, uid in held:
            self._allocator.release(node, uid)
        for job in unready:
            self._enqueue(BACKFILL, job)

    def _backfill_job(self, job: Job, turns: Turns, most: int) -> None:
        line, no_room = self._lines[BACKFILL], dict[int, Unplaceable]()
        if not self._only_ready:
            job.group = msgspec.structs.replace(job.group, minimum=0, tasks=())
        self._place_reserved(job.key, turns)
        placed: list[PodFact] = []
        while len(turns.order) < most and (found := line.find(job.key)) is not None:
            job_class, rest = found
            now = self._turn(line, job_class, rest, turns, no_room, beyond=True) if job_class.at is not None else ()
            if not now:
                break
            placed += now
        others = self._lines[ALLOCATE].find(job.key)
        if placed and others is not None and others[1].group.mixed:
            others[1].group = others[1].group.without(placed).only_requesting()
            self._enqueue(ALLOCATE, others[1])

    def _place_reserved(self, key: GroupKey, turns: Turns) -> None:
        """Place the pods for which a gang has room reserved, each where it is best now."""
        placed = []
        for pod, reserved in self._reserved.pop(key, ()):
            self._allocator.release(reserved.node, pod.uid)
            placement = self._allocator.place(pod.ask) or reserved
            self._allocator.take(pod.uid, placement, pod.tenant)
            self.queues.hold(pod.uid)
            placed.append((pod, placement))
        if not placed:
            return
        turns.order += [pod.uid for pod, _ in placed]
        before = turns.placed[key]
        now = Decision(group=before.group, placed=tuple(placed), waiting=(), fitted=len(placed))
        turns.placed[key] = _together(before, now)
        line = self._lines[BACKFILL]
        found = line.find(key)
        if found is not None:
            job = found[1]
            line.discard(key)
            job.group = job.group.without([pod for pod, _ in placed])
            if job.group.pods:
                self._enqueue(BACKFILL, job)

    def _hold(self, job: Job) -> list[tuple[str, PodUid]]:
        """Hold room for a job's pods until the end of the cycle, as Volcano does for a gang that is not ready."""
        held = []
        for pod in job.group.pods:
            placement = self._allocator.place(pod.ask)
            if placement is not None:
                self._allocator.take(pod.uid, placement, pod.tenant)
                held.append((placement.node, pod.uid))
        return held

    def _turn(
        self,
        line: JobQueue,
        job_class: JobClass,
        job: Job,
        turns: Turns,
        no_room: dict[int, Unplaceable],
        *,
        beyond: bool,
    ) -> Sequence[PodFact]:
        """Decide a job, and place or park it; returns the pods that were placed."""
        # A second turn in one round has another answer than the first one.
        explain = self._reasons and (self._now >= job_class.asked_at + self._pause or self._now == job_class.asked_at)
        decision = decide(self._allocator, job.group, self.queues, beyond=beyond, no_room=no_room, reasons=explain)
        if not decision.placed:
            line.park(job_class, (reason for _, reason in decision.waiting if reason is not None), beyond=beyond)
            # With those of the gang that were placed for a moment.
            job_class.needs = [
                (each.resource, self.queues.needed(each), each.bound != DESERVED) for each in job_class.shortages
            ]
            if job_class.unexplained:
                # What was said before it could pass what its queue deserves is not why it waits.
                turns.waiting.pop(job_class.name, None)
            else:
                job_class.told = tuple(reason for _, reason in decision.waiting)
                turns.waiting[job_class.name] = (job_class, decision)
            if explain and job_class.lacks_room:
                job_class.asked_at = self._now
            return ()
        turns.waiting.pop(job_class.name, None)
        placed = [pod for pod, _ in decision.placed]
        turns.order += [pod.uid for pod in placed]
        turns.placed[job.key] = _together(turns.placed.get(job.key), decision)
        line.discard(job.key)
        if len(placed) == len(job.group.pods):
            return placed
        if job.group.mixed:
            self._begin(job, decision)
        else:
            job.group = job.group.without(placed)
            self._enter(job)
        return placed

    def _begin(self, job: Job, decision: Decision) -> None:
        """Put the rest of a mixed gang that has its minimum in its lines; some of it has room reserved."""
        rest = job.group.without([pod for pod, _ in decision.placed])
        if decision.reserved:
            self._reserved[job.key] = decision.reserved
        self._enter_best_effort(job, rest)
        job.group, job.alike = rest.only_requesting(), None
        if job.group.pods:
            self._enqueue(ALLOCATE, job)


def _action(job: Job) -> str:
    return BACKFILL if job.asks_nothing else ALLOCATE


def _together(before: Decision | None, now: Decision) -> Decision:
    """Return two turns of one group as one decision."""
    if before is None:
        return now
    return Decision(
        group=before.group, placed=(*before.placed, *now.placed), waiting=(), fitted=before.fitted + now.fitted
    )
