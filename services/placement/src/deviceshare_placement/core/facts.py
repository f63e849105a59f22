"""Applying the facts of CLUSTER to the state of the cluster: objects that appear, change and are deleted."""

from collections import deque

from deviceshare.conf import EffectiveConfiguration
from deviceshare.families import placed_on
from deviceshare.model import (
    AnyFact,
    ConfigFact,
    Gone,
    NamespaceFact,
    NodeFact,
    PodFact,
    PodGroupFact,
    PriorityClassFact,
    QueueFact,
    StorageClassFact,
    VolumeClaimFact,
    VolumeFact,
    VolumeLimitsFact,
)
from deviceshare.scheduler import explaining
from deviceshare.scheduler.arrivals import count_arrival, count_if_configured, count_if_selected
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.deciding import Deciding
from deviceshare.scheduler.records import GroupRecord, PodRecord
from deviceshare_bus.core import Command, Now, RecordStep, RecordTrace, Unreadable
from deviceshare_bus.subjects import address, ledger, outcome
from deviceshare_bus.subjects import fact as subject_of
from msgspec.structs import replace

from deviceshare_placement.core import publishing
from deviceshare_placement.core.ledgers import Ledgers
from deviceshare_placement.core.own_work import OwnWork

_POD_SUBJECT = subject_of("pod", "")
EXCLUSION_DELAY = 0.2
"""Seconds for which the first pod with a term of anti-affinity waits if there are other replicas: more than they need
to read it, and than this one needs to read their claims."""
MAX_ENDED = 10_000
"""Deleted objects of which it is not known yet which replica reports them; beyond this number the oldest are not
reported."""


class Facts:
    """The last fact of each object, and what its changes mean for the rest of the core."""

    def __init__(
        self, cluster: ClusterState, ledgers: Ledgers, deciding: Deciding, work: OwnWork, instance: str
    ) -> None:
        self._work = work
        self._cluster = cluster
        self._ledgers = ledgers
        self._deciding = deciding
        self._instance = instance
        self._facts: dict[str, AnyFact] = {}
        self._effective = EffectiveConfiguration()
        self._sequence = 0
        """That of the fact that is being applied."""
        self._ended: deque[tuple[GroupRecord, int, list[Command]]] = deque(maxlen=MAX_ENDED)
        """What is to be reported of deleted objects as soon as it is known which replica reports it."""
        self._invalid: dict[str, str] = {}
        """Subjects with an invalid message, and its stream: their nodes take no pods, their pods are not decided."""

    def apply(self, subject: str, fact: AnyFact, sequence: int, now: Now) -> list[Command]:
        """Apply a fact; return the commands that follow for an object that is gone."""
        self._sequence = sequence
        self.valid(subject)
        out: list[Command] = []
        before = self._facts.get(subject)
        if isinstance(fact, PodFact) and isinstance(before, PodFact) and fact.ref != before.ref:
            out = self._remove(subject, before, now)
        if isinstance(fact, NodeFact) and isinstance(before, NodeFact) and "" != fact.uid != before.uid != "":
            self._ledgers.node_gone(fact.name)
        match fact:
            case Gone():
                return self._remove(subject, self._facts.pop(subject, None), now)
            case PodFact():
                self._set_pod(fact, now)
            case NodeFact():
                self._set_node(fact)
            case PodGroupFact():
                group = self._cluster.group(fact.key)
                queue = self._work.queue(group)
                self._cluster.set_group(fact)
                self._note_move(group, queue)
                count_if_selected(self._cluster, fact.policies)
            case PriorityClassFact():
                self._cluster.set_priority_class(fact)
            case NamespaceFact():
                self._cluster.set_namespace(fact.name, fact)
            case QueueFact():
                self._work.queue_changed(self._cluster.queues.get(fact.name), fact, sequence)
                self._cluster.set_queue(fact)
                count_if_selected(self._cluster, fact.policies)
            case VolumeClaimFact() | VolumeFact() | StorageClassFact() | VolumeLimitsFact():
                known = before if isinstance(before, type(fact)) else None
                if known is None or replace(known, revision=fact.revision) != fact:
                    self._cluster.set_storage(known, fact)
            case ConfigFact() if self._effective.take(fact):
                self._configure()
        self._facts[subject] = fact
        return out

    def _note_move(self, group: GroupRecord, before: str) -> None:
        """Note that a group that was in a queue is in another one now, with which it may have another owner."""
        if before not in ("", self._work.queue(group)):
            self._work.group_moved(group, self._sequence)

    def take_ended(self) -> list[Command]:
        """Report deleted objects of which it is known by now whether this replica reports them."""
        commands: list[Command] = []
        for _ in range(len(self._ended)):
            commands += self._report_ended(*self._ended.popleft())
        return commands

    def _report_ended(self, group: GroupRecord, sequence: int, commands: list[Command]) -> list[Command]:
        """Return the commands for a deleted object if this replica reports it, or keep them until that is known."""
        answers = self._work.answers_for(group, sequence)
        if answers is None:
            self._ended.append((group, sequence, commands))
        return commands if answers else []

    def readable(self, node: str) -> bool:
        """Return whether all messages about a node are valid."""
        return not self._paused(node)

    def invalid(self, event: Unreadable) -> None:
        """Place nothing on the node, or do not decide the pod, that an invalid message is about.

        The binder and inventory replace invalid outcomes and facts, unless these have a later version.
        """
        where = address(event.subject)
        if where is None or (where.kind == "outcome" and not event.newer):
            return
        match where.kind:
            case "node" | "ledger" | "outcome":
                self._invalid[event.subject] = event.stream
                self._set_again(where.key)
            case "pod":
                self._invalid[event.subject] = event.stream
                self._pod_invalid(where.key, event.reason)

    def valid(self, subject: str) -> None:
        """Use a node or decide a pod again whose message was invalid: it has a valid one now, or none."""
        if not self._invalid or self._invalid.pop(subject, None) is None:
            return
        where = address(subject)
        if where is not None and where.kind == "pod":
            self._pod_invalid(where.key, "")
        elif where is not None:
            self._set_again(where.key)
            self._ledgers.readable_again(where.key)

    def _paused(self, node: str) -> str:
        """Return why a node takes no pods, '' if all messages about it are valid."""
        if self._invalid:
            for subject in (subject_of("node", node), ledger(node), outcome(node)):
                if (stream := self._invalid.get(subject)) is not None:
                    return f"the message about them in {stream} is not valid"
        return ""

    def _set_again(self, node: str) -> None:
        fact = self._facts.get(subject_of("node", node))
        if isinstance(fact, NodeFact):
            self._set_node(fact)

    def _pod_invalid(self, uid: str, reason: str) -> None:
        """Set why a pod cannot be decided, '' for no reason; the claims of an unknown one stay meanwhile."""
        if reason:
            self._ledgers.invalid.add(uid)
        else:
            self._ledgers.invalid.discard(uid)
        record = self._cluster.pods.get(uid)
        if record is not None:
            record.invalid = reason
            self._cluster.reconsider(record.fact.group)

    def _set_node(self, fact: NodeFact) -> None:
        paused = self._paused(fact.name)
        self._cluster.set_node(replace(fact, paused=paused) if fact.paused != paused else fact)
        if not fact.takes_pods:
            self._ledgers.node_lost(fact.name)

    def _set_pod(self, fact: PodFact, now: Now) -> None:
        record = self._cluster.pods.get(fact.uid)
        if self._cluster.impose(None if record is None else record.fact, fact) and self._work.others:
            # Other replicas may not know yet that they must not place the pods that it excludes.
            self._deciding.retries[fact.uid] = now.monotonic + EXCLUSION_DELAY
        fact, pod_class = self._cluster.classify(fact)
        before = fact if record is None else record.fact
        if record is None:
            claims = self._cluster.claims[fact.uid]
            record = self._cluster.pods[fact.uid] = PodRecord(fact, pod_class, claims, seen_at=now.wall)
            count_arrival(self._cluster, fact)
        else:
            count_if_selected(self._cluster, fact.ask.policies)
        record.fact, record.pod_class = fact, pod_class
        self._cluster.claim_users.put(fact)
        if before.group != fact.group:
            left = self._cluster.group(before.group)
            left.members.discard(fact.uid)
            self._cluster.drop_if_empty(left)
        group = self._cluster.group(fact.group)
        group.members.add(fact.uid)
        if before.group != fact.group or (before.queue != fact.queue and group.fact is None):
            self._work.group_moved(group, self._sequence)
        self._cluster.account(record)
        self._cluster.changed(record)
        if fact.node or before.node or record.claims:
            for node in sorted({before.node, fact.node, *record.claims.values()} - {""}):
                self._cluster.charge(node, fact.uid)
        if fact.node or fact.ended:
            self._deciding.drop(fact.uid)
        if fact.ended:
            self._ledgers.remove(fact.uid)
        else:
            self._ledgers.keep_one(record)
            if not fact.node:
                self._ledgers.doubt(record, now.monotonic)

    def _remove(self, subject: str, fact: AnyFact | None, now: Now) -> list[Command]:
        match fact:
            case PodFact():
                return self._remove_pod(fact, now)
            case NodeFact():
                self._cluster.remove_node(fact.name)
                self._ledgers.node_gone(fact.name)
                self._ledgers.idle.add(fact.name)
            case PodGroupFact():
                group = self._cluster.group(fact.key)
                before = GroupRecord(fact.key, fact)
                self._cluster.remove_group(fact.key)
                self._note_move(group, fact.queue)
                if fact.uid:
                    gone = explaining.group_gone(fact, now.wall, self._instance)
                    return self._report_ended(
                        before, self._sequence, [publishing.publish(gone, ttl=publishing.EXPLANATION_TTL)]
                    )
            case PriorityClassFact():
                self._cluster.remove_priority_class(fact.name)
            case NamespaceFact():
                self._cluster.set_namespace(fact.name, None)
            case VolumeClaimFact() | VolumeFact() | StorageClassFact() | VolumeLimitsFact():
                self._cluster.set_storage(fact, None)
            case QueueFact():
                self._work.queue_changed(fact, None, self._sequence)
                self._cluster.remove_queue(fact.name)
            case ConfigFact() if self._effective.drop(fact.name):
                self._configure()
            case None if subject.startswith(_POD_SUBJECT):
                # The pod was deleted while this service did not run.
                self._ledgers.forget(subject.removeprefix(_POD_SUBJECT), now.monotonic)
            case _:
                pass
        return []

    def _remove_pod(self, fact: PodFact, now: Now) -> list[Command]:
        group = self._cluster.group(fact.group)
        # As it was: without its last pod it has no queue.
        before = GroupRecord(group.key, group.fact or PodGroupFact(key=group.key, queue=self._work.queue(group)))
        record = self._cluster.pods.pop(fact.uid)
        self._cluster.claim_users.drop(fact.uid)
        self._cluster.impose(record.fact, None)
        waited = RecordTrace(
            fact.uid, fact.namespace, fact.name, (record.seen_at, now.wall), root=True,
            queue=self._cluster.queue_of(fact), result="deleted", reason=record.reported,
        )  # fmt: skip
        unplaced = not (fact.node or fact.ended or record.claims)
        group.members.discard(fact.uid)
        self._cluster.reconsider(fact.group)
        self._cluster.drop_if_empty(group)
        self._ledgers.forget(fact.uid, now.monotonic)
        if fact.node:
            self._cluster.charge(fact.node, fact.uid)
        # Not before: the queue of a deleted pod is free at once, its devices when the claim is removed.
        self._cluster.accounts.drop(fact.uid)
        if not self._cluster.claims[fact.uid]:
            del self._cluster.claims[fact.uid]
        self._deciding.drop(fact.uid)
        placed = placed_on(next(iter(record.claims.values()))) if record.claims else ""
        gone = explaining.gone(fact, placed or record.reported, now.wall, self._instance)
        step = RecordStep(fact.uid, fact.ref, "gone", at=now.wall)
        # The binder exports the trace of a pod that was claimed.
        traces = [waited] if unplaced else []
        commands = [publishing.publish(gone, ttl=publishing.EXPLANATION_TTL), step, *traces]
        return self._report_ended(before, self._sequence, commands)

    def _configure(self) -> None:
        """Decide by the configuration that is in effect now."""
        self._cluster.configure(self._effective.conf)
        count_if_configured(self._cluster)
