"""Which claim is bound when, and what becomes of it: a state machine, events in, instructions out.

Pure: no clock, no event loop, no connection. A claim's way::

    queued ─┬─> binding ──> outcome          the API server's word is final
            ├─> held ──> queued              another pod is on its way to the node's device plugin (handover)
            ├─> locking ──> queued           the node's lock is asked for (locks)
            ├─> waiting ──> queued           its pod or its node is not known yet, or others hold the node's lock
            ├─> reading ──> outcome          refused or withdrawn: only after the pod was read back, since an earlier
            │                                binding, perhaps by a predecessor of this process, may have been done
            └─> (backing off) ──> queued     the cluster did not answer

Nothing is begun before the ledger, the outcomes and the facts that stood on the bus have been read.
"""

from collections.abc import Mapping, Sequence

from deviceshare.families import FamilyError, UnknownFamilyError
from deviceshare.model import BOUND, REFUSED, WITHDRAWN, Backoff, Claim, InputError, Outcome, sign
from deviceshare_cluster.interface import BindState

from deviceshare_binder.bind_queue import BindQueue
from deviceshare_binder.bind_task import (
    Bind,
    BindTask,
    Finished,
    GiveUp,
    Instruction,
    Read,
    State,
    Verdict,
    WriteOutcomes,
    judge,
)
from deviceshare_binder.delivery import annotations_of, given_up, has_its_devices, is_served
from deviceshare_binder.locks import AGAIN, Lock, Locks
from deviceshare_binder.nodes import Node
from deviceshare_binder.plugin_handoff import PATIENCE, PluginHandoffs, keys_of
from deviceshare_binder.views import NodeView, PodView

GRACE = 10.0
"""Seconds that a claim waits for the facts of its pod and its node."""
MOMENT = 1e-6
"""Seconds between two bindings, at least, in what the annotations say."""
RETRY = Backoff(0.1, 5.0)
"""Seconds between two tries while the cluster does not answer."""


class Core:
    """The state of the binder.

    ``limit`` is how many bindings and reads may be in flight, ``keys`` are those of
    :mod:`deviceshare.model.signatures`, ``patience`` is how many seconds a device plugin may take.
    """

    def __init__(self, limit: int = 64, keys: Sequence[bytes] = (), patience: float = PATIENCE) -> None:
        self._keys = tuple(keys)
        self.pods: dict[str, PodView] = {}
        self.nodes: dict[str, Node] = {}
        self._node_views: dict[str, NodeView | None] = {}
        """None for a node that is gone."""
        self._works = BindQueue(limit)
        self.handoffs = PluginHandoffs(patience)
        self.locks = Locks(self._needs_lock, self._left_over)
        self._give_up: list[GiveUp] = []
        self._dirty: set[str] = set()
        self._finished: list[Finished] = []
        self._moment = 0.0
        """When the last binding was made, unix seconds."""
        self._started = False

    @property
    def open_work(self) -> int:
        """Claims without an outcome, and nodes whose outcomes are not all written."""
        return len(self._works) + sum(node.open for node in self.nodes.values()) + (not self._started)

    @property
    def in_flight(self) -> int:
        """How many bindings and reads are in flight."""
        return self._works.in_flight

    def claims(self, ids: Sequence[str]) -> list[Claim]:
        """Return those of these claims that are being worked on."""
        return [work.claim for work in map(self._works.get, ids) if work is not None]

    def start(self) -> None:
        """All that stood on the bus has been read."""
        self._started = True
        for node in list(self.nodes.values()):
            self._reconcile(node)
            self._expect(node)

    def pod(self, uid: str, view: PodView | None) -> None:
        """Learn a pod's state, None if it is gone."""
        self.handoffs.pod(uid, view)
        if view is None:
            self.pods.pop(uid, None)
            return
        before = self.pods.get(uid)
        self.pods[uid] = view
        if view.ended and view.unserved and (before is None or before.unserved != view.unserved or not before.ended):
            self._give_up += filter(None, (given_up(view),))
        for work in self._works.of_pod(uid):
            self._look_again(work)

    def node(self, name: str, view: NodeView | None) -> None:
        """Learn a node's state, None if it is gone."""
        self._node_views[name] = view
        if name in self.nodes:
            for work in self._works.on_node(self.nodes[name]):
                self._look_again(work)

    def ledger(self, name: str, claims: dict[str, Claim]) -> None:
        """Learn all claims on a node."""
        node = self._node(name)
        before, node.ledger = node.ledger, claims
        left = {before[gone].uid for gone in before.keys() - claims.keys()}
        for uid in left - {claim.uid for claim in claims.values()}:
            self.handoffs.not_begun(name, uid)
        self._reconcile(node)

    def outcomes(self, name: str, sequence: int, outcomes: dict[str, Outcome]) -> None:
        """Learn a node's outcomes as they stand on the bus."""
        node = self._node(name)
        if node.seen(sequence, outcomes):
            self._reconcile(node)
            self._dirty.add(name)

    def outcomes_written(self, name: str, sequence: int) -> None:
        """A :class:`WriteOutcomes` was done."""
        self.nodes[name].written(sequence)
        self._dirty.add(name)

    def outcomes_refused(self, name: str) -> None:
        """A :class:`WriteOutcomes` can never be done."""
        self.nodes[name].refused()

    def outcomes_unclear(self, name: str) -> None:
        """A :class:`WriteOutcomes` met another message, or nobody knows: :meth:`outcomes_read` has to follow."""
        self.nodes[name].unclear()

    def outcomes_read(self, name: str, sequence: int, outcomes: dict[str, Outcome]) -> None:
        """What stands in OUTCOME after an unclear write; sequence 0: nothing."""
        node = self.nodes[name]
        node.read_back(sequence, outcomes)
        self._reconcile(node)
        self._dirty.add(name)

    def bind_answered(
        self,
        claim: str,
        answer: BindState,
        node: str,
        reason: str,
        now: float,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """The cluster answered a :class:`Bind`.

        ``node`` is where the pod is now, with these annotations (None: not known); ``now`` in unix seconds.
        """
        work = self._works.land(claim)
        if answer is BindState.BOUND:
            if annotations is not None and is_served(work.claim, annotations):
                self.handoffs.not_begun(node, work.claim.uid)
            self._finish(work, BOUND, "", now)
        elif answer is BindState.ALREADY and node == work.node.name:
            self._found(work, annotations, now)
        elif answer is BindState.ALREADY:
            self._finish(work, REFUSED, f"the pod is bound to {node}", now)
        else:
            self._finish(work, REFUSED, reason or "the pod is gone", now)

    def read_answered(
        self, claim: str, node: str | None, now: float, annotations: Mapping[str, str] | None = None
    ) -> None:
        """The cluster answered a :class:`Read`: where the pod is, '' for nowhere yet, None if it is gone.

        ``annotations`` are the pod's, None where they are not known.
        """
        work = self._works.land(claim)
        verdict, work.verdict = work.verdict, None
        if node == work.node.name:
            self._found(work, annotations, now)
        elif verdict is not None and (verdict.state == WITHDRAWN or (verdict.state == REFUSED and node == "")):
            self._finish(work, verdict.state, verdict.reason, now)
        elif node is None:
            self._finish(work, REFUSED, "the pod is gone", now)
        elif node:
            self._finish(work, REFUSED, f"the pod is bound to {node}", now)
        elif verdict is not None:  # a fact says that it is bound
            self._works.sleep(work, State.BACKING_OFF, now + RETRY.first)
        else:  # the pod is there, its fact is on its way
            work.deadline = None
            work.unsure = False
            self.handoffs.not_begun(work.node.name, work.claim.uid)
            self._works.enqueue(work)

    def lock_answered(self, claim: str, standing: str | None, now: float) -> None:
        """The cluster answered a :class:`Lock`: the annotation's value as it stands now, None for none."""
        work = self._works.land(claim)
        lock, work.lock = work.lock, None
        if lock is not None and standing == lock.value:
            self.locks.taken(work.claim, lock)
            self._works.enqueue(work)
        else:
            self.handoffs.not_begun(work.node.name, work.claim.uid)
            self._works.sleep(work, State.WAITING, now + AGAIN)

    def failed(self, claim: str, now: float, jitter: float) -> None:
        """The cluster did not answer: try again later, by up to ``jitter`` (a share of the pause) later still."""
        work = self._works.land(claim)
        if work.dropped:
            self._remove(work)
            return
        pause = RETRY.delay(work.tries, jitter)
        work.tries += 1
        self._works.sleep(work, State.BACKING_OFF, now + pause)

    def next_due(self) -> float | None:
        """Return the moment (unix seconds) at which :meth:`take` has something to do at the latest."""
        due = (self._works.next_due(), self.handoffs.next_due(), self.locks.next_due())
        return min((at for at in due if at is not None), default=None)

    def take(self, now: float) -> list[Instruction]:
        """Return what is to be done now; ``now`` in unix seconds is the moment of the bindings."""
        out: list[Instruction] = []
        self.handoffs.expire(now)
        for work in self._works.due(now):
            self._look_again(work)
        self._look_at_freed()
        while self._works.may_begin:
            for work in self._works.next_turn():
                self._begin(work, now, out)
            self._look_at_freed()
        out += self.handoffs.take(now)
        out += self.locks.take(now, self._standing_locks)
        out += self._give_up
        self._give_up = []
        for name in self._dirty:
            node = self.nodes[name]
            outcomes = node.write()
            if outcomes is not None:
                out.append(WriteOutcomes(name, outcomes, node.sequence))
        self._dirty.clear()
        out += self._finished
        self._finished = []
        return out

    # -- what there is to do ------------------------------------------------------------------------------------------

    def _node(self, name: str) -> Node:
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name)
        return node

    def _reconcile(self, node: Node) -> None:
        """Work on the claims that have no outcome, and on no others."""
        if not self._started:
            return
        for work in self._works.on_node(node):
            if work.claim.id not in node.ledger:
                self._drop(work)
        node.confirmed &= node.ledger.keys()
        for claim in node.ledger.values():
            known = self._works.get(claim.id)
            if known is None:
                if not node.has_outcome(claim):
                    self._works.add(claim, node)
            elif claim.id in node.stands and node.has_outcome(claim) and not known.in_flight:
                self._drop(known)
            elif known.claim is not claim:
                known.claim = claim
                self._look_again(known)

    def _drop(self, work: BindTask) -> None:
        """Stop working on a claim; what is in flight is waited for."""
        if work.in_flight:
            work.dropped = True
        else:
            self._remove(work)

    def _remove(self, work: BindTask) -> None:
        self.handoffs.unhold(work.node.name, work.claim.id, work.claim.uid)
        self._works.remove(work)

    def _look_again(self, work: BindTask) -> None:
        """Something changed that a waiting claim may have waited for."""
        if work.state in (State.WAITING, State.BACKING_OFF):
            self._works.enqueue(work)
        elif work.state is State.HELD and self._judge(work) is not None:
            self.handoffs.unhold(work.node.name, work.claim.id, work.claim.uid)
            self._works.enqueue(work)

    def _look_at_freed(self) -> None:
        """Go on with those who waited on nodes where somebody's way is over, in their order and before all others."""
        while self.handoffs.freed:
            node = self.nodes[self.handoffs.freed.pop()]
            self._works.enqueue_first(node, self.handoffs.release(node.name))

    # -- the device plugins -------------------------------------------------------------------------------------------

    def _expect(self, node: Node) -> None:
        """Reckon with bindings that a predecessor of this process began, and of which no fact tells yet."""
        for claim in node.ledger.values():
            pod = self.pods.get(claim.uid)
            work = self._works.get(claim.id)
            bound = claim.id in node.stands and node.stands[claim.id].state == BOUND
            if (work is not None or bound) and (pod is None or not pod.node):
                keys = keys_of(claim.grants)
                self.handoffs.begin(node.name, claim.uid, keys)
                if work is not None:
                    work.unsure = bool(keys)

    def _standing_locks(self, node: str) -> Mapping[str, str]:
        view = self._node_views.get(node)
        return dict(view.locks) if view is not None else {}

    def _needs_lock(self, node: str, uid: str) -> bool:
        """Return whether a pod is on its way to a node, or is about to be."""
        working = any(work.node.name == node for work in self._works.of_pod(uid))
        return working or self.handoffs.is_on_its_way(node, uid)

    def _left_over(self, node: str, holder: str) -> bool:
        """Return whether a pod that we know has no need of the lock that names it."""
        found = [pod for pod in self.pods.values() if f"{pod.namespace}/{pod.name}" == holder]
        return bool(found) and not any(
            self._needs_lock(node, pod.uid) or (pod.node == node and pod.unserved and not pod.ended) for pod in found
        )

    # -- one claim ----------------------------------------------------------------------------------------------------

    def _begin(self, work: BindTask, now: float, out: list[Instruction]) -> None:
        claim = work.claim
        if work.dropped:
            self._remove(work)
            return
        if self._works.is_busy(claim.uid):
            work.state = State.PARKED
            return
        if work.unsure:
            self._read(work, None, out)
            return
        verdict = self._judge(work)
        if verdict is not None and verdict.sure:
            self._finish(work, verdict.state, verdict.reason, now)
        elif verdict is not None:
            self._read(work, verdict, out)
        elif claim.uid not in self.pods or work.node.name not in self._node_views:
            self._wait(work, now, out)
        elif self.handoffs.blocked(work.node.name, claim.uid, work.keys):
            work.state = State.HELD
            self.handoffs.hold(work.node.name, claim.id, claim.uid, work.keys)
        elif not self._locked(work, now, out):
            self._bind(work, now, out)

    def _judge(self, work: BindTask) -> Verdict | None:
        return judge(work.claim, work.node.name, self.pods.get(work.claim.uid), self._node_views)

    def _locked(self, work: BindTask, now: float, out: list[Instruction]) -> bool:
        """Take the node's lock, or wait for it, where that is needed first."""
        step = self.locks.next(work.claim, work.node.name, self._standing_locks(work.node.name), now)
        if step is None:
            return False
        if isinstance(step, Lock):
            work.lock = step
            self.handoffs.begin(work.node.name, work.claim.uid, work.keys)
            self._works.fly(work, State.LOCKING)
            out.append(step)
        else:
            self._works.sleep(work, State.WAITING, step)
        return True

    def _bind(self, work: BindTask, now: float, out: list[Instruction]) -> None:
        claim, node = work.claim, work.node.name
        # Device plugins serve the oldest pod first: no two are equally old.
        self._moment = max(now, self._moment + MOMENT)
        try:
            annotations = annotations_of(claim, node, self.pods[claim.uid], self._moment)
        except (InputError, UnknownFamilyError, FamilyError) as error:
            self._read(work, Verdict(REFUSED, str(error), sure=False), out)
            return
        annotations |= sign(self._keys, claim.uid, node, annotations)
        self.handoffs.begin(node, claim.uid, work.keys)
        self._works.fly(work, State.BINDING)
        out.append(Bind(claim.id, claim.namespace, claim.name, claim.uid, node, annotations))

    def _found(self, work: BindTask, annotations: Mapping[str, str] | None, now: float) -> None:
        """The pod is bound to the claim's node: by us, if it has the claim's devices."""
        pod, node = self.pods.get(work.claim.uid), work.node.name
        try:
            ours = annotations is None or pod is None or has_its_devices(work.claim, node, pod, annotations)
        except FamilyError as error:
            # The pod runs on the node: its devices stay claimed, and the outcome names the family.
            self._finish(work, BOUND, str(error), now)
            return
        if ours:
            self._finish(work, BOUND, "", now)
        else:
            self._finish(work, REFUSED, f"the pod is bound to {node} with other devices", now)

    def _read(self, work: BindTask, verdict: Verdict | None, out: list[Instruction]) -> None:
        """Read the pod back; ``verdict`` is what becomes of the claim if it is not bound, None if that is open."""
        claim = work.claim
        work.verdict = verdict
        self._works.fly(work, State.READING)
        out.append(Read(claim.id, claim.namespace, claim.name, claim.uid))

    def _wait(self, work: BindTask, now: float, out: list[Instruction]) -> None:
        """Wait for facts, in all no longer than the grace, whatever other facts come meanwhile."""
        if work.deadline is None:
            work.deadline = now + GRACE
        if now < work.deadline:
            self._works.sleep(work, State.WAITING, work.deadline)
            return
        no_node = Verdict(REFUSED, f"there is no node {work.node.name}", sure=False)
        self._read(work, no_node if work.claim.uid in self.pods else None, out)

    def _finish(self, work: BindTask, state: str, reason: str, now: float) -> None:
        if state != BOUND:
            self.handoffs.not_begun(work.node.name, work.claim.uid)
        self._remove(work)
        claim, node = work.claim, work.node
        if not node.is_news(claim, state):
            return
        if not work.dropped:
            node.finished[claim.id] = Outcome(claim.id, claim.uid, state, reason, now)
            self._dirty.add(node.name)
        if not work.dropped or state == BOUND:
            self._finished.append(Finished(claim, node.name, state, reason))
