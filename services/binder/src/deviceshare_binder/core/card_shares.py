"""The shares of each card that claims and bound pods have: what a further claim has to fit beside."""

from collections.abc import Iterable, Mapping, Sequence

from deviceshare.model import Claim, ContainerGrant
from deviceshare.state import CardShare, shares_by_card

Grants = tuple[ContainerGrant, ...]


class CardShares:
    """The shares of all cards, by node, card and pod; of a pod with a claim those of its claim."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], Grants] = {}
        self._bound: dict[str, tuple[str, Grants]] = {}
        """Node and devices of the bound pods that have some."""
        self._cards: dict[tuple[str, str], dict[str, list[CardShare]]] = {}
        self._counted: dict[tuple[str, str], Grants] = {}

    def set_claims(self, node: str, before: Mapping[str, Claim], after: Mapping[str, Claim]) -> None:
        """Apply all claims on a node, by id."""
        gone = [claim for identity, claim in before.items() if identity not in after and claim.grants]
        for claim in gone:
            self._claims.pop((node, claim.uid), None)
        added = [claim for identity, claim in after.items() if identity not in before and claim.grants]
        for claim in added:
            self._claims[node, claim.uid] = claim.grants
        for uid in {claim.uid for claim in (*gone, *added)}:
            self._count(node, uid)

    def set_bound(self, uid: str, node: str, held: Grants) -> None:
        """Apply a pod's fact; '' or no devices: it holds none."""
        before = self._bound.pop(uid, None)
        if node and held:
            self._bound[uid] = (node, held)
        elif before is None:
            return
        for name in {node, before[0] if before is not None else node} - {""}:
            self._count(name, uid)

    def of_others(self, claim: Claim, node: str) -> dict[str, Sequence[Sequence[CardShare]]]:
        """Return the shares of other pods on each card of a claim."""
        return {
            device.id: [shares for uid, shares in self._cards.get((node, device.id), {}).items() if uid != claim.uid]
            for grant in claim.grants
            for device in grant.devices
        }

    def _count(self, node: str, uid: str) -> None:
        bound = self._bound.get(uid, ("", ()))
        grants = self._claims.get((node, uid)) or (bound[1] if bound[0] == node else ())
        before = self._counted.get((node, uid), ())
        if grants == before:
            return  # as when the pod of a claim is bound
        self._counted.pop((node, uid), None)
        for identity in _cards_of(before):
            of_card = self._cards[node, identity]
            del of_card[uid]
            if not of_card:
                del self._cards[node, identity]
        if grants:
            self._counted[node, uid] = grants
            for identity, shares in shares_by_card(grants).items():
                self._cards.setdefault((node, identity), {})[uid] = shares


def _cards_of(grants: Iterable[ContainerGrant]) -> set[str]:
    return {device.id for grant in grants for device in grant.devices}
