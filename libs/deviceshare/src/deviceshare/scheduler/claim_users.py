"""The waiting pods that use PersistentVolumeClaims, or ResourceClaims, by claim."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from deviceshare.model import PodFact


def volume_claims(fact: PodFact) -> tuple[str, ...]:
    """Return the PersistentVolumeClaims of a pod."""
    return tuple(use.claim for use in fact.volume_uses) if fact.ask.volumes else ()


def device_claims(fact: PodFact) -> tuple[str, ...]:
    """Return the ResourceClaims of a pod."""
    return tuple(each.claim for each in fact.device_claims)


class ClaimUsers:
    """Which waiting pods a change of a claim may help; ``claims_of``: the claims of a pod."""

    def __init__(self, claims_of: Callable[[PodFact], tuple[str, ...]]) -> None:
        self._claims_of = claims_of
        self._pods: defaultdict[str, set[str]] = defaultdict(set)
        """By claim (``namespace/name``) the uids of the pods that use it; never empty."""
        self._claims: dict[str, tuple[str, ...]] = {}
        """By uid the claims of a pod."""

    def put(self, fact: PodFact) -> None:
        """Apply a pod that was added or changed."""
        claims = () if fact.node or fact.ended else self._claims_of(fact)
        if claims == self._claims.get(fact.uid, ()):
            return
        self.drop(fact.uid)
        if claims:
            self._claims[fact.uid] = claims
        for claim in claims:
            self._pods[claim].add(fact.uid)

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        for claim in set(self._claims.pop(uid, ())):
            pods = self._pods[claim]
            pods.discard(uid)
            if not pods:
                del self._pods[claim]

    def of(self, claims: Iterable[str]) -> list[str]:
        """Return the uids of the pods that use any of these claims, sorted."""
        return sorted({uid for claim in claims for uid in self._pods.get(claim, ())})
