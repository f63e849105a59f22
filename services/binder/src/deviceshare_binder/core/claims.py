"""Which claim is bound when, and what its outcome is.

The states of a bind task: :mod:`.bind_task`; what happens to it: :mod:`.bind_transitions`. Nothing begins before the
messages that were on the bus have been read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from deviceshare.families import FamilyError
from deviceshare.model import Claim, DeviceFact, DeviceSliceFact, Eviction
from deviceshare_bus.cores.core import Now, Unreadable
from deviceshare_bus.messages.sharing import share_names
from deviceshare_bus.messages.subjects import PARTITIONS, address, ledger, partition

from deviceshare_binder.core.bind_answers import Answer
from deviceshare_binder.core.bind_queue import BindQueue
from deviceshare_binder.core.bind_steps import BindSteps, Step
from deviceshare_binder.core.bind_task import BindTask, State
from deviceshare_binder.core.bind_transitions import TaskEvent, advance, event_of
from deviceshare_binder.core.commands import ClaimRequest
from deviceshare_binder.core.comparison import Comparison
from deviceshare_binder.core.delivery import out_of_sight
from deviceshare_binder.core.events import OutcomesChanged
from deviceshare_binder.core.evictions import EvictionTasks
from deviceshare_binder.core.facts import Facts
from deviceshare_binder.core.locks import Locks
from deviceshare_binder.core.nominated_nodes import NominatedNodes
from deviceshare_binder.core.outcomes import NodeClaims, Outcomes, eviction_key, is_nominated
from deviceshare_binder.core.plugin_handoff import PluginHandoffs, keys_of
from deviceshare_binder.core.views import NodeView, OtherPodView, PodView, VolumeClaimView, VolumeView
from deviceshare_binder.core.volumes import with_bindings


class ClaimBinder:
    """The bind tasks of all claims.

    Args:
        limit: how many requests to the cluster may be in flight.
        keys: signing keys (:mod:`deviceshare.model.signatures`).
        patience: the seconds that a device plugin has to serve a pod.
        owns: whether this replica binds pods to the nodes of a partition.
        claimed: called with the uids of the pods with claims on a node, before and after a change of these claims.
        check: whether claims are compared with their pods' requests and their nodes.
        dry_run: whether pods are left to another scheduler.
    """

    def __init__(
        self,
        limit: int,
        keys: Sequence[bytes],
        patience: float,
        owns: Callable[[int], bool],
        claimed: Callable[[Set[str], Set[str]], None],
        *,
        check: bool,
        dry_run: bool,
    ) -> None:
        self._claimed = claimed
        self._owns_partition = owns
        self._owned: set[int] = set()
        """The partitions that this replica owned when its share changed last."""
        self.facts = Facts(check=check)
        self.outcomes = Outcomes(self._owns)
        self._tasks = BindQueue(limit)
        self.handoffs = PluginHandoffs(patience)
        self.locks = Locks(self._needs_lock, self._holder_needs)
        self._comparison = Comparison(self.facts.pods) if dry_run else None
        self._steps = BindSteps(
            self.facts, self.outcomes, self._tasks, self.handoffs, self.locks, keys, comparison=self._comparison
        )
        """What one task does; collects the steps for the next tick."""
        self.evictions = EvictionTasks(self.facts, self.outcomes, self._owns)
        self._nominated_nodes = NominatedNodes(self.facts, self._owns)
        self.others: dict[str, OtherPodView] = {}
        """The waiting pods of other schedulers that device plugins may select, by uid."""
        self._device_objects: dict[str, DeviceFact] = {}
        """The facts of devices by subject."""
        self.started = False
        """Whether the messages that were on the bus have been read."""
        self.now = Now(0.0, 0.0)
        """The time of the event that is being handled."""

    @property
    def open_work(self) -> int:
        """The number of claims without an outcome, of evictions to do, and of nodes with outcomes to write."""
        return len(self._tasks) + self.evictions.open_work + self.outcomes.open + (not self.started)

    @property
    def active(self) -> bool:
        """Whether there are claims to bind, or evictions."""
        return len(self._tasks) > 0 or self.evictions.active

    @property
    def completed_others(self) -> bool:
        """Whether nothing is in flight and no outcome unwritten on nodes that this replica does not own."""
        return self.outcomes.completed_others and not any(
            task.in_flight and not self._owns(task.node.name) for task in self._tasks.all()
        )

    @property
    def in_flight(self) -> int:
        """The number of requests to the cluster that are not answered."""
        return self._tasks.in_flight

    def claims(self, ids: Iterable[str]) -> list[Claim]:
        """Return the claims with these ids that have a bind task."""
        return [task.claim for task in map(self._tasks.get, ids) if task is not None]

    # Facts, ledgers, outcomes

    def start(self) -> None:
        """Begin: the messages that were on the bus have been read."""
        self.started = True
        self.facts.devices.start(self.facts.waits, self.now.monotonic)
        self.shards_changed()
        for node in list(self.outcomes.nodes.values()):
            if not (node.ledger or node.evictions) and node.name not in self.facts.nodes.views:
                self.outcomes.forget(node.name)

    def shards_changed(self) -> None:
        """Begin with the nodes that this replica owns now, as after a start; leave those that it does not own."""
        self.locks.leave(self._owns)
        before, self._owned = self._owned, {number for number in range(PARTITIONS) if self._owns_partition(number)}
        gained = self._owned - before
        for node in list(self.outcomes.nodes.values()):
            if partition(node.name) in self._owned ^ before:
                self._reconcile(node)
            if partition(node.name) in gained:
                self.outcomes.take_over(node)
                self._expect(node)
            elif partition(node.name) in before - self._owned:
                self.outcomes.leave(node)
        for pod in self.facts.pods.values():
            if any(partition(node) in gained for node in pod.selecting):
                self._steps.add(*out_of_sight(pod))
        self.handoffs.report_again(lambda node: partition(node) in gained)

    def _owns(self, node: str) -> bool:
        """Return whether this replica binds pods to a node."""
        return self._owns_partition(partition(node))

    def pod(self, uid: str, view: PodView | None) -> None:
        """Apply a pod's state, None if it is gone."""
        self.handoffs.pod(uid, view, self.now.monotonic)
        if self._comparison is not None:
            compared = self._comparison.pod(uid, self.facts.pods.get(uid), view)
            self._steps.add(*(each for each in compared if self._owns(each.node)))
        if view is None:
            self.facts.drop(uid)
            self.evictions.pod(uid)
            return
        before = self.facts.pods.get(uid)
        if view.node in self.outcomes.nodes:
            for claim in self.outcomes.nodes[view.node].ledger.values():
                if claim.uid == uid:
                    share_names(view, claim)
        view = self.facts.put(view)
        changed = before is None or before.selecting != view.selecting or before.ended != view.ended
        if changed and self.started and any(map(self._owns, view.selecting)):
            self._steps.add(*out_of_sight(view))
        for task in self._tasks.of_pod(uid):
            self._advance(task, TaskEvent.POD_CHANGED)
        self.evictions.pod(uid)

    def other_pod(self, uid: str, view: OtherPodView | None) -> None:
        """Apply the state of a waiting pod of another scheduler, None if it does not wait any more.

        The other scheduler may be binding it: its annotations are left to it for the patience.
        """
        before = self.others.pop(uid, None)
        if view is not None and view.selectable:
            self.others[uid] = view
        if uid not in self.facts.pods and (before is not None or uid in self.others):
            self.handoffs.select(uid, view.selectable if view is not None else (), self.now.monotonic)

    def node(self, name: str, view: NodeView | None) -> None:
        """Apply a node's state, None if it is gone."""
        self.facts.nodes.put(name, view)
        self.facts.devices.put_node(name, view)
        if view is None:
            self.outcomes.forget(name)
        if name in self.outcomes.nodes:
            for task in self._tasks.on_node(self.outcomes.nodes[name]):
                self._advance(task, TaskEvent.NODE_CHANGED)

    def volume_claim(self, key: str, view: VolumeClaimView | None) -> None:
        """Apply the state of a PersistentVolumeClaim, None if it is gone."""
        self._used_changed(self.facts.volumes.put_claim(key, view))

    def volume(self, name: str, view: VolumeView | None) -> None:
        """Apply the state of a PersistentVolume, None if it is gone."""
        self._used_changed(self.facts.volumes.put_volume(name, view))

    def device_object(self, subject: str, fact: DeviceFact | None) -> None:
        """Apply a DeviceClass, ResourceSlice or ResourceClaim, None if it is gone."""
        before = self._device_objects.pop(subject, None)
        if fact is not None:
            self._device_objects[subject] = fact.without_devices() if isinstance(fact, DeviceSliceFact) else fact
        self._used_changed(self.facts.devices.put(before, fact))
        if self.started:  # before, facts are first read: what they show is not new
            found = self.facts.devices.new_conflicts(before, fact, self._owns, self.facts.waits, self.now.monotonic)
            self._steps.add(*found)

    def ledger(self, name: str, claims: Sequence[Claim], evictions: Iterable[Eviction] = ()) -> None:
        """Apply all claims on a node, and all evictions.

        A nominated claim counts nothing: other pods still have its devices, and placement says why its pod waits.
        """
        node = self.outcomes.node(name)
        self.outcomes.resume(node, ledger(name))
        before = node.ledger
        for claim in claims:
            if claim.id not in before and (pod := self.facts.pods.get(claim.uid)) is not None:
                share_names(claim, pod)
        node.ledger = {claim.id: claim for claim in claims}
        node.evictions = {eviction_key(each.claim, each.uid): each for each in evictions}
        opened_before, opened = _opened(before), _opened(node.ledger)
        self.facts.shares.set_claims(name, opened_before, opened)
        if self._comparison is not None:
            self._comparison.claims(name, opened.values())
        self.facts.devices.set_claims(opened_before, opened)
        self._claimed({claim.uid for claim in opened_before.values()}, {claim.uid for claim in opened.values()})
        uids = {claim.uid for claim in node.ledger.values()}
        for identity, claim in before.items():
            if identity not in node.ledger and claim.uid not in uids:
                self.handoffs.not_begun(name, claim.uid)
        self._reconcile(node)
        if self.facts.nodes.is_gone(name):
            self.outcomes.forget(name)

    def outcomes_changed(self, event: OutcomesChanged) -> None:
        """Apply a node's outcomes on the bus."""
        self._reconcile(self.outcomes.changed(event.node, event.sequence, event.outcomes, gone=event.gone))

    def invalid(self, event: Unreadable) -> None:
        """Apply that the last message about a node is not valid."""
        self._reconcile(self.outcomes.invalid(event))

    def read_back(self, subject: str, sequence: int) -> None:
        """The outcomes under a subject were read back, or an invalid message was deleted."""
        match address(subject):
            case ("outcome", _):
                self._reconcile(self.outcomes.read_back(subject, sequence))
            case ("ledger", name):
                self.ledger(name, ())

    # Answers of the cluster

    def answered(self, answer: Answer) -> None:
        """Apply the answer to a request for a claim."""
        task = self._tasks.task(answer.claim)
        self._advance(task, event_of(answer, task), answer)

    def failed(self, claim: str, jitter: float, *, final: bool) -> Claim | None:
        """The cluster did not execute a request.

        Returns the claim if users have to be informed that the cluster refuses its requests.
        """
        task = self._tasks.task(claim)
        self._advance(task, TaskEvent.FORBIDDEN if final else TaskEvent.UNANSWERED, jitter)
        return task.claim if final and task.refusals == 1 and task.state is not State.ENDED else None

    # Time

    def next_due(self) -> float | None:
        """Return the monotonic time at which :meth:`tick` has to be called at the latest."""
        due = (self._tasks.next_due(), self.evictions.next_due(), self.handoffs.next_due(), self.locks.next_due())
        return min((at for at in due if at is not None), default=None)

    def tick(self, *, may_begin: bool = True) -> list[Step]:
        """Begin what can begin, if anything ``may_begin``; return the commands and what there is to report."""
        self.handoffs.expire(self.now.monotonic)
        for node in self.outcomes.take_resumed():
            for task in self._tasks.on_node(node):
                self._advance(task, TaskEvent.UNPARKED)
        for task in self._tasks.due(self.now.monotonic):
            self._advance(task, TaskEvent.TIMER)
        self._resume_freed()
        if may_begin:
            self._begin()
            self._steps.add(*self.evictions.tick(self.now))
        self._steps.add(*self.evictions.take())
        for stuck in self.handoffs.take_stuck():
            if self._owns(stuck.node):
                self._steps.add(stuck)
                if not stuck.begun and (other := self.others.get(stuck.uid)) is not None:
                    self._steps.add(*out_of_sight(other))
        self._steps.add(*self.locks.release(self.now.monotonic, self.facts.nodes.locks))
        return self._steps.take()

    def chain(self) -> list[ClaimRequest]:
        """Return the requests of the claims that waited for a handoff which has ended: they need no tick."""
        if not self.handoffs.freed:
            return []
        self._resume_freed()
        self._begin()
        return self._steps.take_requests()

    def _begin(self) -> None:
        """Begin queued tasks, as many as the limit allows."""
        while self._tasks.may_begin:
            for task in self._tasks.next_turn():
                owned = self._owns(task.node.name)
                self._advance(task, TaskEvent.TURN if owned else TaskEvent.DROPPED)
            self._resume_freed()

    # Tasks

    def _reconcile(self, node: NodeClaims | None) -> None:
        """Keep bind tasks for the claims without an outcome, and for no others; and tasks for the evictions."""
        if node is None or not self.started:
            return
        self.evictions.reconcile(node)
        self._steps.add(*self._nominated_nodes.reconcile(node))
        owned = self._owns(node.name)
        for task in self._tasks.on_node(node):
            if not node.holds(task.claim) or not (owned or task.in_flight):
                self._advance(task, TaskEvent.DROPPED)
        if not owned:
            return
        node.confirmed &= node.ledger.keys()
        for claim in node.ledger.values():
            known = self._tasks.get(claim.id)
            if known is None:
                if not (is_nominated(claim) or node.has_outcome(claim)):
                    self._tasks.add(claim, node, self.now.wall)
            elif known.node is not node or known.claim.uid != claim.uid:
                continue  # the id is another claim's: ids are unique, so one of the two ledgers is wrong
            elif claim.id in node.written and node.has_outcome(claim) and not known.in_flight:
                self._advance(known, TaskEvent.DROPPED)
            elif known.claim is not claim and known.claim != (kept := with_bindings(claim, known.claim)):
                known.claim = kept
                self._advance(known, TaskEvent.POD_CHANGED)

    def _advance(self, task: BindTask, event: TaskEvent, answer: Answer | float | None = None) -> None:
        advance(self._steps, task, event, self.now, answer)

    def _used_changed(self, claims: Iterable[str]) -> None:
        for task in filter(None, map(self._tasks.get, claims)):
            self._advance(task, TaskEvent.USED_CHANGED)

    def _resume_freed(self) -> None:
        """Resume the held claims on nodes where a handoff has ended, in their order and before all others."""
        while self.handoffs.freed:
            name = next(iter(self.handoffs.freed))
            del self.handoffs.freed[name]
            for claim in self.handoffs.release(name):
                self._advance(self._tasks.task(claim), TaskEvent.FREED)

    # Device plugins

    def _expect(self, node: NodeClaims) -> None:
        """Begin the handoff of pods that a predecessor of this process may have bound without a fact yet."""
        for claim in node.ledger.values():
            pod = self.facts.pods.get(claim.uid)
            task = self._tasks.get(claim.id)
            if (task is not None or node.is_bound(claim)) and (pod is None or not pod.node):
                try:
                    keys = keys_of(claim.grants)
                except FamilyError:
                    continue  # every claim of this family is refused meanwhile
                self.handoffs.begin(node.name, claim.uid, keys, self.now.monotonic)
                if task is not None:
                    task.unsure = bool(keys)

    def _needs_lock(self, node: str, uid: str) -> bool:
        """Return whether a pod is being bound to a node or handed over there.

        A pod that waits for another one's handoff is not: that one may need the lock.
        """
        tasks = (task for task in self._tasks.of_pod(uid) if task.node.name == node)
        working = any(task.state is not State.HELD and not task.is_refused for task in tasks)
        return working or self.handoffs.contains(node, uid)

    def _holder_needs(self, node: str, holder: str) -> bool | None:
        """Return whether a pod needs the lock that names it, None if it is not known."""
        found = [pod for pod in self.facts.pods.values() if f"{pod.namespace}/{pod.name}" == holder]
        if not found:
            return None
        return any(
            self._needs_lock(node, pod.uid) or (pod.node == node and pod.unserved and not pod.ended) for pod in found
        )


def _opened(claims: Mapping[str, Claim]) -> Mapping[str, Claim]:
    """Return the claims, by id, that are not nominated."""
    if not any(claim.waits_for for claim in claims.values()):
        return claims
    return {identity: claim for identity, claim in claims.items() if not claim.waits_for}
