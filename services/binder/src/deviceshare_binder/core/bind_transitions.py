"""The transitions of bind tasks: what happens to a task in each of its states, and where that leads.

:data:`TRANSITIONS` is the whole: the functions are in :mod:`.bind_steps` (its turn) and :mod:`.bind_answers`
(answers of the cluster). :func:`advance` applies it; nothing else changes the state of a task.
"""

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any, NamedTuple

from deviceshare_bus.cores.core import Now
from deviceshare_cluster.interface import BindState

from deviceshare_binder.core import bind_answers
from deviceshare_binder.core.bind_answers import Answer
from deviceshare_binder.core.bind_steps import BindSteps
from deviceshare_binder.core.bind_task import END, IN_FLIGHT, QUEUE, TIMED, BindTask, Move, State
from deviceshare_binder.core.events import BindAnswered, ClaimsAllocated, ClaimsReleased, LockAnswered, PodRead


class TaskEvent(StrEnum):
    """What may happen to a bind task."""

    TURN = "it is its turn"
    POD_CHANGED = "its pod or its claim changed"
    NODE_CHANGED = "its node changed"
    USED_CHANGED = "a volume or ResourceClaim of it changed"
    TIMER = "its time has come"
    FREED = "the handoff that it waits for has ended"
    UNPARKED = "its pod's other claim was answered, or its node resumed"
    DROPPED = "its claim is not to be bound here any more"
    BOUND = "the pod was bound"
    BOUND_BEFORE = "the pod is bound to the node"
    BOUND_ELSEWHERE = "the pod is bound to another node"
    UNBOUND = "the pod is not bound"
    GONE = "the pod is gone"
    CHANGED = "the pod has another revision"
    REFUSED = "the binding is refused"
    LOCKED = "the node is locked for the pod"
    LOCKED_BY_OTHERS = "others have the lock"
    VOLUMES_REQUESTED = "the volumes are requested"
    VOLUMES_REFUSED = "the volumes are refused"
    DEVICES_ALLOCATED = "the devices are allocated"
    DEVICES_REFUSED = "the devices are refused"
    DEVICES_RELEASED = "the devices are released"
    UNANSWERED = "the request has no answer"
    FORBIDDEN = "the request is forbidden"


class Transition(NamedTuple):
    """What an event does to a task in one of these states.

    The function returns the next state, one of ``leads_to``; None: the task stays in its state.
    """

    event: TaskEvent
    states: Collection[State]
    function: Callable[[BindSteps, BindTask, Now, Any], Move | None]
    leads_to: Collection[State] = ()


def stay(_: BindSteps, __: BindTask, ___: Now, ____: None) -> None:
    """Nothing: the next turn, or the answer, takes account of it."""


def impossible(*_: Any) -> Move:
    """It does not happen in this state: it leads to none."""
    return END


def queue(_: BindSteps, __: BindTask, ___: Now, ____: None) -> Move:
    """It is judged again at its turn."""
    return QUEUE


def resume(_: BindSteps, __: BindTask, ___: Now, ____: None) -> Move:
    """It begins before all others."""
    return Move(State.QUEUED, first=True)


def queue_if_judged(steps: BindSteps, task: BindTask, _: Now, __: None) -> Move | None:
    """It need not wait for a handoff if the facts imply its outcome."""
    if steps.facts.judge(task) is None:
        return None
    steps.handoffs.unhold(task.node.name, task.claim.id, task.claim.uid)
    return QUEUE


def queue_unless_refused(_: BindSteps, task: BindTask, __: Now, ___: None) -> Move | None:
    """It is not tried sooner for this if the cluster refused its request for good."""
    return None if task.is_refused else QUEUE


def queue_unless_refused_or_judged(steps: BindSteps, task: BindTask, now: Now, _: None) -> Move | None:
    """A refused task would take the node's lock again as soon as the node shows that it is free."""
    return QUEUE if steps.facts.judge(task) is not None else queue_unless_refused(steps, task, now, None)


def end(steps: BindSteps, task: BindTask, _: Now, __: None) -> Move:
    """There is nothing to do for the claim."""
    return steps.end(task)


_S, _E, _A = State, TaskEvent, bind_answers
_ALL = frozenset(State) - {_S.ENDED}
_READS = frozenset({_S.READING, _S.FENCING})
_AGAIN = {_S.BACKING_OFF, _S.ENDED}
_OUTCOME = {_S.RELEASING_DEVICES, _S.ENDED}
TRANSITIONS = (
    Transition(_E.TURN, {_S.QUEUED}, BindSteps.begin, {_S.PARKED, _S.WAITING, _S.HELD, *IN_FLIGHT, _S.ENDED}),
    Transition(_E.TURN, _ALL - {_S.QUEUED}, impossible),
    Transition(_E.POD_CHANGED, TIMED, queue, {_S.QUEUED}),
    Transition(_E.POD_CHANGED, {_S.HELD}, queue_if_judged, {_S.QUEUED}),
    Transition(_E.POD_CHANGED, {_S.QUEUED, _S.PARKED, *IN_FLIGHT}, stay),
    Transition(_E.NODE_CHANGED, {_S.WAITING}, queue, {_S.QUEUED}),
    Transition(_E.NODE_CHANGED, {_S.BACKING_OFF}, queue_unless_refused_or_judged, {_S.QUEUED}),
    Transition(_E.NODE_CHANGED, {_S.HELD}, queue_if_judged, {_S.QUEUED}),
    Transition(_E.NODE_CHANGED, {_S.QUEUED, _S.PARKED, *IN_FLIGHT}, stay),
    Transition(_E.USED_CHANGED, {_S.WAITING}, queue, {_S.QUEUED}),
    Transition(_E.USED_CHANGED, {_S.BACKING_OFF}, queue_unless_refused, {_S.QUEUED}),
    Transition(_E.USED_CHANGED, {_S.HELD}, queue_if_judged, {_S.QUEUED}),
    Transition(_E.USED_CHANGED, {_S.QUEUED, _S.PARKED, *IN_FLIGHT}, stay),
    Transition(_E.TIMER, TIMED, queue, {_S.QUEUED}),
    Transition(_E.TIMER, _ALL - TIMED, impossible),
    Transition(_E.FREED, {_S.HELD}, resume, {_S.QUEUED}),
    Transition(_E.FREED, _ALL - {_S.HELD}, impossible),
    Transition(_E.UNPARKED, {_S.PARKED}, queue, {_S.QUEUED}),
    Transition(_E.UNPARKED, _ALL - {_S.PARKED}, stay),
    Transition(_E.DROPPED, _ALL - IN_FLIGHT, end, {_S.ENDED}),
    Transition(_E.DROPPED, IN_FLIGHT, stay),
    Transition(_E.BOUND, {_S.BINDING}, _A.bound, {_S.ENDED}),
    Transition(_E.BOUND, _ALL - {_S.BINDING}, impossible),
    Transition(_E.BOUND_BEFORE, {_S.BINDING, *_READS}, _A.bound_before, {_S.ENDED}),
    Transition(_E.BOUND_BEFORE, _ALL - {_S.BINDING, *_READS}, impossible),
    Transition(_E.BOUND_ELSEWHERE, {_S.BINDING, _S.READING}, _A.bound_elsewhere, {_S.ENDED}),
    Transition(_E.BOUND_ELSEWHERE, {_S.FENCING}, _A.fenced, {_S.ENDED}),
    Transition(_E.BOUND_ELSEWHERE, _ALL - {_S.BINDING, *_READS}, impossible),
    Transition(_E.UNBOUND, {_S.READING}, _A.unbound, {_S.QUEUED, _S.BACKING_OFF}),
    Transition(_E.UNBOUND, {_S.FENCING}, _A.fenced, _OUTCOME),
    Transition(_E.UNBOUND, _ALL - _READS, impossible),
    Transition(_E.GONE, {_S.BINDING, _S.READING}, _A.gone, _OUTCOME),
    Transition(_E.GONE, {_S.FENCING}, _A.fenced, _OUTCOME),
    Transition(_E.GONE, _ALL - {_S.BINDING, *_READS}, impossible),
    Transition(_E.CHANGED, {_S.BINDING}, _A.changed, {_S.BACKING_OFF}),
    Transition(_E.CHANGED, _ALL - {_S.BINDING}, impossible),
    Transition(_E.REFUSED, {_S.BINDING}, _A.refused, {_S.FENCING, *_OUTCOME}),
    Transition(_E.REFUSED, _ALL - {_S.BINDING}, impossible),
    Transition(_E.LOCKED, {_S.LOCKING}, _A.locked, {_S.QUEUED}),
    Transition(_E.LOCKED, _ALL - {_S.LOCKING}, impossible),
    Transition(_E.LOCKED_BY_OTHERS, {_S.LOCKING}, _A.locked_by_others, {_S.WAITING}),
    Transition(_E.LOCKED_BY_OTHERS, _ALL - {_S.LOCKING}, impossible),
    Transition(_E.VOLUMES_REQUESTED, {_S.BINDING_VOLUMES}, _A.volumes_requested, {_S.QUEUED}),
    Transition(_E.VOLUMES_REQUESTED, _ALL - {_S.BINDING_VOLUMES}, impossible),
    Transition(_E.VOLUMES_REFUSED, {_S.BINDING_VOLUMES}, _A.volumes_refused, {_S.QUEUED, _S.FENCING}),
    Transition(_E.VOLUMES_REFUSED, _ALL - {_S.BINDING_VOLUMES}, impossible),
    Transition(_E.DEVICES_ALLOCATED, {_S.ALLOCATING_DEVICES}, _A.devices_allocated, {_S.QUEUED}),
    Transition(_E.DEVICES_ALLOCATED, _ALL - {_S.ALLOCATING_DEVICES}, impossible),
    Transition(_E.DEVICES_REFUSED, {_S.ALLOCATING_DEVICES}, _A.devices_refused, {_S.FENCING}),
    Transition(_E.DEVICES_REFUSED, _ALL - {_S.ALLOCATING_DEVICES}, impossible),
    Transition(_E.DEVICES_RELEASED, {_S.RELEASING_DEVICES}, _A.devices_released, {_S.ENDED}),
    Transition(_E.DEVICES_RELEASED, _ALL - {_S.RELEASING_DEVICES}, impossible),
    Transition(_E.UNANSWERED, {_S.BINDING}, _A.binding_unanswered, _AGAIN),
    Transition(_E.UNANSWERED, IN_FLIGHT - {_S.BINDING}, _A.unanswered, _AGAIN),
    Transition(_E.UNANSWERED, _ALL - IN_FLIGHT, impossible),
    Transition(_E.FORBIDDEN, IN_FLIGHT, _A.forbidden, _AGAIN),
    Transition(_E.FORBIDDEN, _ALL - IN_FLIGHT, impossible),
)
"""What happens in each state. A pair of a state and an event is in exactly one row."""
TABLE = {(state, transition.event): transition for transition in TRANSITIONS for state in transition.states}


def advance(steps: BindSteps, task: BindTask, event: TaskEvent, now: Now, answer: Answer | float | None = None) -> None:
    """Let an event change the state of a task; ``answer`` is the cluster's, or the jitter of the next attempt.

    Raises:
        AssertionError: the event is impossible in this state, or leads to a state that the table does not name.
    """
    transition = TABLE[task.state, event]
    move = transition.function(steps, task, now, answer)
    if move is None:
        return
    if move.state not in transition.leads_to:
        raise AssertionError(f"the task of {task.claim.id} is {task.state}: {event}")
    if task.state in IN_FLIGHT:
        for other in steps.tasks.of_pod(task.claim.uid):
            if other is not task:
                advance(steps, other, TaskEvent.UNPARKED, now)
    steps.tasks.move(task, move)
    if move.request is not None:
        steps.add(move.request)


_OF_BINDING = {
    BindState.BOUND: TaskEvent.BOUND,
    BindState.CHANGED: TaskEvent.CHANGED,
    BindState.REFUSED: TaskEvent.REFUSED,
    BindState.GONE: TaskEvent.GONE,
}


def event_of(answer: Answer, task: BindTask) -> TaskEvent:
    """Return what happens to a task in flight by an answer."""
    match answer:
        case BindAnswered() if answer.state is not BindState.ALREADY:
            return _OF_BINDING[answer.state]
        case PodRead(node=None):
            return TaskEvent.GONE
        case PodRead(node=""):
            return TaskEvent.UNBOUND
        case BindAnswered(node=node) | PodRead(node=node):
            return TaskEvent.BOUND_BEFORE if node == task.node.name else TaskEvent.BOUND_ELSEWHERE
        case LockAnswered(value=value):
            taken = task.lock is not None and value == task.lock.value
            return TaskEvent.LOCKED if taken else TaskEvent.LOCKED_BY_OTHERS
        case ClaimsAllocated(problem=problem):
            return TaskEvent.DEVICES_REFUSED if problem else TaskEvent.DEVICES_ALLOCATED
        case ClaimsReleased():
            return TaskEvent.DEVICES_RELEASED
        case _:
            return TaskEvent.VOLUMES_REFUSED if answer.problem else TaskEvent.VOLUMES_REQUESTED
