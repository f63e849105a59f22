"""Why pods wait for their queues, by what the queues hold now.

Placement decides a waiting pod again only when something may have made room for it, so that its reason is as old as its
last decision. What a queue holds is known here: all of its pods, and the queue itself, are shown with one amount.
"""

from collections.abc import Iterable, Mapping, Sequence

from deviceshare.model import PENDING, Explanation
from deviceshare.queueing import DESERVED, LIMIT_OF_CODE, Queues, Shortage
from msgspec.structs import replace

from deviceshare_metrics import api
from deviceshare_metrics.core.state_store import StateStore


def has_queue_reasons(store: StateStore, pods: Iterable[api.Pod]) -> bool:
    """Return whether one of these pods waits for its queue."""
    return any(_waits_for_queue(_explanation(store, pod)) for pod in pods)


def with_queue_reasons(store: StateStore, pods: Sequence[api.Pod], accounts: Queues) -> tuple[api.Pod, ...]:
    """Return the pods, those that wait for their queue with a reason that is current."""
    return tuple(_current_pod(store, pod, accounts) for pod in pods)


def with_queue_state(
    store: StateStore,
    answer: api.PodExplanation,
    accounts: Queues,
    positions: Mapping[str, api.QueuePosition],
    now: float,
) -> api.PodExplanation:
    """Return an answer about a pod with its position, and with what its queue holds ``now`` (unix seconds).

    The reason is the given one if the pod waits for something else or its queue has room for it meanwhile.
    """
    if (pod := answer.pod) is None:
        return answer
    answer = replace(answer, position=positions.get(pod.uid))
    explanation, of_reason = answer.explanation, _explanation(store, pod)
    if explanation is None or of_reason is None or (shortage := _shortage(explanation, accounts)) is None:
        return answer
    current = replace(explanation, message=_message(explanation, shortage), refusals=(shortage.refusal,), at=now)
    return replace(answer, pod=_current_pod(store, pod, accounts), explanation=current)


def _current_pod(store: StateStore, pod: api.Pod, accounts: Queues) -> api.Pod:
    explanation = _explanation(store, pod)
    if explanation is None or (shortage := _shortage(explanation, accounts)) is None:
        return pod
    return replace(pod, reason=_message(explanation, shortage), reason_at=0.0)


def _explanation(store: StateStore, pod: api.Pod) -> Explanation | None:
    """Return the explanation that the reason of a pod is from."""
    history = store.histories.get(pod.uid) if pod.reason_at else None
    return history.explanation if history is not None else None


def _waits_for_queue(explanation: Explanation | None) -> bool:
    """Return whether a pod waits for its queue alone; not for the admission of its PodGroup, which has no account."""
    if explanation is None or explanation.decision != PENDING or len(explanation.refusals) != 1:
        return False
    (refusal,) = explanation.refusals
    return refusal.code in LIMIT_OF_CODE and refusal.used is not None


def _shortage(explanation: Explanation, accounts: Queues) -> Shortage | None:
    """Return the limit that keeps a pod waiting now, None if it waits for something else or its queue has room."""
    if not _waits_for_queue(explanation):
        return None
    borrowing = LIMIT_OF_CODE[explanation.refusals[0].code] != DESERVED
    return accounts.shortage(explanation.uid, borrowing=borrowing)


def _message(explanation: Explanation, shortage: Shortage) -> str:
    return f"{explanation.gang}: {shortage}" if explanation.gang else str(shortage)
