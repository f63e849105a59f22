"""What a user sees who may list the pods of some namespaces only. Pure.

Nodes, cards and queues are shown with their whole usage. Pods, claims, steps and explanations of other namespaces are
left out, and texts do not name them: a reference ``namespace/name`` to any namespace that is not visible becomes
:data:`HIDDEN`, whether it exists or not, and so do uids of hidden pods.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from deviceshare.model import Explanation, Refusal
from msgspec.structs import replace

from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import NodeDetail, PodEvent, Queue
from deviceshare_metrics.core.state_store import StateStore

HIDDEN = "(hidden)"
"""Stands in texts for a pod, PodGroup or Job of a namespace that is not visible."""
_REFERENCE = re.compile(
    r"(?<![\w.-])(?P<namespace>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/[A-Za-z0-9](?:[-.\w]*\w)?(?![\w-])"
)
"""A namespace has no dots: names of resources (``nvidia.com/gpu``) are no references. A name may end a sentence."""
_NUMBERS = re.compile(r"\d+/\d+")
_UID = re.compile(r"(?<![\w-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w-])")
"""Ids of cards (``GPU-…``) are no uids."""


_OfPods = TypeVar("_OfPods", api.Device, api.DriverDevices)


class Visibility(NamedTuple):
    """The namespaces whose pods a user sees; None: all of them."""

    namespaces: frozenset[str] | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing is hidden."""
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """Return whether the pods of a namespace are visible."""
        return self.namespaces is None or namespace in self.namespaces

    def names(self, reference: str) -> bool:
        """Return whether ``namespace/name`` is visible."""
        return self.sees(reference.partition("/")[0])

    def text(self, text: str, own: Iterable[str] = ()) -> str:
        """Return a text without references to what is hidden; ``own`` are the uids that may be shown."""
        if self.namespaces is None or not text:
            return text

        def reference(found: re.Match[str]) -> str:
            shown = self.sees(found["namespace"]) or _NUMBERS.fullmatch(found[0]) is not None
            return found[0] if shown else HIDDEN

        text = _REFERENCE.sub(reference, text)
        known = frozenset(own)
        return _UID.sub(lambda found: found[0] if found[0] in known else HIDDEN, text)


EVERYTHING = Visibility()


def namespaces_of(store: StateStore) -> frozenset[str]:
    """Return the namespaces that have pods or PodGroups, or had pods that are remembered."""
    found = {pod.namespace for pod in store.pods.values()} | {pod.namespace for pod in store.others.values()}
    found |= {group.key.partition("/")[0] for group in store.groups.values()}
    found |= {claim.namespace for ledger in store.ledgers.values() for claim in ledger.claims}
    return frozenset(found | {history.pod.partition("/")[0] for history in store.histories.values()})


def visible(items: Sequence[Any], visibility: Visibility) -> Sequence[Any]:
    """Return what a user sees of a list of the JSON API."""
    if visibility.everything:
        return items
    return [shown for item in items if (shown := shown_item(item, visibility)) is not None]


def shown_item(item: Any, visibility: Visibility) -> Any:
    """Return what a user sees of an item of the JSON API, None if it is hidden."""
    show = _SHOW[type(item)]
    return item if visibility.everything else show(item, visibility)


def visible_store(store: StateStore, visibility: Visibility) -> StateStore:
    """Return a store with the pods, PodGroups, claims and histories that a user sees, to count them."""
    if visibility.everything:
        return store
    return replace(
        store,
        pods={key: pod for key, pod in store.pods.items() if visibility.sees(pod.namespace)},
        others={key: pod for key, pod in store.others.items() if visibility.sees(pod.namespace)},
        groups={key: group for key, group in store.groups.items() if visibility.names(group.key)},
        ledgers={
            key: replace(ledger, claims=tuple(claim for claim in ledger.claims if visibility.sees(claim.namespace)))
            for key, ledger in store.ledgers.items()
        },
        histories={uid: history for uid, history in store.histories.items() if visibility.names(history.pod)},
    )


def _texts(texts: Iterable[str], visibility: Visibility, *own: str) -> tuple[str, ...]:
    return tuple(visibility.text(text, own) for text in texts)


def _node(node: api.Node, visibility: Visibility) -> api.Node:
    problems = _texts(node.problems, visibility)
    return node if problems == node.problems else replace(node, problems=problems)


def _device(device: _OfPods, visibility: Visibility) -> _OfPods:
    pods = tuple(pod for pod in device.pods if visibility.names(pod))
    return device if len(pods) == len(device.pods) else replace(device, pods=pods)


def _card(card: api.Device, visibility: Visibility) -> api.Device:
    seen = _device(card, visibility)
    return seen if seen is card else replace(seen, owners=tuple(filter(visibility.names, seen.owners)))


def _pod(pod: api.Pod, visibility: Visibility) -> api.Pod | None:
    if not visibility.sees(pod.namespace):
        return None
    reason = None if pod.reason is None else visibility.text(pod.reason, (pod.uid,))
    group = (
        pod.group if "/" not in pod.group or visibility.names(pod.group) or pod.group == f"pod/{pod.uid}" else HIDDEN
    )
    return replace(pod, reason=reason, problems=_texts(pod.problems, visibility, pod.uid), group=group)


def _claim(claim: api.Claim, visibility: Visibility) -> api.Claim | None:
    if not visibility.sees(claim.namespace):
        return None
    return replace(claim, reason=visibility.text(claim.reason, (claim.uid,)))


def _queue(queue: Queue, visibility: Visibility) -> Queue:
    return replace(queue, problems=_texts(queue.problems, visibility), obstacle=visibility.text(queue.obstacle))


def _event(event: PodEvent, visibility: Visibility) -> PodEvent | None:
    return (
        replace(event, message=visibility.text(event.message, (event.uid,)))
        if visibility.sees(event.namespace)
        else None
    )


def _detail(detail: NodeDetail, visibility: Visibility) -> NodeDetail:
    return NodeDetail(
        node=_node(detail.node, visibility),
        devices=tuple(visible(detail.devices, visibility)),
        pods=tuple(visible(detail.pods, visibility)),
        claims=tuple(visible(detail.claims, visibility)),
        drivers=tuple(visible(detail.drivers, visibility)),
    )


def _step(step: api.PodStep, visibility: Visibility) -> api.PodStep:
    return replace(step, message=visibility.text(step.message))


def _pod_explanation(answer: api.PodExplanation, visibility: Visibility) -> api.PodExplanation:
    return replace(
        answer,
        pod=None if answer.pod is None else _pod(answer.pod, visibility),
        explanation=None if answer.explanation is None else _explanation(answer.explanation, visibility),
        steps=tuple(_step(step, visibility) for step in answer.steps),
    )


def _explanation(explanation: Explanation, visibility: Visibility) -> Explanation:
    own = (explanation.uid,)
    return replace(
        explanation,
        message=visibility.text(explanation.message, own),
        refusals=_refusals(explanation.refusals, visibility),
        first_failing=_refusals(explanation.first_failing, visibility),
        why=_texts(explanation.why, visibility, *own),
        gang=visibility.text(explanation.gang, own),
        gang_reason=visibility.text(explanation.gang_reason, own),
        caveats=_texts(explanation.caveats, visibility, *own),
        kept_for=_texts(explanation.kept_for, visibility),
        closest=tuple(replace(node, refusals=_refusals(node.refusals, visibility)) for node in explanation.closest),
    )


def _refusals(refusals: Iterable[Refusal], visibility: Visibility) -> tuple[Refusal, ...]:
    return tuple(replace(refusal, text=visibility.text(refusal.text)) for refusal in refusals)


_SHOW: dict[type, Callable[[Any, Visibility], Any]] = {
    api.Node: _node,
    api.Device: _card,
    api.DriverDevices: _device,
    api.Pod: _pod,
    api.Claim: _claim,
    Queue: _queue,
    PodEvent: _event,
    NodeDetail: _detail,
    api.PodExplanation: _pod_explanation,
}
