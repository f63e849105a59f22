"""For which of the waiting groups it is looked now whether pods may go for them.

One group gets room in a round, since the next search has to see what the first one took. A group for which no pod goes
is looked at again when something has changed, after a pause that grows.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice, zip_longest
from math import inf
from typing import NamedTuple, TypeVar

from deviceshare.model import Backoff, GroupKey, Now, shortened
from deviceshare.preemption import Preemption
from deviceshare.queueing import Job, JobClass, OrderKey
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.ownership import Ownership
from deviceshare.scheduler.preempting import Preempting
from deviceshare.scheduler.work_rate import WorkRate

PAUSE = Backoff(1.0, 5.0)
"""Seconds until it is looked again whether pods may go for jobs that are alike; doubles with each refusal."""
BLOCKED = Backoff(1.0, 30.0)
"""Seconds until pods go for a group again if those that should have gone did not, twice in a row; doubles each time."""
FORGET_BLOCKED = 300.0
"""Seconds after which it counts as the first time again."""
FORBIDDEN_PAUSE = 60.0
"""Seconds for which no pod goes for any group after the cluster did not permit to evict one: it permits none of a
namespace, or none at all."""
SPARED, SPARED_AT_MOST = 1.0, 3600.0
"""Seconds for which a pod is spared that did not go, at least and at most."""
WORK_OF_ROUND = 500
"""Work of searches by which no pod goes, in placements, after which a round looks at no more classes."""
WORK_PER_SECOND, BURST_OF_WORK = 2_500, 10_000
"""The same on average, which is about a tenth of the time of a core, and what may be done at once."""
WORK_OF_ANSWER = 4
"""What the least answer takes."""
BETWEEN_ROUNDS = 0.1
"""Seconds until classes are looked at for the time of their pause alone, or for want of :data:`WORK_PER_SECOND`."""
MAX_ALIKE = 100
"""Jobs of one class that are looked at in a round while each of them has an obstacle of its own, which costs no search.
The next ones follow after the pause."""
MAX_SHARES = 4
"""The same while the answer depends on what a job has already: each of them is searched for."""
MAX_REFUSED = 10_000
"""Classes of jobs, and groups that wait for the configured delay, that are remembered."""
EXPLAIN = Backoff(10.0, 60.0)
"""Seconds between two diagnoses why no pod goes for jobs that are alike; doubles each time that it is the same."""

_BY_SHARE = frozenset({"drf", "tdm"})
"""Plugins by which it depends on a job, and not only on its class and priority, which pods may go for it."""


_Item = TypeVar("_Item")
_ByQueue = dict[str, list[tuple[OrderKey, int, Job, JobClass]]]
"""Classes by their queue, with their order, a number that none of the others has, and their most important job."""


class _Refusal(NamedTuple):
    """That no pod went for the jobs of a class."""

    priority: int
    """The highest one of the jobs."""
    jobs: int
    """How many they were."""
    changes: int
    """:attr:`.ClusterState.changes` then."""
    again: float
    """When it is looked again for the class if something has changed."""
    times: int
    explain_at: float
    """When the next diagnosis is due."""
    same: int
    """How often the last one was found, in a row."""
    asked: frozenset[GroupKey]
    """The jobs that were looked at in turn if the answer was their own: another job may get another one. Else empty."""
    more: bool
    """Whether there were jobs that had not been looked at."""
    in_turn: bool
    """Whether it was looked at the next jobs, not at the most important ones."""


class _Blocked(NamedTuple):
    """That pods that should have gone for a group did not."""

    claim: str
    """The last one that waited for such a pod."""
    times: int
    """In a row."""
    since: float
    until: float
    """When it is looked again whether pods may go for the group."""


class PreemptionRound:
    """Chooses the groups, and remembers for which of them no pod goes. Times are monotonic."""

    def __init__(self, cluster: ClusterState, preempting: Preempting) -> None:
        self._cluster = cluster
        self._preempting = preempting
        self._refused: OrderedDict[Hashable, _Refusal] = OrderedDict()
        self._waits_since: OrderedDict[GroupKey, float] = OrderedDict()
        """When groups were first seen without room, if pods go only after a delay."""
        self._blocked: OrderedDict[GroupKey, _Blocked] = OrderedDict()
        self._paused_until, self._pause = -inf, ""
        """Until when no pod goes for any group, and why: the reason of groups that have no other one."""
        self._seen = -1
        """:attr:`.ClusterState.changes` when all that is due had been looked at."""
        self._due = inf
        self._rate = WorkRate(WORK_PER_SECOND, BURST_OF_WORK)
        self._passed_over: set[Hashable] = set()
        """The classes that were due in an earlier round, and were not looked at since then."""
        self._new_first = True
        """Whether a round begins with the classes that were never looked at, not with those that were passed over."""
        self.attempts = 0
        """The groups for which it was looked whether pods may go, by the last call of :meth:`decide`."""
        self.explained: list[JobClass] = []
        """The job classes for which it was found why no pod goes, since the last call of :meth:`decide`."""

    def due(self) -> Iterator[float]:
        """Yield when :meth:`decide` has something to do without further events."""
        due = min(self._due, self._preempting.spared_until)
        if due < inf and self._preempting.actions:
            yield due

    def blocked(self, key: GroupKey | None, claim: str, now: float) -> float:
        """Note that a pod for which a claim of a group waits does not go; return until when the pod is to be spared.

        What blocks it may block every pod, so the group waits, longer each time. The pod is spared beyond that, for
        twice the time that all this has taken: so other pods are tried in between, however many are blocked. ``key``:
        None if the group is gone.
        """
        if key is None:
            return now + SPARED
        before = self._blocked.pop(key, None)
        if before is None or now > before.until + FORGET_BLOCKED:
            blocked = _Blocked(claim, 1, now, now)
        elif before.claim == claim:
            blocked = before  # several pods of one decision
        else:
            until = now + BLOCKED.delay(before.times - 1)
            blocked = _Blocked(claim, before.times + 1, before.since, until)
        self._blocked[key] = blocked
        if len(self._blocked) > MAX_REFUSED:
            self._blocked.popitem(last=False)
        return blocked.until + min(SPARED_AT_MOST, max(SPARED, 2 * (blocked.until - blocked.since)))

    def pause(self, why: str, now: float) -> None:
        """Let no pods go for any group for a time: the cluster does not permit it, as ``why`` says."""
        self._paused_until = now + FORBIDDEN_PAUSE
        self._pause = f"paused for up to {FORBIDDEN_PAUSE:g} s: {why}"

    def _explain_pause(self) -> None:
        """Say why no pod goes for the classes of which it is not known why none goes."""
        if self._seen == self._cluster.changes:
            return
        self._seen = self._cluster.changes
        for job_class in self._cluster.dispatcher.parked:
            if not job_class.preemption and next(_by_importance(job_class), None) is not None:
                job_class.preemption = self._pause
                self.explained.append(job_class)

    def decide(self, now: Now, ownership: Ownership) -> Preemption | None:
        """Return the first answer by which a group gets room, None if no group does."""
        self.explained, self.attempts = [], 0
        cluster = self._cluster
        if not self._preempting.actions:
            return None
        self._preempting.end_sparing(now.monotonic)
        if now.monotonic < self._paused_until:
            self._due = self._paused_until
            self._explain_pause()
            return None
        if cluster.changes == self._seen and now.monotonic < self._due:
            return None
        if now.monotonic < self._rate.allows_at:
            self._due = self._rate.allows_at + BETWEEN_ROUNDS
            return None
        self._seen, self._due = cluster.changes, inf
        due = self._in_turn(self._classes_due(now.monotonic))
        done = 0
        for number, (job, job_class) in enumerate(due):
            if done >= WORK_OF_ROUND:
                left = {each.name for _, each in due[number:]}
                self._passed_over = left & self._passed_over or left
                self._due = now.monotonic
                self._new_first = not self._new_first
                break
            self._passed_over.discard(job_class.name)
            found, work = self._search(job_class, job, now, ownership)
            self._rate.spend(work, now.monotonic)
            if found is not None:
                self._due = now.monotonic
                return found
            done += work
        else:
            self._passed_over.clear()
        return None

    def _classes_due(self, now: float) -> Iterator[tuple[Job, JobClass]]:
        """Yield the classes for which it is to be looked whether pods may go, with their most important job."""
        changes = self._cluster.changes
        for job_class in self._cluster.dispatcher.parked:
            refusal = self._refused.get(job_class.name)
            if refusal is not None and len(job_class.jobs) == refusal.jobs:
                if refusal.changes == changes and not refusal.more:
                    continue
                if now < refusal.again:
                    self._due = min(self._due, max(refusal.again, now + BETWEEN_ROUNDS))
                    continue
            job = next(_by_importance(job_class), None)
            if job is not None and self._is_due(job_class, job, now):
                yield job, job_class

    def _in_turn(self, due: Iterable[tuple[Job, JobClass]]) -> list[tuple[Job, JobClass]]:
        """Return classes in the order in which they are looked at: the first ones of all queues, then the next ones.

        Those that were never looked at and those that were passed over alternate, and the others follow.
        """
        turns: tuple[_ByQueue, _ByQueue, _ByQueue] = ({}, {}, {})
        for number, (job, job_class) in enumerate(due):
            order, _ = job_class.first() or ((), job)
            turn = 0 if job_class.name not in self._refused else 1 if job_class.name in self._passed_over else 2
            turns[turn].setdefault(job.queue, []).append((order, number, job, job_class))
        in_turn: list[list[tuple[Job, JobClass]]] = []
        for by_queue in turns:
            of_queues = (sorted(by_queue[queue]) for queue in sorted(by_queue, key=self._cluster.accounts.order))
            in_turn.append([each[2:] for each in _alternating(*of_queues)])
        new, passed_over, others = in_turn
        return [*_alternating(*((new, passed_over) if self._new_first else (passed_over, new))), *others]

    def _is_due(self, job_class: JobClass, job: Job, now: float) -> bool:
        if not self._has_waited(job, now):
            return False
        refusal = self._refused.get(job_class.name)
        if refusal is None or job.priority > refusal.priority:
            return True
        new = bool(refusal.asked) and not refusal.more and not job_class.jobs.keys() <= refusal.asked
        return new or self._is_over(refusal, now)

    def _is_over(self, refusal: _Refusal, now: float) -> bool:
        """Return whether something has changed since a refusal, or other jobs follow, and its pause is over."""
        if refusal.changes == self._cluster.changes and not refusal.more:
            return False
        if now < refusal.again:
            self._due = min(self._due, refusal.again)
        return now >= refusal.again

    def _has_waited(self, job: Job, now: float) -> bool:
        """Return whether a job has waited for as long as is configured, or since pods did not go for it."""
        blocked = self._blocked.get(job.key)
        until = now if blocked is None else blocked.until
        if delay := self._cluster.allocator.conf.preemption_delay:
            until = max(until, self._waits_since.setdefault(job.key, now) + delay)
            if len(self._waits_since) > MAX_REFUSED:
                self._waits_since.popitem(last=False)
        if now < until:
            self._due = min(self._due, until)
        return now >= until

    def _search(self, job_class: JobClass, job: Job, now: Now, ownership: Ownership) -> tuple[Preemption | None, int]:
        """Return the answer by which the most important ``job`` of a class gets room, or another one of the class.

        With it the work of the other answers.

        If no pod goes for a job none goes for the others, unless an obstacle is its own, or its share counts: then it
        is looked at the most important ones, if something has changed, and in turn at the next ones.
        """
        before = self._refused.pop(job_class.name, None)
        jobs = list(_by_importance(job_class))
        asked = {each.key for each in jobs} & before.asked if before is not None else set[GroupKey]()
        if len(asked) == len(jobs):
            asked.clear()
        in_turn = bool(asked and before is not None and (before.changes == self._cluster.changes or not before.in_turn))
        explain_at, same = (
            (before.explain_at, before.same) if before is not None and job_class.preemption else (-inf, 0)
        )
        explain = not in_turn and now.monotonic >= explain_at
        shares = not _BY_SHARE.isdisjoint(self._cluster.allocator.conf.plugins)
        why, searches, work = "", 0, 0
        for each in islice([each for each in jobs if not in_turn or each.key not in asked], MAX_ALIKE):
            record = self._cluster.groups.get(each.key)
            if not self._has_waited(each, now.monotonic):
                continue
            asked.add(each.key)
            if record is None or not ownership.owns(record):
                continue
            self.attempts += 1
            found = self._preempting.preempt(each.key, now, explain=explain and not why)
            if found.decision is not None and (found.victims or found.taken or not found.leaving):
                self._waits_since.pop(each.key, None)
                return found, work
            work += found.work + WORK_OF_ANSWER
            if not (why or in_turn) and (explain or found.leaving):
                why = self._waits_for(found) if found.leaving else str(found)
            searches += not found.of_group
            if searches >= (MAX_SHARES if shares else 1):
                break
        if searches and not shares:
            asked = {each.key for each in jobs}
        times = 0 if before is None or before.priority != job.priority else before.times + 1
        if explain:
            same = same + 1 if why == job_class.preemption else 0
            explain_at = now.monotonic + EXPLAIN.delay(same)
        refusal = self._refused[job_class.name] = _Refusal(
            priority=job.priority,
            jobs=len(job_class.jobs),
            changes=self._cluster.changes,
            again=now.monotonic + PAUSE.delay(times),
            times=times,
            explain_at=explain_at,
            same=same,
            asked=frozenset() if searches and not shares else frozenset(asked),
            more=len(asked) < len(jobs),
            in_turn=in_turn,
        )
        if refusal.more:
            self._due = min(self._due, refusal.again)
        if len(self._refused) > MAX_REFUSED:
            self._refused.popitem(last=False)
        if why and why != job_class.preemption:
            job_class.preemption = why
            self.explained.append(job_class)
        return None, work

    def _waits_for(self, found: Preemption) -> str:
        names = [self._cluster.pods[uid].fact.ref for uid in found.leaving if uid in self._cluster.pods]
        if not names:
            return ""  # their claims are removed with the next write
        return f"the pods fit when others are gone that are terminating: {shortened(names)}"


def _alternating(*lists: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the first one of each list, then the second ones, and so on."""
    return (each for together in zip_longest(*lists) for each in together if each is not None)


def _by_importance(job_class: JobClass) -> Iterator[Job]:
    """Yield the jobs of a class: first that for which most pods may go, of the highest priority, then the next ones."""
    able = [job for job in job_class.jobs.values() if not all(pod.never_preempts for pod in job.group.together)]
    entry = job_class.first()
    if entry is None or not able:
        return
    first = entry[1]
    highest = max(job.priority for job in able)
    if first.priority != highest or first not in able:
        first = min((job for job in able if job.priority == highest), key=_age)
    yield first
    yield from (job for job in sorted(able, key=lambda job: (-job.priority, *_age(job))) if job is not first)


def _age(job: Job) -> tuple[float, GroupKey]:
    return job.created, job.key
