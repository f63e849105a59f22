"""One round of decisions: which groups can be decided, who is let into queues, whose turn it is, and what is told.

The order is the library's (:mod:`deviceshare.ordering`); here the world is put into its words, and its answers into
those that users read.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from deviceshare.allocator import Unplaceable
from deviceshare.explain import Explanation
from deviceshare.facts import GroupKey, PodGroupFact, PodUid, Resources
from deviceshare.gangs import Decision, Group, Reason
from deviceshare.ordering.enqueue import Applicant
from deviceshare.ordering.jobs import Job
from deviceshare.ordering.line import Kind
from deviceshare.ordering.shortage import Shortage

from deviceshare_placement.core import telling
from deviceshare_placement.core.readiness import enqueue_obstacle, readiness
from deviceshare_placement.core.records import GroupRecord
from deviceshare_placement.core.teller import Teller
from deviceshare_placement.core.world import World

MOST_PODS = 500
"""Pods that one cycle places, more or less: a cycle is published before the next one begins."""
EXPECT_INTERVAL, MOST_EXPECTED = 10.0, 100
"""How often, in seconds, and of how many asks the allocator is told what pods ask: how cards are cut goes by it."""


class Round(NamedTuple):
    """The result of one round: the groups of which pods were placed, and the explanations of PodGroups.

    ``order`` holds the uids of the placed pods in the order of the decisions.
    """

    decisions: list[Decision]
    order: list[PodUid]
    of_groups: list[Explanation]


class Deciding:
    """Decides what can be decided in a world, and lets the teller tell why the rest waits."""

    def __init__(self, world: World, teller: Teller, instance: str) -> None:
        self._world = world
        self._teller = teller
        self._instance = instance
        self.retries: dict[str, float] = {}
        """When pods whose claim was refused may be decided again, by uid."""
        self._expect_at = 0.0
        """When the allocator is told again what pods ask."""
        self._of_groups: list[Explanation] = []
        """What is to be told of PodGroups in this round."""

    def decide(self, now: float) -> Round:
        """Decide what can be decided now."""
        world = self._world
        if now >= self._expect_at:
            self._expect_at = now + EXPECT_INTERVAL
            world.allocator.expect(world.asked(MOST_EXPECTED))
        for uid in [uid for uid, due in self.retries.items() if due <= now]:
            del self.retries[uid]
            world.reconsider_pod(uid)
        candidates, world.candidates = world.candidates, set()
        for key in sorted(candidates):
            if (record := world.groups.get(key)) is not None:
                self._look_at(record, now)
        self._admit(now)
        turns = world.dispatcher.decide(MOST_PODS, now)
        for kind, decision in turns.waiting.values():
            self._tell_kind(kind, decision, now)
        told, self._of_groups = self._of_groups, []
        # A gang that was placed whole needs no report that it was let into its queue.
        whole = {key for key, decision in turns.placed.items() if decision.whole}
        for each in told:
            if each.uid and each.group in whole and each.group in world.groups:
                world.groups[GroupKey(each.group)].unreported = True
        return Round(
            decisions=list(turns.placed.values()),
            order=turns.order,
            of_groups=[each for each in told if each.uid and each.group not in whole],
        )

    def _look_at(self, record: GroupRecord, now: float) -> None:
        """Put a group in line, if it can be decided; what keeps it or some of its pods waiting is to be told."""
        world, fact = self._world, record.fact
        if fact is not None:
            self._commit(record, fact)
            if record.applies:
                closed = enqueue_obstacle(world, fact)
                if closed:
                    self._reject(record, closed, None, now)
                else:
                    needs = fact.min_resources
                    reserved = self._without_gated(record, needs) if needs else needs
                    world.admission.put(Applicant(_applying(world, record, fact), needs, reserved))
                return
        if not record.members:
            return
        found = readiness(world, record, self.retries, now)
        for pod, obstacle in found.obstacles:
            self._teller.put(telling.held_up(pod, obstacle, now, self._instance))
        if found.job is None:
            return
        if record.unreported:
            # It was placed, but not claimed.
            record.unreported = False
            self._of_groups.append(telling.admitted(record, now, self._instance))
        for kind in world.dispatcher.put(found.job):
            if kind.why and kind.told:
                # Others that ask the same wait already.
                self._tell(_alike(kind.jobs[record.key].group, kind.told), now)

    def _commit(self, record: GroupRecord, fact: PodGroupFact) -> None:
        """Reserve in its queue what a group has of its ``minResources``, and what it lacks of them while it starts.

        Source: Volcano pkg/scheduler/plugins/{proportion,capacity} (OnSessionOpen: inqueue, elastic).
        """
        wanted, has = fact.min_resources or {}, self._world.accounts.allocated(record.key)
        reserved = {name: min(amount, has.get(name, 0)) for name, amount in wanted.items()}
        if wanted and self._starts(record, fact):
            lacks = {name: amount - reserved[name] for name, amount in wanted.items()}
            for name, amount in self._without_gated(record, lacks).items():
                reserved[name] += amount
        self._world.accounts.commit(record.key, fact.queue, reserved)

    def _starts(self, record: GroupRecord, fact: PodGroupFact) -> bool:
        """Return whether what a group lacks is kept for it: it was let in, or runs with its minimum."""
        if record.admitted or fact.phase == "Inqueue":
            return True
        members = [self._world.pods[uid] for uid in record.members]
        on_nodes = sum(member.placed and not member.fact.ended for member in members)
        return fact.phase == "Running" and on_nodes >= fact.min_member

    def _without_gated(self, record: GroupRecord, amounts: Resources) -> Resources:
        """Return amounts without what pods of the group request that have scheduling gates."""
        facts = [self._world.pods[uid].fact for uid in record.members]
        gated = self._world.accounts.asked([fact for fact in facts if fact.gates and not fact.node])
        return {name: max(0, amount - gated[name]) for name, amount in amounts.items()}

    def _admit(self, now: float) -> None:
        """Let groups into their queues."""
        found = self._world.admission.decide(now)
        for applicant in found.admitted:
            record = self._world.groups[applicant.job.key]
            record.admitted, record.told = True, ""
            self._of_groups.append(telling.admitted(record, now, self._instance))
            self._look_at(record, now)
        for applicant, shortage in found.rejected:
            record = self._world.groups[applicant.job.key]
            self._reject(record, f"pod group {record.key} is not let into its queue: {shortage}", shortage, now)

    def _reject(self, record: GroupRecord, why: str, shortage: Shortage | None, now: float) -> None:
        """Tell why a group is not let into its queue; its pods wait for the same."""
        if record.told != why:
            record.told = why
            self._of_groups.append(telling.rejected(record, why, shortage, now, self._instance))
        for uid in sorted(record.members):
            member = self._world.pods[uid]
            if member.waits and member.told != why:
                self._teller.put(telling.pending(member.fact, why, now, self._instance, why=shortage))

    def _tell(self, decision: Decision, now: float) -> None:
        for pod, why in decision.waiting:
            self._teller.put(telling.waiting(pod, why, decision, now, self._instance))

    def _tell_kind(self, kind: Kind, decision: Decision, now: float) -> None:
        """Tell why the jobs of a kind wait: the first one as it was decided, the others like it."""
        self._tell(decision, now)
        if len(kind.jobs) == 1:
            return
        reasons = tuple(why for _, why in decision.waiting)
        (first, why), *_ = decision.waiting
        message = telling.waiting(first, why, decision, now, self._instance).message
        same_words = decision.group.minimum <= 1 and not (isinstance(why, Unplaceable) and why.problem is not None)
        for job in kind.jobs.values():
            if job.key == decision.group.key:
                continue
            if not same_words or job.group.minimum > 1:
                # The words name the pod, or its group.
                self._tell(_alike(job.group, reasons), now)
                continue
            for pod in job.group.pods:
                if self._world.pods[pod.uid].told != message:
                    explain = partial(telling.waiting, pod, why, decision, now, self._instance)
                    self._teller.put_later(pod.uid, message, explain)


def _alike(group: Group, reasons: Sequence[Reason]) -> Decision:
    """Return what became of a group that was answered like another one, of whose pods these are the reasons."""
    fitted = sum(reason is None for reason in reasons)
    last = next((reason for reason in reversed(reasons) if reason is not None), None)
    waiting = tuple((pod, None if at < fitted else last) for at, pod in enumerate(group.pods))
    return Decision(group=group, placed=(), waiting=waiting, fitted=fitted)


def _applying(world: World, record: GroupRecord, fact: PodGroupFact) -> Job:
    """Return a group as it would stand in line; it may have no pods yet."""
    return Job(
        queue=fact.queue,
        group=Group(key=GroupKey(record.key), pods=(), minimum=fact.min_member),
        priority=world.priority_of(fact),
        created=fact.created,
        waiting_time=fact.waiting_time,
    )
