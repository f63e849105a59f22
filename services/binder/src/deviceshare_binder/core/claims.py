"""Which claim is bound when, and what its outcome is.

The states of a bind task: :mod:`.bind_task`; what one task does: :mod:`.bind_steps`. Nothing begins before the messages
that were on the bus have been read.
"""

from collections.abc import Callable, Iterable, Sequence, Set

from deviceshare.families import SERVED, FamilyError
from deviceshare.model import BOUND, REFUSED, WITHDRAWN, Claim
from deviceshare_bus.cores.core import Now, Unreadable
from deviceshare_bus.messages.subjects import PARTITIONS, address, ledger, partition
from deviceshare_cluster.interface import REFUSED_RETRY, BindState

from deviceshare_binder.core.bind_queue import BindQueue
from deviceshare_binder.core.bind_steps import BindSteps, Step
from deviceshare_binder.core.bind_task import RETRY, UNANSWERED, BindTask, State, Verdict
from deviceshare_binder.core.commands import ClaimRequest
from deviceshare_binder.core.delivery import out_of_sight
from deviceshare_binder.core.events import BindAnswered, LockAnswered, OutcomesChanged, PodRead, VolumesRequested
from deviceshare_binder.core.facts import Facts
from deviceshare_binder.core.locks import AGAIN, Locks
from deviceshare_binder.core.outcomes import NodeClaims, Outcomes
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
        self._steps = BindSteps(self.facts, self.outcomes, self._tasks, self.handoffs, self.locks, keys)
        """What one task does; collects the steps for the next tick."""
        self.others: dict[str, OtherPodView] = {}
        """The waiting pods of other schedulers that device plugins may select, by uid."""
        self.started = False
        """Whether the messages that were on the bus have been read."""
        self.wall = 0.0
        """Unix time of the event that is being handled."""

    @property
    def open_work(self) -> int:
        """The number of claims without an outcome, and of nodes whose outcomes are not all written."""
        return len(self._tasks) + self.outcomes.open + (not self.started)

    @property
    def active(self) -> bool:
        """Whether there are claims to bind."""
        return len(self._tasks) > 0

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
        self.shards_changed()
        for node in list(self.outcomes.nodes.values()):
            if not node.ledger and node.name not in self.facts.nodes.views:
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

    def pod(self, uid: str, view: PodView | None, now: Now) -> None:
        """Apply a pod's state, None if it is gone."""
        self.handoffs.pod(uid, view, now.monotonic)
        if view is None:
            self.facts.drop(uid)
            return
        before = self.facts.pods.get(uid)
        view = self.facts.put(view)
        changed = before is None or before.selecting != view.selecting or before.ended != view.ended
        if changed and self.started and any(map(self._owns, view.selecting)):
            self._steps.add(*out_of_sight(view))
        for task in self._tasks.of_pod(uid):
            self._reevaluate(task)

    def other_pod(self, uid: str, view: OtherPodView | None, now: Now) -> None:
        """Apply the state of a waiting pod of another scheduler, None if it does not wait any more.

        The other scheduler may be binding it: its annotations are left to it for the patience.
        """
        before = self.others.pop(uid, None)
        if view is not None and view.selectable:
            self.others[uid] = view
        if uid not in self.facts.pods and (before is not None or uid in self.others):
            self.handoffs.select(uid, view.selectable if view is not None else (), now.monotonic)

    def node(self, name: str, view: NodeView | None) -> None:
        """Apply a node's state, None if it is gone."""
        self.facts.nodes.put(name, view)
        if view is None:
            self.outcomes.forget(name)
        if name in self.outcomes.nodes:
            for task in self._tasks.on_node(self.outcomes.nodes[name]):
                # A refused task would take the node's lock again as soon as the node shows that it is free.
                if not task.is_refused or self.facts.judge(task) is not None:
                    self._reevaluate(task)

    def volume_claim(self, key: str, view: VolumeClaimView | None) -> None:
        """Apply the state of a PersistentVolumeClaim, None if it is gone."""
        self._reevaluate_all(self.facts.volumes.put_claim(key, view))

    def volume(self, name: str, view: VolumeView | None) -> None:
        """Apply the state of a PersistentVolume, None if it is gone."""
        self._reevaluate_all(self.facts.volumes.put_volume(name, view))

    def ledger(self, name: str, claims: Iterable[Claim]) -> None:
        """Apply all claims on a node."""
        node = self.outcomes.node(name)
        self.outcomes.resume(node, ledger(name))
        before, node.ledger = node.ledger, {claim.id: claim for claim in claims}
        self.facts.shares.set_claims(name, before, node.ledger)
        uids = {claim.uid for claim in node.ledger.values()}
        self._claimed({claim.uid for claim in before.values()}, uids)
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

    def bind_answered(self, answer: BindAnswered, now: Now) -> None:
        """Apply the answer to a :class:`BindPod`."""
        task = self._tasks.answered(answer.claim)
        if answer.state is BindState.BOUND:
            if (answer.annotations or {}).get(SERVED) == "true":
                self.handoffs.not_begun(answer.node, task.claim.uid)
            self._steps.finish(task, BOUND, "", now)
        elif answer.state is BindState.ALREADY and answer.node == task.node.name:
            self._steps.found(task, answer.annotations, now)
        elif answer.state is BindState.ALREADY:
            self._steps.finish(task, REFUSED, f"the pod is bound to {answer.node}", now)
        elif answer.state is BindState.CHANGED:
            self.facts.read(task.claim.uid, answer.revision, answer.annotations)
            # The first change may have been known for long, such as that of a label.
            pause = RETRY.delay(task.changes - 1) if task.changes else 0.0
            task.changes += 1
            self._tasks.sleep(task, State.BACKING_OFF, now.monotonic + pause)
        elif answer.state is BindState.REFUSED and not task.dropped:
            self._steps.fence(task, Verdict(REFUSED, answer.reason, sure=False))
        else:
            self._steps.finish(task, REFUSED, answer.reason or "the pod is gone", now)

    def pod_read(self, answer: PodRead, now: Now) -> None:
        """Apply the answer to a :class:`ReadPod` or :class:`FencePod`."""
        task = self._tasks.answered(answer.claim)
        verdict, task.verdict, node = task.verdict, None, answer.node
        if node == "":
            self.facts.read(task.claim.uid, answer.revision, answer.annotations)
        if node == task.node.name:
            self._steps.found(task, answer.annotations, now)
        elif verdict is not None and (verdict.state == WITHDRAWN or (verdict.state == REFUSED and node == "")):
            self._steps.finish(task, verdict.state, verdict.reason, now)
        elif node is None:
            self._steps.finish(task, REFUSED, "the pod is gone", now)
        elif node:
            self._steps.finish(task, REFUSED, f"the pod is bound to {node}", now)
        elif verdict is not None:  # a fact shows that it is bound
            self._tasks.sleep(task, State.BACKING_OFF, now.monotonic + RETRY.delay(task.tries))
            task.tries += 1
        else:  # the pod exists, its fact will arrive
            task.deadline = None
            task.unsure = False
            self.handoffs.not_begun(task.node.name, task.claim.uid)
            self._tasks.enqueue(task)

    def lock_answered(self, answer: LockAnswered, now: Now) -> None:
        """Apply the answer to a :class:`LockNode`."""
        task = self._tasks.answered(answer.claim)
        lock, task.lock = task.lock, None
        if lock is not None and answer.value == lock.value:
            self.locks.taken(task.claim, lock)
            self._tasks.enqueue(task)
        else:
            self.handoffs.not_begun(task.node.name, task.claim.uid)
            self._tasks.sleep(task, State.WAITING, now.monotonic + AGAIN)

    def volumes_requested(self, answer: VolumesRequested) -> None:
        """Apply the answer to a :class:`BindVolumes`."""
        task = self._tasks.answered(answer.claim)
        if answer.problem and not task.dropped:
            self._steps.fence(task, Verdict(REFUSED, answer.problem, sure=False))
        else:
            task.volume_revisions = {**(task.volume_revisions or {}), **answer.revisions}
            self._tasks.enqueue(task)

    def failed(self, claim: str, now: Now, jitter: float, *, final: bool) -> Claim | None:
        """The cluster did not execute a request: try again later.

        Returns the claim if users have to be informed that the cluster refuses its requests.
        """
        known = self._tasks.get(claim)
        binding = known is not None and known.state is State.BINDING
        task = self._tasks.answered(claim)
        if task.dropped:
            self._steps.remove(task)
            return None
        if binding and not final:
            task.open_until = now.monotonic + UNANSWERED
        task.refused = final and not task.unsure and now.monotonic >= task.open_until
        pause = REFUSED_RETRY.delay(task.refusals, jitter) if final else RETRY.delay(task.tries, jitter)
        task.tries += 1
        task.refusals += final
        self._tasks.sleep(task, State.BACKING_OFF, now.monotonic + pause)
        if task.is_refused:  # others need not wait for it
            self.handoffs.not_begun(task.node.name, task.claim.uid)
        return task.claim if final and task.refusals == 1 else None

    # Time

    def next_due(self) -> float | None:
        """Return the monotonic time at which :meth:`tick` has to be called at the latest."""
        due = (self._tasks.next_due(), self.handoffs.next_due(), self.locks.next_due())
        return min((at for at in due if at is not None), default=None)

    def tick(self, now: Now, *, may_begin: bool = True) -> list[Step]:
        """Begin what can begin, if anything ``may_begin``; return the commands and what there is to report."""
        self.handoffs.expire(now.monotonic)
        for node in self.outcomes.take_resumed():
            self._tasks.unpark(node)
        for task in self._tasks.due(now.monotonic):
            self._reevaluate(task)
        self._resume_freed()
        if may_begin:
            self._begin(now)
        for stuck in self.handoffs.take_stuck():
            if self._owns(stuck.node):
                self._steps.add(stuck)
                if (other := self.others.get(stuck.uid)) is not None:
                    self._steps.add(*out_of_sight(other))
        self._steps.add(*self.locks.release(now.monotonic, self.facts.nodes.locks))
        return self._steps.take()

    def chain(self, now: Now) -> list[ClaimRequest]:
        """Return the requests of the claims that waited for a handoff which has ended: they need no tick."""
        if not self.handoffs.freed:
            return []
        self._resume_freed()
        self._begin(now)
        return self._steps.take_requests()

    def _begin(self, now: Now) -> None:
        """Begin queued tasks, as many as the limit allows."""
        while self._tasks.may_begin:
            for task in self._tasks.next_turn():
                if self._owns(task.node.name):
                    self._steps.begin(task, now)
                else:
                    self._steps.remove(task)
            self._resume_freed()

    # Tasks

    def _reconcile(self, node: NodeClaims | None) -> None:
        """Keep bind tasks for the claims without an outcome, and for no others."""
        if node is None or not self.started:
            return
        owned = self._owns(node.name)
        for task in self._tasks.on_node(node):
            if not node.holds(task.claim) or not (owned or task.in_flight):
                self._drop(task)
        if not owned:
            return
        node.confirmed &= node.ledger.keys()
        for claim in node.ledger.values():
            known = self._tasks.get(claim.id)
            if known is None:
                if not node.has_outcome(claim):
                    self._tasks.add(claim, node, self.wall)
            elif known.node is not node or known.claim.uid != claim.uid:
                continue  # the id is another claim's: ids are unique, so one of the two ledgers is wrong
            elif claim.id in node.written and node.has_outcome(claim) and not known.in_flight:
                self._drop(known)
            elif known.claim is not claim and known.claim != (kept := with_bindings(claim, known.claim)):
                known.claim = kept
                self._reevaluate(known)

    def _drop(self, task: BindTask) -> None:
        """Remove a task; one in flight ends with the answer to its request."""
        if not task.in_flight:
            self._steps.remove(task)

    def _reevaluate(self, task: BindTask) -> None:
        """Queue a waiting task again: a fact has changed, or its timer has expired."""
        if task.state in (State.WAITING, State.BACKING_OFF):
            self._tasks.enqueue(task)
        elif task.state is State.HELD and self.facts.judge(task) is not None:
            self.handoffs.unhold(task.node.name, task.claim.id, task.claim.uid)
            self._tasks.enqueue(task)

    def _reevaluate_all(self, claims: Iterable[str]) -> None:
        for task in filter(None, map(self._tasks.get, claims)):
            if not task.is_refused:
                self._reevaluate(task)

    def _resume_freed(self) -> None:
        """Resume the held claims on nodes where a handoff has ended, in their order and before all others."""
        while self.handoffs.freed:
            name = next(iter(self.handoffs.freed))
            del self.handoffs.freed[name]
            if claims := self.handoffs.release(name):
                self._tasks.resume(claims)

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
                self.handoffs.begin(node.name, claim.uid, keys)
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
