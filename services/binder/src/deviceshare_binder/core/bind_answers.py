"""What the answers of the cluster mean for bind tasks: the transitions of tasks in flight."""

from deviceshare.families import SERVED
from deviceshare.model import BOUND, REFUSED, REFUSED_RETRY, WITHDRAWN
from deviceshare_bus.cores.core import Now

from deviceshare_binder.core import commands
from deviceshare_binder.core.bind_steps import BindSteps
from deviceshare_binder.core.bind_task import QUEUE, RETRY, UNANSWERED, BindTask, Move, State, Verdict
from deviceshare_binder.core.delivery import outcome_of_bound
from deviceshare_binder.core.events import (
    BindAnswered,
    ClaimsAllocated,
    ClaimsReleased,
    LockAnswered,
    PodRead,
    VolumesRequested,
)
from deviceshare_binder.core.locks import AGAIN

Answer = BindAnswered | PodRead | LockAnswered | VolumesRequested | ClaimsAllocated | ClaimsReleased
ANSWERED: dict[type[Answer], set[type[commands.ClaimRequest]]] = {
    BindAnswered: {commands.BindPod},
    PodRead: {commands.ReadPod, commands.FencePod},
    LockAnswered: {commands.LockNode},
    VolumesRequested: {commands.BindVolumes},
    ClaimsAllocated: {commands.AllocateClaims},
    ClaimsReleased: {commands.ReleaseClaims},
}
"""The requests that an event answers."""


def bound(steps: BindSteps, task: BindTask, now: Now, answer: BindAnswered) -> Move:
    """The pod was bound by this request."""
    if (answer.annotations or {}).get(SERVED) == "true":
        steps.handoffs.not_begun(answer.node, task.claim.uid)
    return steps.finish(task, BOUND, "", now)


def bound_before(steps: BindSteps, task: BindTask, now: Now, answer: BindAnswered | PodRead) -> Move:
    """The pod is bound to the claim's node: for this claim if it has the claim's devices."""
    pod = steps.facts.pods.get(task.claim.uid)
    return steps.finish(task, *outcome_of_bound(task.claim, task.node.name, pod, answer.annotations), now)


def bound_elsewhere(steps: BindSteps, task: BindTask, now: Now, answer: BindAnswered | PodRead) -> Move:
    """The pod is bound to another node, where it may use the same ResourceClaims: they are left to it."""
    return steps.finish(task, REFUSED, f"the pod is bound to {answer.node}", now)


def gone(steps: BindSteps, task: BindTask, now: Now, answer: BindAnswered | PodRead) -> Move:
    """The pod does not exist any more."""
    reason = answer.reason if isinstance(answer, BindAnswered) else ""
    return steps.conclude(task, REFUSED, reason or "the pod is gone", now)


def changed(steps: BindSteps, task: BindTask, now: Now, answer: BindAnswered) -> Move:
    """The pod has another revision than the request expected."""
    steps.facts.read(task.claim.uid, answer.revision, answer.annotations)
    # The first change may have been known for long, such as that of a label.
    pause = RETRY.delay(task.changes - 1) if task.changes else 0.0
    task.changes += 1
    return Move(State.BACKING_OFF, until=now.monotonic + pause)


def refused(steps: BindSteps, task: BindTask, now: Now, answer: BindAnswered) -> Move:
    """The API server does not bind the pod."""
    if task.dropped:
        return steps.conclude(task, REFUSED, answer.reason, now)
    return steps.fence(task, Verdict(REFUSED, answer.reason, sure=False))


def unbound(steps: BindSteps, task: BindTask, now: Now, answer: PodRead) -> Move:
    """The pod exists and is not bound."""
    steps.facts.read(task.claim.uid, answer.revision, answer.annotations)
    if task.verdict is not None:  # a fact shows that it is bound
        task.tries += 1
        return Move(State.BACKING_OFF, until=now.monotonic + RETRY.delay(task.tries - 1))
    task.deadline = None  # its fact will arrive
    task.unsure = False
    steps.handoffs.not_begun(task.node.name, task.claim.uid)
    return QUEUE


def fenced(steps: BindSteps, task: BindTask, now: Now, answer: PodRead) -> Move:
    """The pod is not bound to the node and will not be."""
    assert task.verdict is not None
    if answer.node == "":
        steps.facts.read(task.claim.uid, answer.revision, answer.annotations)
    elif task.verdict.state != WITHDRAWN:
        return (gone if answer.node is None else bound_elsewhere)(steps, task, now, answer)
    end = steps.finish if answer.node else steps.conclude
    return end(task, task.verdict.state, task.verdict.reason, now)


def locked(steps: BindSteps, task: BindTask, _: Now, __: LockAnswered) -> Move:
    """The node is locked for the pod."""
    assert task.lock is not None
    steps.locks.taken(task.claim, task.lock)
    return QUEUE


def locked_by_others(steps: BindSteps, task: BindTask, now: Now, _: LockAnswered) -> Move:
    """Others have the lock of the node."""
    steps.handoffs.not_begun(task.node.name, task.claim.uid)
    return Move(State.WAITING, until=now.monotonic + AGAIN)


def volumes_requested(_: BindSteps, task: BindTask, __: Now, answer: VolumesRequested) -> Move:
    """The volumes are requested."""
    task.volume_revisions = {**(task.volume_revisions or {}), **answer.revisions}
    return QUEUE


def volumes_refused(steps: BindSteps, task: BindTask, now: Now, answer: VolumesRequested) -> Move:
    """The volumes cannot be bound as it was decided."""
    if task.dropped:
        return volumes_requested(steps, task, now, answer)
    return steps.fence(task, Verdict(REFUSED, answer.problem, sure=False))


def devices_allocated(_: BindSteps, task: BindTask, __: Now, ___: ClaimsAllocated) -> Move:
    """The ResourceClaims are allocated."""
    task.devices_written, task.deadline = True, None
    return QUEUE


def devices_refused(steps: BindSteps, task: BindTask, _: Now, answer: ClaimsAllocated) -> Move:
    """The ResourceClaims cannot be allocated as it was decided."""
    return steps.fence(task, Verdict(REFUSED, answer.problem, sure=False))


def devices_released(steps: BindSteps, task: BindTask, now: Now, _: ClaimsReleased) -> Move:
    """What was written to the ResourceClaims is taken back."""
    assert task.concluded is not None
    return steps.finish(task, task.concluded.state, task.concluded.reason, now)


def unanswered(steps: BindSteps, task: BindTask, now: Now, jitter: float) -> Move:
    """The cluster did not execute the request, or did not say so: try again later."""
    if task.dropped:
        return steps.end(task)
    task.refused = False
    task.tries += 1
    return Move(State.BACKING_OFF, until=now.monotonic + RETRY.delay(task.tries - 1, jitter))


def binding_unanswered(steps: BindSteps, task: BindTask, now: Now, jitter: float) -> Move:
    """As :func:`unanswered`; the pod may be bound later."""
    task.open_until = now.monotonic + UNANSWERED
    return unanswered(steps, task, now, jitter)


def forbidden(steps: BindSteps, task: BindTask, now: Now, jitter: float) -> Move:
    """The cluster refuses such requests for good: try again later, permissions may be granted."""
    if task.dropped:
        return steps.end(task)
    task.refused = not task.unsure and now.monotonic >= task.open_until
    task.tries += 1
    task.refusals += 1
    steps.leave_handoff(task, now)
    return Move(State.BACKING_OFF, until=now.monotonic + REFUSED_RETRY.delay(task.refusals - 1, jitter))
