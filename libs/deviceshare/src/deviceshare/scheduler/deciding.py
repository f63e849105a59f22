"""One round of decisions: which groups can be decided, which are admitted to their queues, and what is reported.

The order of work is the library's (:mod:`deviceshare.queueing`); this module turns the state of the cluster into jobs,
and the decisions into explanations.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from deviceshare.allocation import Placement, Unplaceable, lasts
from deviceshare.model import Backoff, Explanation, GroupKey, Now, PodFact, PodGroupFact, PodRequest, PodUid, Resources
from deviceshare.queueing import ROOM_FOR_DEVICES, Applicant, Decision, Group, Job, JobClass, Reason, Shortage
from deviceshare.scheduler import explaining
from deviceshare.scheduler.arrivals import most_frequent_requests
from deviceshare.scheduler.cluster_state import STARTED, ClusterState
from deviceshare.scheduler.ownership import EVERYTHING, Ownership
from deviceshare.scheduler.promises import Promises
from deviceshare.scheduler.readiness import enqueue_obstacle, namespace_obstacle, namespace_of, readiness
from deviceshare.scheduler.records import GroupRecord, beside
from deviceshare.scheduler.reporter import Reporter

MAX_PODS = 500
"""Pods that one round places, more or less: the claims of a round are written before the next one begins."""
EXPECT_INTERVAL, MAX_EXPECTED = 10.0, 100
"""Seconds between two reports to the allocator of the most frequent requests, and how many: they decide how cards
are partitioned."""
MAX_KEPT = 100
"""Reservations that are examined to say for whom nodes are kept free from a request."""
SEARCH_RETRY = Backoff(1.0, 60.0)
"""Pauses before devices are looked for again where a round had no time for all nodes."""


class Round(NamedTuple):
    """The result of one round: the groups of which pods were placed, and the explanations of PodGroups.

    ``order`` holds the uids of the placed pods in the order of the decisions.
    """

    decisions: list[Decision]
    order: list[PodUid]
    of_groups: list[Explanation]
    unplaced: int
    """How many pods were found to fit nowhere."""

    @property
    def placed(self) -> list[tuple[PodFact, Placement, Decision]]:
        """The placed pods in the order of the decisions, each with its place and the decision of its group."""
        by_uid = {
            pod.uid: (pod, placement, decision) for decision in self.decisions for pod, placement in decision.placed
        }
        return [by_uid[uid] for uid in self.order if uid in by_uid]


class Deciding:
    """Decides the groups of a cluster, and gives the explanations of those that wait to the reporter."""

    def __init__(self, cluster: ClusterState, reporter: Reporter, instance: str) -> None:
        self._promises = Promises(cluster)
        self._cluster = cluster
        self._reporter = reporter
        self._instance = instance
        self.retries: dict[str, float] = {}
        """When pods whose claim was refused may be decided again: monotonic, by uid."""
        self._expect_at = 0.0
        """When the requests are reported to the allocator again, monotonic."""
        self._search_at = inf
        """When devices are looked for again on nodes for which a round had no time, monotonic."""
        self._searches = 0
        """How often in turn."""
        self._wall_offset: float | None = None
        """How far the wall clock was ahead of the monotonic one at first: a step of it does not change ages."""
        self._ownership: Ownership = EVERYTHING
        """That of this round."""
        self._kept: dict[PodRequest, tuple[set[GroupKey], set[GroupKey]]] = {}
        """For whom nodes are kept free, of requests that are reported in this round: room there now, and later."""
        self._of_groups: list[Explanation] = []
        """Explanations of PodGroups in this round."""

    def drop(self, uid: str) -> None:
        """Neither retry nor report a pod that waits no more."""
        self._reporter.drop(uid)
        self.retries.pop(uid, None)

    def leave(self, group: GroupRecord, ownership: Ownership) -> None:
        """Report nothing more of a group that this replica does not decide.

        What was reported before is forgotten if another replica decides the group: if it comes back, this is not the
        last report. It is not forgotten while the others read what may have moved the group, for a moment.
        """
        for uid in group.members:
            self._reporter.drop(uid)
        if ownership.will_own(group):
            return
        group.admitted, group.unreported, group.reported = False, False, ""
        for uid in group.members:
            self._cluster.pods[uid].forget_report()

    def due(self, now: Now) -> Iterator[float]:
        """Yield the monotonic times at which a round has something to do without further events."""
        yield from self.retries.values()
        yield from self._cluster.dispatcher.due()
        if self._promises.unfinished:
            yield now.monotonic
        if self._search_at < inf:
            yield self._search_at
        # How long a PodGroup has waited follows from its creation timestamp.
        steady = self._steady(now)
        yield from (now.monotonic + due - steady for due in self._cluster.enqueue.due(steady))

    def _steady(self, now: Now) -> float:
        """Return the unix time without the steps of the wall clock since the start, for ages."""
        if self._wall_offset is None:
            self._wall_offset = now.wall - now.monotonic
        return now.monotonic + self._wall_offset

    def decide(self, now: Now, ownership: Ownership = EVERYTHING, avoided: Collection[str] = ()) -> Round:
        """Decide what can be decided now, of the groups that are owned.

        A pod goes to one of the ``avoided`` nodes only if it fits on no other.
        """
        cluster, self._ownership, self._kept = self._cluster, ownership, {}
        if now.monotonic >= self._expect_at:
            self._expect_at = now.monotonic + EXPECT_INTERVAL
            cluster.allocator.expect(most_frequent_requests(cluster, MAX_EXPECTED))
        for uid in [uid for uid, due in self.retries.items() if due <= now.monotonic]:
            del self.retries[uid]
            cluster.reconsider_pod(uid)
        if searches := now.monotonic >= self._search_at:
            self._search_at = inf
            cluster.made_room(ROOM_FOR_DEVICES)
        cluster.reconsider_relabelled()
        cluster.classify_again()
        candidates, cluster.candidates = cluster.candidates, set()
        for key in sorted(candidates):
            if (record := cluster.groups.get(key)) is not None:
                self._check(record, now)
        self._admit(now)
        # Not even the order of jobs depends on the avoided nodes.
        turns = cluster.dispatcher.decide(MAX_PODS, now.monotonic, self._steady(now), avoided)
        if cluster.allocator.devices.postponed and self._search_at == inf:
            self._search_at = now.monotonic + SEARCH_RETRY.delay(self._searches)
            self._searches += 1
        elif searches:
            self._searches = 0
        for job_class, decision in turns.waiting.values():
            self._report_job_class(job_class, decision, now.wall)
        reported, self._of_groups = self._of_groups, []
        # For a gang that was placed whole no explanation says that it was admitted to its queue.
        whole = {key for key, decision in turns.placed.items() if decision.whole}
        for each in reported:
            if each.uid and each.group in whole and each.group in cluster.groups:
                cluster.groups[GroupKey(each.group)].unreported = True
        return Round(
            decisions=list(turns.placed.values()),
            order=turns.order,
            of_groups=[each for each in reported if each.uid and each.group not in whole],
            unplaced=sum(len(each.waiting) * len(alike.jobs) for alike, each in turns.waiting.values()),
        )

    def _check(self, record: GroupRecord, now: Now) -> None:
        """Put a group in its queue if it can be decided; report why it or some of its pods wait."""
        cluster, fact = self._cluster, record.fact
        if fact is not None:
            self._promises.changed(record)
            self._commit(record, fact)
        if not self._ownership.owns(record):
            self.leave(record, self._ownership)
            return
        if fact is not None and record.applies and not self._has_started(record, fact):
            closed = enqueue_obstacle(cluster, fact)
            if closed:
                self._reject(record, closed, None, now.wall)
            else:
                needs = self._needs(record, fact)
                reserved = self._without_gated(record, needs) if needs else needs
                cluster.enqueue.put(Applicant(_applying(cluster, record, fact), needs, reserved))
            return
        if not record.members:
            return
        found = readiness(cluster, record, self.retries, now.monotonic)
        for pod, obstacle in found.obstacles:
            self._reporter.put(explaining.held_up(pod, obstacle, now.wall, self._instance))
        if found.job is None:
            return
        if record.unreported:
            # It was placed, but not claimed.
            record.unreported = False
            self._of_groups.append(explaining.admitted(record, now.wall, self._instance))
        for job_class in cluster.dispatcher.put(found.job):
            if job_class.reasons and job_class.reported_reasons:
                # Other jobs of the class wait already.
                job = job_class.jobs[record.key]
                self._report(_alike(job.group, job_class.reported_reasons), now.wall, job_class.preemption)

    def _commit(self, record: GroupRecord, fact: PodGroupFact) -> None:
        """Reserve in its queue what a group has of its ``minResources``, and while it starts what it lacks of them.

        Source: Volcano pkg/scheduler/plugins/{proportion,capacity} (OnSessionOpen: inqueue, elastic).
        """
        wanted, has = self._needs(record, fact) or {}, self._cluster.accounts.groups.allocated(record.key)
        reserved = {name: min(amount, has.get(name, 0)) for name, amount in wanted.items()}
        if wanted and self._starts(record, fact):
            lacks = {name: amount - reserved[name] for name, amount in wanted.items()}
            for name, amount in self._without_gated(record, lacks).items():
                reserved[name] += amount
        self._cluster.accounts.commit(record.key, fact.queue, reserved)

    def _starts(self, record: GroupRecord, fact: PodGroupFact) -> bool:
        """Return whether what a group lacks is reserved for it: it was admitted, or runs with its minimum.

        Nothing is reserved for a group that cannot start.
        """
        if not self._promises.holds(record) or namespace_obstacle(self._cluster, fact.queue, namespace_of(fact)):
            return False
        if record.admitted or (fact.admitted and fact.phase == "Inqueue"):
            return True
        return fact.phase == "Running" and self._on_nodes(record) >= fact.min_member

    def _has_started(self, record: GroupRecord, fact: PodGroupFact) -> bool:
        """Return whether pods show the admission of a group whose phase is not signed.

        Placement claims only pods of admitted groups. A group of which the minimum runs started before signing was
        enabled, or was started by Volcano. A group that has started and has no waiting pods needs no admission.
        """
        if fact.phase in ("", "Pending"):
            return False
        members = [self._cluster.pods[uid] for uid in record.members]
        if any(member.claims for member in members) or self._on_nodes(record) >= max(1, fact.min_member):
            return True
        return fact.phase in STARTED and not any(member.waits for member in members)

    def _on_nodes(self, record: GroupRecord) -> int:
        members = [self._cluster.pods[uid] for uid in record.members]
        return sum(member.placed and not member.fact.ended for member in members)

    def _needs(self, record: GroupRecord, fact: PodGroupFact) -> Resources | None:
        """Return the minimum resources of a group, with what the ResourceClaims of its first pods count, None for none.

        Volcano's controllers, which write ``minResources``, leave claims out.
        """
        needs, accounts = fact.min_resources, self._cluster.accounts
        if needs is None or not accounts.claims.names:
            return needs
        devices = accounts.of_claims(sorted(record.members)[: max(1, fact.min_member)])
        return {**devices, **needs} if devices else needs

    def _without_gated(self, record: GroupRecord, amounts: Resources) -> Resources:
        """Return amounts less the requests of the group's pods that have scheduling gates."""
        facts = [self._cluster.pods[uid].fact for uid in record.members]
        gated = self._cluster.accounts.asked([fact for fact in facts if fact.gates and not fact.node])
        return {name: max(0, amount - gated[name]) for name, amount in amounts.items()}

    def _admit(self, now: Now) -> None:
        """Admit groups to their queues."""
        accounts, at = self._cluster.accounts, now.monotonic
        for record in self._promises.renew(self.retries, at):
            self._promise(record, "", now.wall)
        rejected = self._enqueue(now)
        if _for_promises(rejected):
            returned = self._promises.take_back(accounts.groups.promised(), self.retries, at)
            for record, why in returned:
                self._promise(record, why, now.wall)
            if returned:
                rejected = self._enqueue(now)
                # Groups that have just been admitted may not be able to start either.
                self._promises.unfinished |= _for_promises(rejected)
        for applicant, shortage in rejected:
            record = self._cluster.groups[applicant.job.key]
            self._reject(record, f"pod group {record.key} is not admitted to its queue: {shortage}", shortage, now.wall)

    def _enqueue(self, now: Now) -> Sequence[tuple[Applicant, Shortage]]:
        """Admit the groups that their queues have room for; return the others."""
        found = self._cluster.enqueue.decide(self._steady(now))
        for applicant in found.admitted:
            record = self._cluster.groups[applicant.job.key]
            record.admitted, record.reported = True, ""
            self._of_groups.append(explaining.admitted(record, now.wall, self._instance))
            self._check(record, now)
        return found.rejected

    def _promise(self, record: GroupRecord, why_not: str, now: float) -> None:
        """Reserve for a group what it is promised now, and report ``why_not``: it gave that back; '': it did not.

        A group that another replica decides is reported as well: only this one may know. Not one that its queue has to
        admit again, for example since it requests something else now: the report would be taken for the admission.
        """
        if record.fact is None:
            return
        self._commit(record, record.fact)
        if not record.applies:
            self._of_groups.append(explaining.admitted(record, now, self._instance, why_not))

    def _reject(self, record: GroupRecord, why: str, shortage: Shortage | None, now: float) -> None:
        """Report why a group is not admitted to its queue; its pods wait for the same reason."""
        if record.reported != why:
            record.reported = why
            self._of_groups.append(explaining.rejected(record, why, shortage, now, self._instance))
        for uid in sorted(record.members):
            member = self._cluster.pods[uid]
            if member.waits and member.reported != why:
                self._reporter.put(explaining.pending(member.fact, why, now, self._instance, why=shortage))

    def report_again(self, job_classes: Iterable[JobClass], now: Now) -> None:
        """Report why the jobs of classes wait for which it is known since then why no pod goes."""
        for job_class in job_classes:
            for job in job_class.jobs.values() if job_class.reported_reasons else ():
                self._report(_alike(job.group, job_class.reported_reasons), now.wall, job_class.preemption)

    def _report(self, decision: Decision, now: float, preemption: str) -> None:
        for pod, why in decision.waiting:
            self._reporter.put(self._waiting(pod, why, decision, now, preemption))

    def _waiting(self, pod: PodFact, why: Reason, decision: Decision, now: float, preemption: str) -> Explanation:
        """Return why a pod waits, and for whom nodes are kept free that it may not have."""
        found = explaining.waiting(pod, why, decision, now, self._instance, preemption)
        if not any(refusal.code == "NodeKeptFree" for refusal in found.refusals):
            return found
        pods, jobs = self._cluster.pods, self._kept_from(pod)
        single = ((key, pods.get(PodUid(key.removeprefix("pod/")))) for key in jobs)
        return replace(found, kept_for=tuple(sorted(key if one is None else one.fact.ref for key, one in single)))

    def _kept_from(self, pod: PodFact) -> set[GroupKey]:
        """Return the jobs that keep nodes from a waiting pod: those with nodes that have room for it.

        If there are none, those with nodes on which it may fit when pods end; of many reservations the first ones.
        """
        if pod.ask not in self._kept:
            self._kept[pod.ask] = self._keepers(pod.ask)
        room, later = self._kept[pod.ask]
        return room - {pod.group} or later - {pod.group}

    def _keepers(self, request: PodRequest) -> tuple[set[GroupKey], set[GroupKey]]:
        """Return the jobs with reserved nodes that have room for a request, and those on whose nodes it may fit."""
        room, later = set[GroupKey](), set[GroupKey]()
        allocator = self._cluster.allocator
        for each in islice(self._cluster.dispatcher.reservations, MAX_KEPT):
            nodes = [name for name in each.nodes if allocator.node(name) is not None]
            first = allocator.why_not(request, nodes).first_failing
            if sum(refusal.nodes for refusal in first) < len(nodes):
                room.add(each.key)
            elif not all(map(lasts, first)):
                later.add(each.key)
        return room, later

    def _report_job_class(self, job_class: JobClass, decision: Decision, now: float) -> None:
        """Report why the jobs of a class wait: the first one as it was decided, the others like it."""
        preemption = job_class.preemption
        self._report(decision, now, preemption)
        if len(job_class.jobs) == 1:
            return
        reasons = tuple(why for _, why in decision.waiting)
        (first, why), *_ = decision.waiting
        explained = self._waiting(first, why, decision, now, preemption)
        message, others = explained.message, beside(explained)
        same_message = decision.group.minimum <= 1 and not (isinstance(why, Unplaceable) and why.problem is not None)
        for job in job_class.jobs.values():
            if job.key == decision.group.key:
                continue
            if not same_message or job.group.minimum > 1:
                # The message names the pod, or its group.
                self._report(_alike(job.group, reasons), now, preemption)
                continue
            for pod in job.group.pods:
                record = self._cluster.pods[pod.uid]
                if (record.reported, record.reported_beside) != (message, others):
                    explain = partial(self._waiting, pod, why, decision, now, preemption)
                    self._reporter.put_later(pod.uid, message, others, explain)


def _for_promises(rejected: Iterable[tuple[Applicant, Shortage]]) -> bool:
    """Return whether any of these groups is kept out by what is promised to others."""
    return any(shortage.promised for _, shortage in rejected)


def _alike(group: Group, reasons: Sequence[Reason]) -> Decision:
    """Return the decision of a group that waits for the same reasons as another one of its class."""
    fitted = sum(reason is None for reason in reasons)
    last = next((reason for reason in reversed(reasons) if reason is not None), None)
    waiting = tuple((pod, None if at < fitted else last) for at, pod in enumerate(group.pods))
    return Decision(group=group, placed=(), waiting=waiting, fitted=fitted)


def _applying(cluster: ClusterState, record: GroupRecord, fact: PodGroupFact) -> Job:
    """Return a group as the job that it would be in its queue; it may have no pods yet."""
    return Job(
        queue=fact.queue,
        group=Group(key=GroupKey(record.key), pods=(), minimum=fact.min_member),
        priority=cluster.priority_classes.of(fact),
        created=fact.created,
        waiting_time=fact.waiting_time,
    )
