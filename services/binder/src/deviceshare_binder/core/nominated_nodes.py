"""Nominated claims: ``status.nominatedNodeName`` of their pods, for autoscalers and people; nothing reads it back."""

from collections.abc import Callable
from typing import NamedTuple

from deviceshare.model import Claim

from deviceshare_binder.core.commands import Nominate
from deviceshare_binder.core.facts import Facts
from deviceshare_binder.core.outcomes import NodeClaims, is_nominated


class Nominated(NamedTuple):
    """A claim is nominated."""

    claim: Claim
    node: str


class NominatedNodes:
    """The nominated claims on the nodes of this replica, and those that were and whose pods are not bound.

    Args:
        facts: the known pods.
        owns: whether this replica works for a node.
    """

    def __init__(self, facts: Facts, owns: Callable[[str], bool]) -> None:
        self._facts = facts
        self._owns = owns
        self._claims: dict[str, dict[str, Claim]] = {}
        """By node and id."""

    def reconcile(self, node: NodeClaims) -> list[Nominated | Nominate]:
        """Apply the claims on a node; return what is new, and the writes."""
        owned, known = self._owns(node.name), self._claims.pop(node.name, {})
        now = {
            claim.id: claim for claim in node.ledger.values() if owned and (is_nominated(claim) or claim.id in known)
        }
        if now:
            self._claims[node.name] = now
        out: list[Nominated | Nominate] = []
        for claim in now.values():
            if claim.id not in known:
                out += [Nominated(claim, node.name), _write(claim, node.name)]
        for claim in known.values():
            pod = self._facts.pods.get(claim.uid)
            if owned and claim.id not in now and pod is not None and not pod.node:
                out.append(_write(claim, node.name, withdraw=True))
        return out


def _write(claim: Claim, node: str, *, withdraw: bool = False) -> Nominate:
    return Nominate(namespace=claim.namespace, name=claim.name, uid=claim.uid, node=node, withdraw=withdraw)
