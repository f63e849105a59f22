"""Applying facts to the state of the cluster: objects that appear, change and are deleted."""

from typing import NamedTuple

from msgspec.structs import replace

from deviceshare.conf import EffectiveConfiguration
from deviceshare.families import placed_on
from deviceshare.model import (
    AnyFact,
    ConfigFact,
    DeviceFact,
    DeviceSliceFact,
    Explanation,
    Gone,
    NamespaceFact,
    NodeFact,
    Now,
    PodDisruptionBudgetFact,
    PodFact,
    PodGroupFact,
    PriorityClassFact,
    QueueFact,
    StorageFact,
)
from deviceshare.scheduler import explaining
from deviceshare.scheduler.arrivals import count_arrival, count_if_configured, count_if_selected
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.confirming import confirm
from deviceshare.scheduler.deciding import Deciding
from deviceshare.scheduler.records import GroupRecord, PodRecord


class Ended(NamedTuple):
    """A pod or PodGroup that is gone: its group as it was, and what is said of it; ``pod``: None for a PodGroup."""

    group: GroupRecord
    explanation: Explanation
    pod: PodRecord | None = None


class Applied(NamedTuple):
    """What a fact changed, for those who keep more of an object than the state does."""

    before: AnyFact | None = None
    """The last fact of the object, None if it was not known."""
    ended: Ended | None = None
    """The object if it is gone; the pod of before if another one has its uid now."""
    moved: GroupRecord | None = None
    """The group that is in another queue now than before, or that has got a pod of another group."""
    excludes: bool = False
    """Whether the pod is the first one with some term of anti-affinity."""


class Facts:
    """The last fact of each object, by a key of the caller's, and what its changes mean for the state."""

    def __init__(self, cluster: ClusterState, deciding: Deciding, name: str) -> None:
        self._cluster = cluster
        self._deciding = deciding
        self._name = name
        self._facts: dict[str, AnyFact] = {}
        self._effective = EffectiveConfiguration()
        self._paused: dict[str, str] = {}
        """Why nodes take no pods that would take some by their facts."""

    def apply(self, key: str, fact: AnyFact, now: Now) -> Applied:
        """Apply a fact; ``key`` is the same for all facts of one object."""
        if isinstance(fact, Gone):
            return self._remove(self._facts.pop(key, None), now)
        before = self._facts.get(key)
        self._facts[key] = fact.without_devices() if isinstance(fact, DeviceSliceFact) else fact
        match fact:
            case PodFact():
                ended = None
                if isinstance(before, PodFact) and (fact.name, fact.namespace) != (before.name, before.namespace):
                    ended = self._remove_pod(before, now)
                return self._set_pod(fact, before, ended, now)
            case NodeFact():
                self._set_node(fact)
            case PodGroupFact():
                group = self._cluster.group(fact.key)
                queue = self._cluster.queue_of_group(group)
                self._cluster.set_group(fact)
                count_if_selected(self._cluster, fact.policies)
                return Applied(before, moved=self._moved(group, queue))
            case PriorityClassFact():
                self._cluster.set_priority_class(fact.name, fact)
            case NamespaceFact():
                self._cluster.set_namespace(fact.name, fact)
            case PodDisruptionBudgetFact():
                self._cluster.set_budget(fact.key, fact)
            case QueueFact():
                self._cluster.set_queue(fact.name, fact)
                count_if_selected(self._cluster, fact.policies)
            case ConfigFact():
                if self._effective.take(fact):
                    self._configure()
            case _ if isinstance(fact, StorageFact | DeviceFact):
                self._set_watched(before, fact)
        return Applied(before)

    def _set_watched(self, before: AnyFact | None, fact: StorageFact | DeviceFact) -> None:
        """Apply an object of storage or of devices, unless nothing but its revision has changed."""
        if isinstance(before, type(fact)):
            # Of a slice it is seen later: its devices are not remembered here.
            if replace(before, revision=fact.revision) == fact and not isinstance(fact, DeviceSliceFact):
                return
        else:
            before = None
        if isinstance(fact, StorageFact):
            self._cluster.set_storage(before if isinstance(before, StorageFact) else None, fact)
        else:
            self._cluster.set_devices(before if isinstance(before, DeviceFact) else None, fact)

    def _moved(self, group: GroupRecord, before: str) -> GroupRecord | None:
        """Return a group that was in a queue if it is in another one now."""
        return group if before not in ("", self._cluster.queue_of_group(group)) else None

    def pause(self, node: str, reason: str) -> None:
        """Set why a node takes no pods whatever its fact says, '' for no reason."""
        if reason:
            self._paused[node] = reason
        else:
            self._paused.pop(node, None)
        fact = self._cluster.allocator.node(node)
        if fact is not None:
            self._set_node(fact)

    def set_invalid(self, uid: str, reason: str) -> None:
        """Set why a pod cannot be decided: its last fact is not valid; '' for no reason."""
        record = self._cluster.pods.get(uid)
        if record is not None:
            record.invalid = reason
            self._cluster.reconsider(record.fact.group)

    def _set_node(self, fact: NodeFact) -> None:
        paused = self._paused.get(fact.name, "")
        self._cluster.set_node(replace(fact, paused=paused) if fact.paused != paused else fact)

    def _set_pod(self, fact: PodFact, known: AnyFact | None, ended: Ended | None, now: Now) -> Applied:
        record = self._cluster.pods.get(fact.uid)
        if record is not None and confirm(self._cluster, record, fact):
            self._deciding.drop(fact.uid)
            return Applied(known, ended)
        excludes = self._cluster.classifier.impose(None if record is None else record.fact, fact)
        fact, pod_class = self._cluster.classify(fact)
        before = fact if record is None else record.fact
        if record is None:
            claims = self._cluster.unknown_claims.pop(fact.uid, ())
            record = self._cluster.pods[fact.uid] = PodRecord(fact, pod_class, claims, seen_at=now.wall)
            count_arrival(self._cluster, fact)
        else:
            count_if_selected(self._cluster, fact.ask.policies)
        record.fact, record.pod_class = fact, pod_class
        self._cluster.claim_users.put(fact)
        self._cluster.device_users.put(fact)
        if before.group != fact.group:
            left = self._cluster.group(before.group)
            left.drop_member(fact.uid)
            self._cluster.drop_if_empty(left)
        group = self._cluster.group(fact.group)
        group.add_member(fact.uid)
        moved = before.group != fact.group or (before.queue != fact.queue and group.fact is None)
        self._cluster.account(record)
        self._cluster.changed(record)
        if fact.node or before.node or record.claims:
            for node in sorted({before.node, fact.node, *(node for _, node in record.claims)} - {""}):
                self._cluster.charge(node, fact.uid)
        if fact.node or fact.ended:
            self._deciding.drop(fact.uid)
        return Applied(known, ended, group if moved else None, excludes)

    def _remove(self, fact: AnyFact | None, now: Now) -> Applied:
        ended = moved = None
        match fact:
            case PodFact():
                ended = self._remove_pod(fact, now)
            case NodeFact():
                self._cluster.remove_node(fact.name)
            case PodGroupFact():
                group = self._cluster.group(fact.key)
                before = GroupRecord(fact.key, fact)
                self._cluster.remove_group(fact.key)
                moved = self._moved(group, fact.queue)
                if fact.uid:
                    ended = Ended(before, explaining.group_gone(fact, now.wall, self._name))
            case PriorityClassFact():
                self._cluster.set_priority_class(fact.name, None)
            case NamespaceFact():
                self._cluster.set_namespace(fact.name, None)
            case PodDisruptionBudgetFact():
                self._cluster.set_budget(fact.key, None)
            case _ if isinstance(fact, StorageFact):
                self._cluster.set_storage(fact, None)
            case _ if isinstance(fact, DeviceFact):
                self._cluster.set_devices(fact, None)
            case QueueFact():
                self._cluster.set_queue(fact.name, None)
            case ConfigFact() if self._effective.drop(fact.name):
                self._configure()
            case _:
                pass
        return Applied(fact, ended, moved)

    def _remove_pod(self, fact: PodFact, now: Now) -> Ended:
        group = self._cluster.group(fact.group)
        # As it was: without its last pod it has no queue.
        queue = self._cluster.queue_of_group(group)
        before = GroupRecord(group.key, group.fact or PodGroupFact(key=group.key, queue=queue))
        record = self._cluster.pods.pop(fact.uid)
        if record.claims:
            self._cluster.unknown_claims[fact.uid] = record.claims
        self._cluster.claim_users.drop(fact.uid)
        self._cluster.device_users.drop(fact.uid)
        self._cluster.classifier.impose(record.fact, None)
        group.drop_member(fact.uid)
        self._cluster.reconsider(fact.group)
        self._cluster.drop_if_empty(group)
        if fact.node:
            self._cluster.charge(fact.node, fact.uid)
        self._cluster.mark_moved((fact.uid,))
        # Not before: the queue of a deleted pod is free at once, its devices when the claim is removed.
        self._cluster.accounts.drop(fact.uid)
        self._deciding.drop(fact.uid)
        placed = placed_on(record.claims[0][1]) if record.claims else ""
        return Ended(before, explaining.gone(fact, placed or record.reported, now.wall, self._name), record)

    def _configure(self) -> None:
        """Decide by the configuration that is in effect now."""
        self._cluster.configure(self._effective.conf)
        count_if_configured(self._cluster)
