"""What a bind task does at its turn: it sends a request, waits, or has its outcome.

The transitions of :mod:`.bind_transitions` are functions of this module and :mod:`.bind_answers`.
"""

from collections.abc import Sequence

from deviceshare.families import FamilyError, UnknownFamilyError
from deviceshare.families.dra import BINDING_TIMEOUT, DeviceBinding, DeviceConflict
from deviceshare.model import BOUND, REFUSED, InputError, Outcome, sign
from deviceshare_bus.cores.core import Now

from deviceshare_binder.core import commands
from deviceshare_binder.core.bind_queue import BindQueue
from deviceshare_binder.core.bind_task import (
    END,
    GRACE,
    LEFT,
    RECHECK,
    BindTask,
    ConditionsPending,
    Finished,
    Move,
    Paused,
    Rejected,
    State,
    Verdict,
)
from deviceshare_binder.core.comparison import Compared, Comparison
from deviceshare_binder.core.delivery import annotations_of
from deviceshare_binder.core.evictions import Blocked, EvictedPod
from deviceshare_binder.core.facts import Facts
from deviceshare_binder.core.locks import Locks
from deviceshare_binder.core.nominated_nodes import Nominated
from deviceshare_binder.core.outcomes import Outcomes
from deviceshare_binder.core.plugin_handoff import PluginHandoffs, Stuck

MOMENT = 1e-6
"""The least difference, in seconds, between the times in the annotations of two bindings."""

OTHERS = 1.0
"""Seconds for which a pod with new devices is not bound yet, where others allocate ResourceClaims as well."""

RecordedStep = (
    Finished | Stuck | Rejected | Paused | ConditionsPending | EvictedPod | Blocked | Nominated | Compared
    | DeviceConflict
)  # fmt: skip
"""What has happened, to be recorded."""
Step = commands.ClaimRequest | commands.EvictPod | commands.Annotate | commands.Nominate | RecordedStep
"""What follows from a claim or an eviction."""


class BindSteps:
    """What transitions of bind tasks work on; collects what follows from them for the next tick.

    With a ``comparison`` no pod is bound: it is left to another scheduler.
    """

    def __init__(
        self,
        facts: Facts,
        outcomes: Outcomes,
        tasks: BindQueue,
        handoffs: PluginHandoffs,
        locks: Locks,
        keys: Sequence[bytes] = (),
        *,
        comparison: Comparison | None = None,
    ) -> None:
        self._comparison = comparison
        self.facts = facts
        self.tasks = tasks
        self.handoffs = handoffs
        self.locks = locks
        self._outcomes = outcomes
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

    def take_requests(self) -> list[commands.ClaimRequest]:
        """Return the requests since the last call; all other steps stay for the next tick."""
        requests = [step for step in self._steps if isinstance(step, commands.ClaimRequest)]
        self._steps = [step for step in self._steps if not isinstance(step, commands.ClaimRequest)]
        return requests

    def begin(self, task: BindTask, now: Now, _: None = None) -> Move:
        """Begin a task whose turn it is."""
        claim, task.began_at = task.claim, now.wall
        if task.dropped:
            return self.end(task)
        if task.concluded is not None:
            return self.conclude(task, task.concluded.state, task.concluded.reason, now)
        if self.tasks.is_busy(claim.uid) or task.node.invalid:
            if reason := next(iter(task.node.invalid.values()), ""):
                self._steps.append(Paused(claim, task.node.name, reason))
            return Move(State.PARKED)
        if task.unsure:
            return self._read(task, None)
        verdict = self.facts.judge(task)
        if verdict is None:
            if self.facts.missing(task):
                return self._wait(task, now)
            return self._prepare(task, now) if self._comparison is None else self._leave(task, self._comparison, now)
        if verdict.sure:
            return self.conclude(task, verdict.state, verdict.reason, now)
        return self._read(task, verdict) if verdict.state == BOUND else self.fence(task, verdict)

    def _prepare(self, task: BindTask, now: Now) -> Move:
        """Continue with a task whose pod and node are known and allow the binding."""
        claim, node = task.claim, task.node.name
        if task.bug:
            return self.fence(task, Verdict(REFUSED, task.bug, sure=False))
        if not self.facts.pods[claim.uid].revision:
            return self._read(task, None)
        if claim.bindings and (move := self._bind_volumes(task, now)) is not None:
            return move
        if claim.devices and (move := self._allocate_devices(task, now)) is not None:
            return move
        if self.handoffs.blocked(node, claim.uid, task.keys):
            task.deadline = None
            self.handoffs.hold(node, claim.id, claim.uid, task.keys, now.monotonic)
            return Move(State.HELD)
        if objection := self.facts.objection(task):
            return self._object(task, objection, now)
        return self._lock(task, now) or self._bind(task, now)

    def _leave(self, task: BindTask, comparison: Comparison, now: Now) -> Move:
        """Leave a pod to another scheduler for a time, unless the claim does not fit what that one has bound."""
        claim = task.claim
        if task.left_until is None:
            # An earlier process may have waited for it.
            waited = 0.0 if not claim.decided_at else min(max(0.0, now.wall - claim.decided_at), LEFT)
            task.left_until = now.monotonic + LEFT - waited
        if objection := self.facts.objection(task):
            if (until := task.grace(now.monotonic, RECHECK)) is not None:
                return Move(State.WAITING, until=until)
            return self.finish(task, REFUSED, f"the claim is not valid any more: {objection}", now)
        task.deadline = None
        if now.monotonic < task.left_until and not comparison.is_given_up(claim.uid):
            return Move(State.WAITING, until=task.left_until)
        reason = f"no other scheduler has bound the pod within {LEFT:g} s"
        self._steps += comparison.give_up(claim, task.node.name, reason)
        return self.finish(task, REFUSED, reason, now)

    def _bind_volumes(self, task: BindTask, now: Now) -> Move | None:
        """Request the volumes of a pod and wait, or refuse the claim; return None if they are bound.

        Others of the node need not wait for the pod. A volume may be lost after it was bound: each binding looks again.
        """
        claim, view = task.claim, self.facts.nodes.views[task.node.name]
        assert view is not None
        if not task.volumes_bound and (objection := self.facts.objection(task)):
            return self._object(task, objection, now)
        if task.volumes_until is None:
            task.volumes_until = now.monotonic + self.facts.volume_timeout
        found = self.facts.volumes.progress(task, view)
        if not (found.failed or found.unknown or found.open):
            if not task.volumes_bound:
                task.volumes_bound, task.deadline = True, None
            return None
        task.volumes_bound = False
        waits = (found.failed and found.doubtful) or (not found.failed and found.unknown)
        if waits and (until := task.grace(now.monotonic, GRACE)) is not None:
            return self._wait_until(until, task, now)
        if found.failed or found.unknown:
            return self.fence(task, Verdict(REFUSED, found.failed or f"there is no {found.unknown}", sure=False))
        if now.monotonic >= task.volumes_until:
            names = ", ".join(binding.claim for binding in found.open)
            reason = f"PersistentVolumeClaims were not bound within {self.facts.volume_timeout:g} s: {names}"
            return self.fence(task, Verdict(REFUSED, reason, sure=False))
        if task.volume_revisions is None or found.vanished:
            # A volume that vanished may have been deleted, or another claim has it: the cluster knows.
            self.facts.volumes.requested(claim.id)
            return Move(State.BINDING_VOLUMES, commands.BindVolumes(claim.id, found.open))
        task.deadline = None
        return self._wait_until(task.volumes_until, task, now)

    def _allocate_devices(self, task: BindTask, now: Now) -> Move | None:
        """Allocate the ResourceClaims of a pod and wait until its devices can be used, or refuse the claim.

        Returns None if it is done.
        """
        claim, node, devices = task.claim, task.node.name, self.facts.devices
        found = devices.progress(claim, now.wall)
        if found.done:
            return self._await_devices(task, found.binding, now)
        task.devices_seen = None
        if found.doubtful or found.unknown or (found.open and task.devices_written and not found.failed):
            if (until := task.grace(now.monotonic, GRACE)) is not None:
                return self._wait_until(until, task, now)
            task.devices_written, task.deadline = False, None
        if found.failed or found.unknown:
            return self.fence(task, Verdict(REFUSED, found.failed or f"there is no {found.unknown}", sure=False))
        if not found.open:
            if task.devices_until is None:
                task.devices_until = now.monotonic + self.facts.volume_timeout
            if now.monotonic < task.devices_until:  # until then the other pod may go, which no fact of the claim shows
                return self._wait_until(min(task.devices_until, now.monotonic + GRACE), task, now)
            reason = f"{found.waits} was not allocated within {self.facts.volume_timeout:g} s"
            return self.fence(task, Verdict(REFUSED, reason, sure=False))
        if objection := self.facts.objection(task) or devices.objection(claim, node):
            return self._object(task, objection, now)
        request = devices.request(claim, node, found.open, now.wall)
        if isinstance(request, str):
            return self._object(task, request, now)
        return Move(State.ALLOCATING_DEVICES, request)

    def _await_devices(self, task: BindTask, binding: DeviceBinding, now: Now) -> Move | None:
        """Wait until the devices that facts show can be used, or refuse the claim; None: they can be used.

        Of two claims with the same device the one whose pod is not bound is refused, whichever was first. Others that
        allocate had decided before they knew of these devices: what they write within the pause is known after it.
        """
        claim, node, devices, seen = task.claim, task.node.name, self.facts.devices, task.devices_seen
        if problem := devices.conflict(claim, node) or (devices.dropped(claim) if seen is None else ""):
            return self.fence(task, Verdict(REFUSED, problem, sure=False))
        if seen is None:
            seen, task.devices_seen, task.deadline = now.monotonic, now.monotonic, None
            if binding.waits:
                self._steps.append(ConditionsPending(claim, node, binding.waits))
        if binding.waits:
            until = seen + BINDING_TIMEOUT
            if binding.since:  # a former process, or another pod of the claim, may have waited
                until = min(until, now.monotonic + binding.since + BINDING_TIMEOUT - now.wall)
            if now.monotonic < until:
                return self._wait_until(until, task, now)
            return self.fence(task, Verdict(REFUSED, binding.timed_out, sure=False))
        certain = seen + OTHERS
        if now.monotonic < certain and devices.may_be_taken(claim, now.monotonic):
            return self._wait_until(certain, task, now)
        return None

    def _lock(self, task: BindTask, now: Now) -> Move | None:
        """Request the node's lock, or wait for it; return None if the binding need not wait."""
        step = self.locks.next(task.claim, task.node.name, self.facts.nodes.locks(task.node.name), now)
        if step is None:
            return None
        if isinstance(step, commands.LockNode):
            task.lock = step
            self.handoffs.begin(task.node.name, task.claim.uid, task.keys, now.monotonic)
            return Move(State.LOCKING, step)
        return Move(State.WAITING, until=step)

    def _bind(self, task: BindTask, now: Now) -> Move:
        claim, node, pod = task.claim, task.node.name, self.facts.pods[task.claim.uid]
        # Device plugins serve the oldest pod first: no two bindings may have the same time.
        self._last_binding = max(now.wall, self._last_binding + MOMENT)
        try:
            annotations = annotations_of(claim, node, pod, self._last_binding)
        except (InputError, UnknownFamilyError, FamilyError) as error:
            return self.fence(task, Verdict(REFUSED, str(error), sure=False))
        annotations |= sign(self._keys, claim.uid, node, annotations)
        self.handoffs.begin(node, claim.uid, task.keys, now.monotonic)
        request = commands.BindPod(claim.id, claim.namespace, claim.name, claim.uid, node, annotations, pod.revision)
        task.requested_at = task.requested_at or now.wall
        return Move(State.BINDING, request)

    def _read(self, task: BindTask, verdict: Verdict | None) -> Move:
        """Read the pod back; ``verdict``: a fact shows that it is bound."""
        claim, task.verdict = task.claim, verdict
        return Move(State.READING, commands.ReadPod(claim.id, claim.namespace, claim.name, claim.uid))

    def fence(self, task: BindTask, verdict: Verdict) -> Move:
        """Let no binding for the claim succeed any more; ``verdict`` is the claim's outcome if the pod is not bound."""
        claim, task.verdict = task.claim, verdict
        return Move(State.FENCING, commands.FencePod(claim.id, claim.namespace, claim.name, claim.uid))

    def _wait(self, task: BindTask, now: Now) -> Move:
        """Wait for facts, in total no longer than the grace, whatever other facts arrive meanwhile."""
        if (until := task.grace(now.monotonic, GRACE)) is not None:
            return self._wait_until(until, task, now)
        if task.claim.uid in self.facts.pods:
            return self.fence(task, Verdict(REFUSED, f"there is no node {task.node.name}", sure=False))
        return self._read(task, None)

    def _object(self, task: BindTask, objection: str, now: Now) -> Move:
        """Wait for facts that justify a claim: placement may have newer ones. Then refuse the claim.

        Others of the node do not wait for its facts.
        """
        if (until := task.grace(now.monotonic, RECHECK)) is not None:
            return self._wait_until(until, task, now)
        self._steps.append(Rejected(task.claim, task.node.name, objection))
        return self.fence(task, Verdict(REFUSED, f"the claim is not valid: {objection}", sure=False))

    def _wait_until(self, until: float, task: BindTask, now: Now) -> Move:
        self.leave_handoff(task, now)
        return Move(State.WAITING, until=until)

    def leave_handoff(self, task: BindTask, now: Now) -> None:
        """Let others not wait for the handoff of a task that waits, unless a request may still bind its pod."""
        self.handoffs.unhold(task.node.name, task.claim.id, task.claim.uid)
        if not task.unsure and now.monotonic >= task.open_until:
            self.handoffs.not_begun(task.node.name, task.claim.uid)

    def conclude(self, task: BindTask, state: str, reason: str, now: Now) -> Move:
        """Record the outcome of a claim whose pod will not be bound for it; its devices are released before.

        A pod that is bound to another node may use the same ResourceClaims there: they are left to it.
        """
        pod = self.facts.pods.get(task.claim.uid)
        if state == BOUND or not task.claim.devices or (pod is not None and pod.node):
            return self.finish(task, state, reason, now)
        task.concluded = Verdict(state, reason, sure=True)
        return Move(State.RELEASING_DEVICES, self.facts.devices.release(task.claim))

    def finish(self, task: BindTask, state: str, reason: str, now: Now) -> Move:
        """Record the outcome of a task's claim."""
        claim, node = task.claim, task.node
        if state != BOUND:
            self.handoffs.not_begun(node.name, claim.uid)
        if node.is_new(claim, state):
            holds = node.holds(claim)
            if holds:
                trace = task.trace(now.wall) if state == BOUND else None
                self._outcomes.finish(node, Outcome(claim.id, claim.uid, state, reason, now.wall), now.monotonic, trace)
            if holds or state == BOUND:
                self._finished.append(Finished(claim, node.name, state, reason))
        return self.end(task)

    def end(self, task: BindTask) -> Move:
        """End a task; its claim is no longer held."""
        self.facts.volumes.forget(task.claim.id)
        self.handoffs.unhold(task.node.name, task.claim.id, task.claim.uid)
        return END
