"""The pods in whose place nominated pods come, and the claims that wait for them, grouped as they change."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from deviceshare.model import Claim, Eviction

ClaimOnNode = tuple[str, str]
"""A node and the id of a claim: ledgers that contradict each other may have one id twice."""


@dataclass
class Nomination:
    """The claims of one decision, which wait for the same pods to go, and the evictions of these pods."""

    waits_for: tuple[str, ...]
    claims: dict[ClaimOnNode, Claim] = field(default_factory=dict)
    """As they were when they began to wait."""
    evictions: Mapping[str, tuple[Eviction, str]] = field(default_factory=dict)
    """Those that belong to the claims, by the uid of the pod, with its node."""

    @property
    def first(self) -> ClaimOnNode:
        """Its first claim: that with the least id."""
        return min(self.claims, key=lambda each: (each[1], each[0]))

    @property
    def nodes(self) -> set[str]:
        """The nodes whose ledgers are about it."""
        return {node for node, _ in self.claims} | {node for _, node in self.evictions.values()}


class GoingPods:
    """The pods that have to go, and the nominations that wait for them: bounded by the ledgers."""

    def __init__(self) -> None:
        self._claims: dict[str, set[ClaimOnNode]] = {}
        """By the uid of a pod, the claims that wait for it."""
        self._waits_for: dict[ClaimOnNode, tuple[str, ...]] = {}
        """By the claim that waits, the uids of the pods."""
        self._nominations: dict[tuple[str, ...], Nomination] = {}
        self._evictions: dict[str, dict[str, Eviction]] = {}
        """By the uid of a pod and its node, the evictions of the ledgers."""
        self.version = 0
        """Grows with every change of a nomination."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._claims

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    @property
    def nominations(self) -> list[Nomination]:
        """The nominations, in the order of their first claims."""
        return sorted(self._nominations.values(), key=lambda each: each.first[::-1])

    def set_evictions(self, node: str, before: Iterable[str], after: Mapping[str, Eviction]) -> None:
        """Make these the evictions of a node by the uid of the pod; ``before``: the uids of those that it had."""
        for uid in before:
            self._evictions[uid].pop(node, None)
            if not self._evictions[uid]:
                del self._evictions[uid]
        for uid, eviction in after.items():
            self._evictions.setdefault(uid, {})[node] = eviction
        for waits_for in {self._waits_for[each] for uid in (*before, *after) for each in self._claims.get(uid, ())}:
            self._group_evictions(self._nominations[waits_for])

    def change(self, node: str, claim_id: str, claim: Claim | None) -> set[str]:
        """Apply a claim on a node, None: it is gone; return the pods that go since then, or no more."""
        key = (node, claim_id)
        before = self._waits_for.pop(key, ())
        self.version += 1
        after = claim.waits_for if claim is not None else ()
        changed = set[str]()
        for uid in set(before).difference(after):
            self._claims[uid].discard(key)
            if not self._claims[uid]:
                del self._claims[uid]
                changed.add(uid)
        for uid in set(after).difference(before):
            if uid not in self._claims:
                self._claims[uid] = set()
                changed.add(uid)
            self._claims[uid].add(key)
        if before:
            nomination = self._nominations[before]
            del nomination.claims[key]
            if nomination.claims:
                self._group_evictions(nomination)
            else:
                del self._nominations[before]
        if claim is not None and after:
            self._waits_for[key] = after
            nomination = self._nominations.setdefault(after, Nomination(after))
            nomination.claims[key] = claim
            self._group_evictions(nomination)
        return changed

    def _group_evictions(self, nomination: Nomination) -> None:
        self.version += 1
        ids = {claim_id for _, claim_id in nomination.claims}
        nomination.evictions = {
            uid: (eviction, node)
            for uid in nomination.waits_for
            for node, eviction in self._evictions.get(uid, {}).items()
            if eviction.claim in ids
        }
