"""For which of the waiting groups it is looked now whether pods may go for them.

One group gets room in a round, since the next search has to see what the first one took. A group for which no pod goes
is looked at again when something has changed, after a pause that grows.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from math import inf
from typing import NamedTuple

from deviceshare.model import Backoff, GroupKey, Now
from deviceshare.preemption import Preemption
from deviceshare.queueing import Job, JobClass, OrderKey
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.ownership import Ownership
from deviceshare.scheduler.preempting import Preempting

PAUSE = Backoff(1.0, 5.0)
"""Seconds until it is looked again whether pods may go for jobs that are alike; doubles with each refusal."""
MAX_SEARCHES = 4
"""Searches in one round, each for another queue."""
MAX_REFUSED = 10_000
"""Classes of jobs, and groups that wait for the configured delay, that are remembered."""
EXPLAIN_INTERVAL = 10.0
"""Seconds between two diagnoses why no pod goes for jobs that are alike: a diagnosis looks at all pods."""


class _Refusal(NamedTuple):
    changes: int
    """:attr:`.ClusterState.changes` then."""
    at: float
    times: int
    explained_at: float


class PreemptionRound:
    """Chooses the groups, and remembers for which of them no pod goes. Times are monotonic."""

    def __init__(self, cluster: ClusterState, preempting: Preempting) -> None:
        self._cluster = cluster
        self._preempting = preempting
        self._refused: OrderedDict[Hashable, _Refusal] = OrderedDict()
        self._waits_since: OrderedDict[GroupKey, float] = OrderedDict()
        """When groups were first seen without room, if pods go only after a delay."""
        self._seen = -1
        """:attr:`.ClusterState.changes` when all that is due had been looked at."""
        self._due = inf
        self.explained: list[JobClass] = []
        """The job classes for which it was found why no pod goes, since the last call of :meth:`decide`."""

    def due(self) -> Iterator[float]:
        """Yield when :meth:`decide` has something to do without further events."""
        due = min(self._due, self._preempting.spared_until)
        if due < inf and self._preempting.actions:
            yield due

    def decide(self, now: Now, ownership: Ownership) -> Preemption | None:
        """Return the first answer by which a group gets room, None if no group does."""
        self.explained = []
        cluster = self._cluster
        if not self._preempting.actions:
            return None
        self._preempting.end_sparing(now.monotonic)
        if cluster.changes == self._seen and now.monotonic < self._due:
            return None
        self._seen, self._due = cluster.changes, inf
        first: dict[str, tuple[OrderKey, Job, JobClass]] = {}
        for job_class in cluster.dispatcher.parked:
            job = _most_important(job_class)
            if job is None or not self._is_due(job_class, job, now.monotonic):
                continue
            order, _ = job_class.first() or ((), job)
            if job.queue in first:
                self._due = now.monotonic
            if job.queue not in first or order < first[job.queue][0]:
                first[job.queue] = (order, job, job_class)
        for number, queue in enumerate(sorted(first, key=cluster.accounts.order)):
            _, job, job_class = first[queue]
            if number == MAX_SEARCHES:
                self._due = now.monotonic
                break
            record = cluster.groups.get(job.key)
            if record is None or not ownership.owns(record):
                continue
            found = self._search(job_class, job, now)
            if found is not None:
                self._due = now.monotonic
                return found
        return None

    def _is_due(self, job_class: JobClass, job: Job, now: float) -> bool:
        if delay := self._cluster.allocator.conf.preemption_delay:
            since = self._waits_since.setdefault(job.key, now)
            if len(self._waits_since) > MAX_REFUSED:
                self._waits_since.popitem(last=False)
            if now < since + delay:
                self._due = min(self._due, since + delay)
                return False
        refusal = self._refused.get((job_class.name, job.priority))
        if refusal is None:
            return True
        if refusal.changes == self._cluster.changes:
            return False
        again = refusal.at + PAUSE.delay(refusal.times)
        if now < again:
            self._due = min(self._due, again)
            return False
        return True

    def _search(self, job_class: JobClass, job: Job, now: Now) -> Preemption | None:
        name = (job_class.name, job.priority)
        before = self._refused.pop(name, None)
        explained_at = before.explained_at if before is not None and job_class.preemption else -inf
        explain = now.monotonic >= explained_at + EXPLAIN_INTERVAL
        found = self._preempting.preempt(job.key, now, explain=explain)
        if found.decision is not None and (found.victims or not found.leaving):
            self._waits_since.pop(job.key, None)
            return found
        times = 0 if before is None else before.times + 1
        at = now.monotonic if explain else explained_at
        self._refused[name] = _Refusal(self._cluster.changes, now.monotonic, times, at)
        if len(self._refused) > MAX_REFUSED:
            self._refused.popitem(last=False)
        if explain or found.leaving:
            why = self._waits_for(found) if found.leaving else str(found)
            if why != job_class.preemption:
                job_class.preemption = why
                self.explained.append(job_class)
        return None

    def _waits_for(self, found: Preemption) -> str:
        names = [self._cluster.pods[uid].fact.ref for uid in found.leaving if uid in self._cluster.pods]
        return f"the pods fit when others are gone that are terminating: {shortened(names)}"


def shortened(names: list[str], most: int = 3) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more


def _most_important(job_class: JobClass) -> Job | None:
    """Return the job of a class for which most pods may go: if none go for it, none go for the others."""
    first = job_class.first()
    able = [job for job in job_class.jobs.values() if not any(pod.never_preempts for pod in job.group.together)]
    if first is None or not able:
        return None
    highest = max(job.priority for job in able)
    if first[1].priority == highest and first[1] in able:
        return first[1]
    return min((job for job in able if job.priority == highest), key=lambda job: (job.created, job.key))
