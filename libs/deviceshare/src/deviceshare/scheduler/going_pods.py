"""The pods in whose place nominated pods come, and the claims that wait for them."""

from collections.abc import Iterator

from deviceshare.model import Claim


class GoingPods:
    """The claims that wait, by the pods that have to go for them: bounded by the ledgers."""

    def __init__(self) -> None:
        self._claims: dict[str, set[str]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._claims

    def __len__(self) -> int:
        return len(self._claims)

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def change(self, before: Claim | None, after: Claim | None) -> set[str]:
        """Apply that a claim is another one now, None for none; return the pods that go since then, or no more."""
        changed = set[str]()
        if before is not None:
            for uid in before.waits_for:
                self._claims[uid].discard(before.id)
                if not self._claims[uid]:
                    del self._claims[uid]
                    changed.add(uid)
        if after is not None:
            for uid in after.waits_for:
                if uid not in self._claims:
                    changed ^= {uid}
                self._claims.setdefault(uid, set()).add(after.id)
        return changed
