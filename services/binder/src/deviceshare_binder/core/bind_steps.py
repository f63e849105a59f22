"""The steps of one bind task: from its turn to a request, a pause or the outcome of its claim."""

from collections.abc import Mapping, Sequence

from deviceshare.families import FamilyError, UnknownFamilyError
from deviceshare.model import BOUND, REFUSED, InputError, Outcome, sign
from deviceshare_bus.cores.core import Now

from deviceshare_binder.core.bind_queue import BindQueue
from deviceshare_binder.core.bind_task import GRACE, RECHECK, BindTask, Finished, Paused, Rejected, State, Verdict
from deviceshare_binder.core.commands import Annotate, BindPod, BindVolumes, ClaimRequest, FencePod, LockNode, ReadPod
from deviceshare_binder.core.delivery import annotations_of, outcome_of_bound
from deviceshare_binder.core.facts import Facts
from deviceshare_binder.core.locks import Locks
from deviceshare_binder.core.outcomes import Outcomes
from deviceshare_binder.core.plugin_handoff import PluginHandoffs, Stuck

MOMENT = 1e-6
"""The least difference, in seconds, between the times in the annotations of two bindings."""

Step = ClaimRequest | Annotate | Finished | Rejected | Stuck | Paused


class BindSteps:
    """Executes bind tasks on the state of :class:`.claims.ClaimBinder`, and collects what follows for the next tick."""

    def __init__(
        self,
        facts: Facts,
        outcomes: Outcomes,
        tasks: BindQueue,
        handoffs: PluginHandoffs,
        locks: Locks,
        keys: Sequence[bytes] = (),
    ) -> None:
        self._facts = facts
        self._outcomes = outcomes
        self._tasks = tasks
        self._handoffs = handoffs
        self._locks = locks
        self._keys = tuple(keys)
        self._steps: list[Step] = []
        """In order."""
        self._finished: list[Finished] = []
        self._last_binding = 0.0
        """Unix time of the last binding."""

    def add(self, *steps: Step) -> None:
        """Add steps of other parts."""
        self._steps += steps

    def take(self) -> list[Step]:
        """Return the steps since the last call; the outcomes come last."""
        steps, self._steps, self._finished = self._steps + self._finished, [], []
        return steps

    def take_requests(self) -> list[ClaimRequest]:
        """Return the requests since the last call; all other steps stay for the next tick."""
        requests = [step for step in self._steps if isinstance(step, ClaimRequest)]
        self._steps = [step for step in self._steps if not isinstance(step, ClaimRequest)]
        return requests

    def begin(self, task: BindTask, now: Now) -> None:
        """Begin a task whose turn it is."""
        claim, task.began_at = task.claim, now.wall
        if task.dropped:
            self.remove(task)
            return
        if self._tasks.is_busy(claim.uid) or task.node.invalid:
            task.state = State.PARKED
            if reason := next(iter(task.node.invalid.values()), ""):
                self._steps.append(Paused(claim, task.node.name, reason))
            return
        if task.unsure:
            self._read(task, None)
            return
        verdict = self._facts.judge(task)
        if verdict is not None and verdict.sure:
            self.finish(task, verdict.state, verdict.reason, now)
        elif verdict is not None and verdict.state == BOUND:
            self._read(task, verdict)
        elif verdict is not None:
            self.fence(task, verdict)
        elif self._facts.missing(task):
            self._wait(task, now)
        else:
            self._prepare(task, now)

    def _prepare(self, task: BindTask, now: Now) -> None:
        """Continue with a task whose pod and node are known and allow the binding."""
        claim = task.claim
        if task.bug:
            self.fence(task, Verdict(REFUSED, task.bug, sure=False))
        elif not self._facts.pods[claim.uid].revision:
            self._read(task, None)
        elif claim.bindings and not self._volumes_bound(task, now):
            pass  # it waits, or is refused
        elif self._handoffs.blocked(task.node.name, claim.uid, task.keys):
            task.state, task.deadline = State.HELD, None
            self._handoffs.hold(task.node.name, claim.id, claim.uid, task.keys)
        elif objection := self._facts.objection(task):
            self._object(task, objection, now)
        elif not self._locked(task, now):
            self._bind(task, now)

    def _volumes_bound(self, task: BindTask, now: Now) -> bool:
        """Return whether the volumes of a pod are bound; else request them and wait, or refuse the claim.

        Others of the node need not wait for the pod. A volume may be lost after it was bound: each binding looks again.
        """
        claim, view = task.claim, self._facts.nodes.views[task.node.name]
        assert view is not None
        if not task.volumes_bound and (objection := self._facts.objection(task)):
            self._object(task, objection, now)
            return False
        if task.volumes_until is None:
            task.volumes_until = now.monotonic + self._facts.volume_timeout
        found = self._facts.volumes.progress(task, view)
        if not (found.failed or found.unknown or found.open):
            if not task.volumes_bound:
                task.volumes_bound, task.deadline = True, None
            return True
        task.volumes_bound = False
        if found.failed and found.doubtful and (until := task.grace(now.monotonic, GRACE)) is not None:
            self._tasks.sleep(task, State.WAITING, until)
        elif found.failed:
            self.fence(task, Verdict(REFUSED, found.failed, sure=False))
        elif found.unknown:
            if (until := task.grace(now.monotonic, GRACE)) is not None:
                self._tasks.sleep(task, State.WAITING, until)
            else:
                self.fence(task, Verdict(REFUSED, f"there is no {found.unknown}", sure=False))
        elif now.monotonic >= task.volumes_until:
            names = ", ".join(binding.claim for binding in found.open)
            reason = f"PersistentVolumeClaims were not bound within {self._facts.volume_timeout:g} s: {names}"
            self.fence(task, Verdict(REFUSED, reason, sure=False))
        elif task.volume_revisions is None or found.vanished:
            # A volume that vanished may have been deleted, or another claim has it: the cluster knows.
            self._facts.volumes.requested(claim.id)
            self._request(task, State.BINDING_VOLUMES, BindVolumes(claim.id, found.open))
        else:
            task.deadline = None
            self._tasks.sleep(task, State.WAITING, task.volumes_until)
        return False

    def _locked(self, task: BindTask, now: Now) -> bool:
        """Request the node's lock, or wait for it; return whether the binding has to wait."""
        step = self._locks.next(task.claim, task.node.name, self._facts.nodes.locks(task.node.name), now)
        if step is None:
            return False
        if isinstance(step, LockNode):
            task.lock = step
            self._handoffs.begin(task.node.name, task.claim.uid, task.keys)
            self._request(task, State.LOCKING, step)
        else:
            self._tasks.sleep(task, State.WAITING, step)
        return True

    def _bind(self, task: BindTask, now: Now) -> None:
        claim, node, pod = task.claim, task.node.name, self._facts.pods[task.claim.uid]
        # Device plugins serve the oldest pod first: no two bindings may have the same time.
        self._last_binding = max(now.wall, self._last_binding + MOMENT)
        try:
            annotations = annotations_of(claim, node, pod, self._last_binding)
        except (InputError, UnknownFamilyError, FamilyError) as error:
            self.fence(task, Verdict(REFUSED, str(error), sure=False))
            return
        annotations |= sign(self._keys, claim.uid, node, annotations)
        self._handoffs.begin(node, claim.uid, task.keys)
        request = BindPod(claim.id, claim.namespace, claim.name, claim.uid, node, annotations, pod.revision)
        task.requested_at = task.requested_at or now.wall
        self._request(task, State.BINDING, request)

    def found(self, task: BindTask, annotations: Mapping[str, str] | None, now: Now) -> None:
        """The pod is bound to the claim's node: for this claim if it has the claim's devices."""
        claim = task.claim
        self.finish(task, *outcome_of_bound(claim, task.node.name, self._facts.pods.get(claim.uid), annotations), now)

    def _read(self, task: BindTask, verdict: Verdict | None) -> None:
        """Read the pod back; ``verdict``: a fact shows that it is bound."""
        self._ask(task, ReadPod, verdict)

    def fence(self, task: BindTask, verdict: Verdict) -> None:
        """Let no binding for the claim succeed any more; ``verdict`` is the claim's outcome if the pod is not bound."""
        self._ask(task, FencePod, verdict)

    def _ask(self, task: BindTask, request: type[ReadPod | FencePod], verdict: Verdict | None) -> None:
        claim, task.verdict = task.claim, verdict
        self._request(task, State.READING, request(claim.id, claim.namespace, claim.name, claim.uid))

    def _request(self, task: BindTask, state: State, request: ClaimRequest) -> None:
        self._tasks.requested(task, state)
        self._steps.append(request)

    def _wait(self, task: BindTask, now: Now) -> None:
        """Wait for facts, in total no longer than the grace, whatever other facts arrive meanwhile."""
        if (until := task.grace(now.monotonic, GRACE)) is not None:
            self._tasks.sleep(task, State.WAITING, until)
        elif task.claim.uid in self._facts.pods:
            self.fence(task, Verdict(REFUSED, f"there is no node {task.node.name}", sure=False))
        else:
            self._read(task, None)

    def _object(self, task: BindTask, objection: str, now: Now) -> None:
        """Wait for facts that justify a claim: placement may have newer ones. Then refuse the claim.

        Claims that waited behind it for a handoff do not wait for its facts.
        """
        self._handoffs.unhold(task.node.name, task.claim.id, task.claim.uid)
        if (until := task.grace(now.monotonic, RECHECK)) is not None:
            self._tasks.sleep(task, State.WAITING, until)
        else:
            self._steps.append(Rejected(task.claim, task.node.name, objection))
            self.fence(task, Verdict(REFUSED, f"the claim is not valid: {objection}", sure=False))

    def finish(self, task: BindTask, state: str, reason: str, now: Now) -> None:
        """Record the outcome of a task's claim and remove the task."""
        if state != BOUND:
            self._handoffs.not_begun(task.node.name, task.claim.uid)
        self.remove(task)
        claim, node = task.claim, task.node
        if not node.is_new(claim, state):
            return
        if not task.dropped:
            trace = task.trace(now.wall) if state == BOUND else None
            self._outcomes.finish(node, Outcome(claim.id, claim.uid, state, reason, now.wall), now.monotonic, trace)
        if not task.dropped or state == BOUND:
            self._finished.append(Finished(claim, node.name, state, reason))

    def remove(self, task: BindTask) -> None:
        """Remove a task; its claim is no longer held."""
        self._facts.volumes.forget(task.claim.id)
        self._handoffs.unhold(task.node.name, task.claim.id, task.claim.uid)
        self._tasks.remove(task)
