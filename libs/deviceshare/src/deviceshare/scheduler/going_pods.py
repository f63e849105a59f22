"""The pods in whose place nominated pods come, and the claims that wait for them."""

from collections.abc import Iterable, Iterator

ClaimOnNode = tuple[str, str]
"""A node and the id of a claim: ledgers that contradict each other may have one id twice."""


class GoingPods:
    """The claims that wait, by the pods that have to go for them: bounded by the ledgers."""

    def __init__(self) -> None:
        self._claims: dict[str, set[ClaimOnNode]] = {}
        """By the uid of a pod, the claims that wait for it."""
        self._waits_for: dict[ClaimOnNode, frozenset[str]] = {}
        """By the claim that waits, the uids of the pods."""

    def __contains__(self, uid: object) -> bool:
        return uid in self._claims

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def claims(self) -> Iterator[ClaimOnNode]:
        """Yield the claims that wait."""
        return iter(self._waits_for)

    def change(self, claim: ClaimOnNode, waits_for: Iterable[str]) -> set[str]:
        """Apply that a claim waits for other pods, or for none; return the pods that go since then, or no more."""
        before, after = self._waits_for.pop(claim, frozenset()), frozenset(waits_for)
        changed = set[str]()
        for uid in before - after:
            self._claims[uid].discard(claim)
            if not self._claims[uid]:
                del self._claims[uid]
                changed.add(uid)
        for uid in after - before:
            if uid not in self._claims:
                self._claims[uid] = set()
                changed.add(uid)
            self._claims[uid].add(claim)
        if after:
            self._waits_for[claim] = after
        return changed
