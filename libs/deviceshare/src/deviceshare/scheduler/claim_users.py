"""The waiting pods that use PersistentVolumeClaims, by claim."""

from collections import defaultdict
from collections.abc import Iterable

from deviceshare.model import PodFact


class ClaimUsers:
    """Which waiting pods a change of a claim, or of its volume, may help."""

    def __init__(self) -> None:
        self._pods: defaultdict[str, set[str]] = defaultdict(set)
        """By claim (``namespace/name``) the uids of the pods that use it; never empty."""
        self._claims: dict[str, tuple[str, ...]] = {}
        """By uid the claims of a pod."""

    def put(self, fact: PodFact) -> None:
        """Apply a pod that was added or changed."""
        waits = bool(fact.ask.volumes) and not (fact.node or fact.ended)
        claims = tuple(use.claim for use in fact.volume_uses) if waits else ()
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
