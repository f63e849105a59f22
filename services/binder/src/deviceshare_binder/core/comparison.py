"""Compares decisions with what another scheduler does, while the binder writes nothing to the cluster (``--dry-run``).

A pod that is decided stays claimed until the other scheduler has bound it, so that later decisions are made as if it
were bound as decided. The other scheduler's choice counts from then on.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from deviceshare.model import Claim, ContainerGrant
from deviceshare_bus.cores.core import Command, Count, Log, Now, RecordStep
from deviceshare_bus.messages.codec import COMPARED_PODS

from deviceshare_binder.core.views import PodView

COMPARED = "compared"
"""The step of a pod that another scheduler has bound."""
SAME_CARDS, SAME_NODE, OTHER_NODE = "same_cards", "same_node", "other_node"
"""What the other scheduler did with a pod that was decided: the same, other cards of the node, another node."""
UNDECIDED, UNBOUND = "undecided", "unbound"
"""A pod that it bound without a decision here, and one that was decided and that it did not bind in time."""


class Compared(NamedTuple):
    """A pod that another scheduler has bound, or has not in time: the result, and what it means for people."""

    uid: str
    pod: str
    node: str
    result: str
    message: str


class Comparison:
    """The last decisions about pods that no scheduler has bound yet; ``pods`` are all known pods, by their uid."""

    def __init__(self, pods: Mapping[str, PodView]) -> None:
        self._pods = pods
        self._decided: dict[str, tuple[str, Claim]] = {}
        """Node and claim by the uid of the pod, which is known and waits, or has a claim in a ledger."""
        self._unknown: dict[str, set[str]] = {}
        """The uids of pods that have a claim on a node and are not known: not yet, or not any more."""
        self._given_up: set[str] = set()
        """The uids of known pods that another scheduler has not bound in time."""

    def claims(self, node: str, claims: Iterable[Claim]) -> None:
        """Apply all claims on a node that are not nominated."""
        before, unknown = self._unknown.pop(node, set()), set[str]()
        for claim in claims:
            pod = self._pods.get(claim.uid)
            if pod is not None and pod.node:
                continue
            if claim.withdraw:
                if self._is_decided(claim.uid, node) and claim.uid not in self._given_up:
                    del self._decided[claim.uid]
                continue
            self._decided[claim.uid] = node, claim
            if pod is None:
                unknown.add(claim.uid)
        for uid in before - unknown:
            if uid not in self._pods and self._is_decided(uid, node):
                del self._decided[uid]
        if unknown:
            self._unknown[node] = unknown

    def _is_decided(self, uid: str, node: str) -> bool:
        """Return whether the last decision about a pod is for this node."""
        return uid in self._decided and self._decided[uid][0] == node

    def pod(self, uid: str, before: PodView | None, pod: PodView | None) -> list[Compared]:
        """Apply a pod's state; return the comparison of a pod that was known before it was bound."""
        if pod is not None and not (pod.node or pod.ended):
            return []
        decided = self._decided.pop(uid, None)
        self._given_up.discard(uid)
        if pod is None or pod.ended or before is None or before.node:
            return []
        return [_compared(pod, decided)]

    def is_given_up(self, uid: str) -> bool:
        """Return whether a pod was not bound in time before: further decisions about it reserve nothing."""
        return uid in self._given_up

    def give_up(self, claim: Claim, node: str, reason: str) -> list[Compared]:
        """Apply that a known pod was not bound in time; return what to record, once for each pod and process."""
        if claim.uid in self._given_up:
            return []
        self._given_up.add(claim.uid)
        message = f"decided: {_place(node, claim.grants)}; {reason}"
        return [Compared(claim.uid, f"{claim.namespace}/{claim.name}", node, UNBOUND, message)]


def _compared(pod: PodView, decided: tuple[str, Claim] | None) -> Compared:
    message = f"bound by another scheduler to {_place(pod.node, pod.held)}"
    if decided is None:
        result, message = UNDECIDED, f"{message}, and no decision was made"
    else:
        node, claim = decided
        same = _cards(claim.grants) == _cards(pod.held)
        result = OTHER_NODE if pod.node != node else SAME_CARDS if same else SAME_NODE
        message += " as decided" if result == SAME_CARDS else f", decided: {_place(node, claim.grants)}"
    return Compared(pod.uid, f"{pod.namespace}/{pod.name}", pod.node, result, message)


def records_of(compared: Compared, now: Now) -> list[Command]:
    """Return the counter, the step and the log line of a comparison."""
    uid, pod, node, result, message = compared
    return [
        Count(f"{COMPARED_PODS}{result}"),
        RecordStep(uid, pod, COMPARED, node=node, message=message, at=now.wall),
        Log("info", f"{pod}: {message}", {"uid": uid, "node": node, "result": result}),
    ]


def _cards(grants: Iterable[ContainerGrant]) -> set[str]:
    """Return the ids of the cards that containers have. What is charged of a card may differ from what is read back."""
    return {at.id for grant in grants for at in grant.devices}


def _place(node: str, grants: Iterable[ContainerGrant]) -> str:
    names = sorted(_cards(grants))
    return f"{node} ({', '.join(names)})" if names else node
