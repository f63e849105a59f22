"""The cluster and its ledgers as the core knows them, and the devices that each pod holds.

Usage of a node = claims ∪ pods seen bound there, by uid: where a pod has a claim on a node the claim counts, where it
is bound without one, what it was bound with.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from deviceshare.allocation import PodClass
from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.model import (
    Claim,
    DeviceClaimFact,
    DeviceFact,
    Eviction,
    GroupKey,
    NamespaceFact,
    NodeFact,
    PodDisruptionBudgetFact,
    PodFact,
    PodGroupFact,
    PriorityClassFact,
    QueueFact,
    StorageFact,
    VolumeClaimFact,
    VolumeFact,
    with_made,
)
from deviceshare.queueing import ROOM_FOR_DEVICES, ROOM_FOR_VOLUMES, ROOM_NEAR_PODS
from deviceshare.queueing.priority_classes import PriorityClasses
from deviceshare.scheduler.claim_users import ClaimUsers, device_claims, volume_claims
from deviceshare.scheduler.going_pods import GoingPods
from deviceshare.scheduler.pod_classifier import PodClassifier
from deviceshare.scheduler.records import ClaimNodes, GroupRecord, LedgerRecord, PodRecord, tenant_of
from deviceshare.scheduler.waiting_groups import WaitingGroups
from deviceshare.state import Holding, with_resized

STARTED = ("Running", "Unknown", "Completed")
"""Phases of PodGroups whose pods were placed. A gang that is placed in the round that admits it is not signed."""


class ClusterState(WaitingGroups):
    """Pods, groups, queues, ledgers, and the allocator that they are charged to."""

    def __init__(self) -> None:
        super().__init__(default_conf())
        self.queues: dict[str, QueueFact] = {}
        self.namespaces: dict[str, NamespaceFact] = {}
        self.accounts.claims.known = self.allocator.devices
        self.priority_classes = PriorityClasses()
        self.budgets: dict[str, PodDisruptionBudgetFact] = {}
        """The PodDisruptionBudgets by key."""
        self.budgets_version = 0
        """Grows with every change of them."""
        self.ledgers: dict[str, LedgerRecord] = {}
        self.unknown_claims: dict[str, ClaimNodes] = {}
        """The claims of pods that are not known, by uid."""
        self.going = GoingPods()
        self.claim_users = ClaimUsers(volume_claims)
        self.device_users = ClaimUsers(device_claims)
        self.schedulers: set[str] = set()
        """The schedulers whose pods this service places: only their pods count in queues."""
        self._counts_claims = False
        """Whether claims of unknown pods count in their queues; not while the streams are read for the first time."""
        self.classifier = PodClassifier(self.allocator)
        self.crowded: set[str] = set()
        """Nodes that may be overcommitted: pods without a claim were bound there, or the node has changed."""

    def ledger(self, node: str) -> LedgerRecord:
        """Return a node's ledger, an empty one if there is none."""
        if (ledger := self.ledgers.get(node)) is None:
            ledger = self.ledgers[node] = LedgerRecord(node)
        return ledger

    def claims_of(self, uid: str) -> ClaimNodes:
        """Return the claims of a pod, whether or not it is known."""
        pod = self.pods.get(uid)
        return self.unknown_claims.get(uid, ()) if pod is None else pod.claims

    def _set_claims(self, uid: str, claims: ClaimNodes) -> None:
        if (pod := self.pods.get(uid)) is not None:
            pod.claims = claims
        elif claims:
            self.unknown_claims[uid] = claims
        else:
            self.unknown_claims.pop(uid, None)

    def set_ledger(
        self, node: str, claims: Iterable[Claim], evictions: Iterable[Eviction]
    ) -> tuple[list[Claim], list[Claim], list[Claim]]:
        """Make these the claims and evictions on a node.

        Returns the claims that are gone, the new ones, and those that wait for others; their pods are to be charged.
        """
        record = self.ledger(node)
        before, record.claims = record.claims, {claim.id: claim for claim in claims}
        evicted, record.evictions = record.evictions, {each.uid: each for each in evictions}
        gone = [claim for claim in before.values() if claim.id not in record.claims]
        new = [claim for claim in record.claims.values() if claim.id not in before]
        for claim in gone:
            self._set_claims(claim.uid, tuple(each for each in self.claims_of(claim.uid) if each != (claim.id, node)))
        for claim in new:
            self._set_claims(claim.uid, (*self.claims_of(claim.uid), (claim.id, node)))
        changed = [
            claim
            for claim in before.values()
            if (now := record.claims.get(claim.id)) is not None and now.waits_for != claim.waits_for
        ]
        moved = set[str]()
        for claim in (*gone, *new, *changed):
            there = record.claims.get(claim.id)
            if claim.waits_for or (there is not None and there.waits_for):
                moved ^= self.going.change(node, claim.id, there)
        if evicted or record.evictions:
            self.going.set_evictions(node, evicted, record.evictions)
        if moved:
            self.mark_moved(moved)
        for pod in filter(None, map(self.pods.get, moved)):
            self.account(pod)
        return gone, new, changed

    def claim_on(self, node: str, uid: str) -> Claim | None:
        """Return a pod's claim on a node, or None."""
        for claim, where in self.claims_of(uid):
            if where == node:
                return self.ledgers[node].claims[claim]
        return None

    def charge(self, node: str, uid: str) -> None:
        """Update what a pod holds on a node, which may be nothing any more."""
        self.mark_moved((uid,))
        claim = self.claim_on(node, uid)
        pod = self.pods.get(uid)
        before = self.allocator.holding(node, uid)
        if claim is not None:
            if pod is None:
                self._account_claim(claim)
            elif not pod.fact.node or pod.fact.scheduler not in self.schedulers:
                self.account(pod)
            tenant = pod.fact.tenant if pod is not None else tenant_of(claim)
            if claim.bindings and pod is not None and not pod.fact.node:
                tenant = replace(tenant, bindings=claim.bindings)
            if claim.devices:
                tenant = replace(tenant, devices=claim.devices)
            held = pod.fact.held if pod is not None and pod.fact.node == node else ()
            grants = with_made(claim.grants, held)
            amounts = claim.resources + claim.counted
            if pod is not None and pod.fact.node == node:
                amounts = with_resized(amounts, self.allocator.amounts(pod.fact.ask))
            waits_for = claim.waits_for if pod is None or not pod.fact.node else ()
            self.allocator.hold(node, uid, grants, amounts, tenant, claim.ports, waits_for)
        elif pod is not None and pod.fact.node == node and not pod.fact.ended:
            amounts, ports = self.allocator.amounts(pod.fact.ask), pod.fact.ask.host_ports
            self.allocator.hold(node, uid, pod.fact.held, amounts, pod.fact.tenant, ports)
            self.crowded.add(node)
        else:
            self.allocator.release(node, uid)
        after = self.allocator.holding(node, uid)
        if after is None and pod is None and uid not in self.unknown_claims:
            self.accounts.drop(uid)
        elif after is not None:
            self._count(uid)
        elif pod is None or not (pod.claims or pod.fact.node):
            self.accounts.release(uid)
        self._of_holding_changed(before, after, bound=pod is not None and bool(pod.fact.node))

    def _count(self, uid: str) -> None:
        """Count a placed pod in its queue. One that goes does not: the nominated pod in its place counts."""
        if uid in self.going:
            self.accounts.release(uid)
        else:
            self.accounts.hold(uid)

    def _of_holding_changed(self, before: Holding | None, after: Holding | None, *, bound: bool) -> None:
        """Retry the groups that may have room since a pod, ``bound`` or not, holds something else on a node."""
        if before is not None and after is not None and before.tenant.bindings != after.tenant.bindings:
            if not bound:  # else its volumes are bound, which frees none of them
                self.made_room(ROOM_FOR_VOLUMES)
            before = replace(before, tenant=replace(before.tenant, bindings=after.tenant.bindings))
        if before is not None and after != before:
            # The pod may hold less, or other pods may share a card with it now.
            self.made_room()
        elif after is not None and self.allocator.conf.predicates.proportions:
            # A card in use needs no CPU and memory kept for it.
            self.made_room()
        elif after is not None and before is None:
            self.dispatcher.made_room(ROOM_NEAR_PODS)

    def count_claims(self) -> None:
        """Count claims of pods that are not known: from now on their facts are on their way, or never come."""
        self._counts_claims = True
        for ledger in self.ledgers.values():
            for claim in ledger.claims.values():
                if claim.uid not in self.pods:
                    self._account_claim(claim)
                    self._count(claim.uid)

    def _account_claim(self, claim: Claim) -> None:
        """Count the claim of a pod that is not known in the queue in which it was placed."""
        if self._counts_claims and claim.queue:
            self.accounts.put_claimed(claim)

    def account(self, pod: PodRecord) -> None:
        """Add a pod to the account of its queue, or to the pods of other schedulers."""
        fact = pod.fact
        self.mark_moved((fact.uid,))
        if (not fact.node or pod.claims) and fact.scheduler not in self.schedulers:
            self.schedulers.add(fact.scheduler)
            for other in self.pods.values():
                if other.fact.scheduler == fact.scheduler:
                    self.account(other)
        if fact.ended or not (fact.podgroup or pod.claims or fact.scheduler in self.schedulers):
            if fact.node and not fact.ended:
                self.accounts.put_other(fact)
            else:
                self.accounts.drop(fact.uid)
            return
        claims = [self.ledgers[node].claims[claim] for claim, node in pod.claims]
        given = (claims[0].grants, claims[0].devices) if claims else (None, ())
        self.accounts.put(fact, self.queue_of(fact), fact.group, *given)
        if fact.node or pod.claims:
            self._count(fact.uid)

    def set_node(self, fact: NodeFact) -> None:
        """Add or update a node."""
        self.allocator.set_node(fact)
        self.mark_moved(uid for uid, _ in self.allocator.holdings_on(fact.name))
        self.crowded.add(fact.name)
        self._of_nodes_changed(self.accounts.set_node(fact))

    def set_group(self, fact: PodGroupFact) -> None:
        """Add or update a PodGroup."""
        group = self.group(fact.key)
        if group.fact is None or (group.fact.uid, group.fact.queue) != (fact.uid, fact.queue):
            # Another queue has not admitted it.
            group.admitted, group.reported = False, ""
        if fact.admitted or fact.phase in STARTED:
            # The phase shows the admission; if it changes back, the group must be admitted again.
            group.admitted = False
        before, group.fact = group.fact, fact
        self._of_group_changed(group, other_queue=before is None or before.queue != fact.queue)

    def remove_group(self, key: GroupKey) -> None:
        """Remove a PodGroup; its pods stay."""
        group = self.group(key)
        group.fact = None
        self.accounts.release_commitment(key)
        self._of_group_changed(group, other_queue=True)
        self.drop_if_empty(group)

    def _of_group_changed(self, group: GroupRecord, *, other_queue: bool) -> None:
        other_policies = self.classifier.policies.set_group(group.key, group.fact, other_queue=other_queue)
        for uid in sorted(group.members):
            # The PodGroup may name another queue than before, and with it its pods.
            pod = self.pods[uid]
            if other_policies:
                pod.fact, pod.pod_class = self.classify(pod.fact)
            self.account(pod)
        self.reconsider(group.key)

    def set_queue(self, name: str, fact: QueueFact | None) -> None:
        """Add or update a queue, None if it is gone."""
        self.classifier.outdated |= self.classifier.policies.set_queue(name, fact)
        if fact is None:
            self.queues.pop(name, None)
            self.accounts.remove_queue(name)
        else:
            self.queues[name] = fact
            self.accounts.set_queue(fact)
        self.reconsider_all()

    def set_priority_class(self, name: str, fact: PriorityClassFact | None) -> None:
        """Add or update a PriorityClass, None if it is gone."""
        self.priority_classes.put(name, fact)
        self.mark_moved(self.pods)
        self.reconsider_all()

    def set_budget(self, key: str, fact: PodDisruptionBudgetFact | None) -> None:
        """Add or update a PodDisruptionBudget, None if it is gone."""
        if fact is None:
            self.budgets.pop(key, None)
        else:
            self.budgets[key] = fact
        self.budgets_version += 1
        self.changes += 1

    def set_namespace(self, name: str, fact: NamespaceFact | None) -> None:
        """Add or update a namespace, None if it is gone.

        Its labels decide which pods inter-pod constraints select, and which queues its pods may use.
        """
        before = self.namespaces.pop(name, None)
        if fact is not None:
            self.namespaces[name] = fact
        if (before and before.labels) == (fact and fact.labels):
            return
        if any(queue.namespace_labels is not None for queue in self.queues.values()):
            self.relabelled.add(name)
        self.allocator.set_namespace(name, None if fact is None else fact.labels)
        if self.allocator.imposed_terms:
            self.classifier.outdated = True
            self.made_room()

    def set_storage(self, before: StorageFact | None, after: StorageFact | None) -> None:
        """Apply a claim, a volume, a class, or the limits of a node as it was and as it is now; None: there is none.

        What concerns one claim makes only the pods be tried again that use it.
        """
        volumes, claims = self.allocator.volumes, set[str]()
        freed = False
        if after is not None:
            freed = volumes.put(after)
        elif before is not None:
            freed = volumes.drop(before)
        for each in (before, after):
            if isinstance(each, VolumeClaimFact):
                claims.add(each.key)
            elif isinstance(each, VolumeFact):
                claims |= {each.claim, *volumes.catalog.claims_naming(each.name)}
        for uid in self.claim_users.of(claims):
            self.reconsider_pod(uid)
        if freed:
            self.made_room(ROOM_FOR_VOLUMES)

    def set_devices(self, before: DeviceFact | None, after: DeviceFact | None) -> None:
        """Apply a DeviceClass, a ResourceSlice or a ResourceClaim as it was and as it is now; None: there is none.

        What concerns one claim makes only the pods be tried again that use it.
        """
        devices, freed = self.allocator.devices, False
        if after is not None:
            freed = devices.put(after)
        elif before is not None:
            freed = devices.drop(before)
        claims = {each.key for each in (before, after) if isinstance(each, DeviceClaimFact)}
        for key in claims:
            self.accounts.set_claim(key)
        for uid in self.device_users.of(claims):
            pod = self.pods[uid]
            pod.fact, pod.pod_class = self.classify(pod.fact)
            self.changed(pod)
            self.reconsider_pod(uid)
        if freed:
            self.made_room(ROOM_FOR_DEVICES)

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self.allocator.remove_node(name)
        self.mark_moved(uid for uid, _ in self.allocator.holdings_on(name))
        self._of_nodes_changed(self.accounts.remove_node(name))

    def _of_nodes_changed(self, recounted: Iterable[GroupKey]) -> None:
        """Retry the groups that lack room, and check those again that count other amounts in their queues."""
        for key in recounted:
            self.reconsider(key)
        self.made_room()

    def configure(self, conf: SchedulerConf) -> None:
        """Decide by another configuration from now on; what is held stays held."""
        known = self.allocator.conf
        other_rules = (conf.exclusive_rules, conf.dra) != (known.exclusive_rules, known.dra)
        self.allocator.set_configuration(conf)
        for pod in self.pods.values() if other_rules else ():
            pod.fact, pod.pod_class = self.classify(pod.fact)
        self.accounts.configure(conf)
        if self._counts_claims:
            self.count_claims()
        self.dispatcher.configure(conf)
        self.enqueue.configure(conf)
        for uid, pod in self.pods.items():
            # The configuration decides which of the requested resources are devices.
            self.account(pod)
            if pod.fact.node:
                self.charge(pod.fact.node, uid)
        self.reconsider_all()

    def classify(self, fact: PodFact) -> tuple[PodFact, PodClass]:
        """Return the class of a pod, and its fact with the request of that class: see :class:`.PodClassifier`."""
        return self.classifier.classify(fact, self.queue_of(fact))

    def classify_again(self) -> None:
        """Classify all waiting pods again if other terms may select them, or they may have other policies."""
        if not self.classifier.outdated:
            return
        self.classifier.outdated = False
        for pod in self.pods.values():
            if not (pod.fact.node or pod.fact.ended):
                before = pod.pod_class
                pod.fact, pod.pod_class = self.classify(pod.fact)
                if pod.pod_class is not before:
                    self.changed(pod)
