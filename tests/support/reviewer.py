"""An API server that reviews tokens and permissions."""

import asyncio

from deviceshare_bus.web import ReviewError, User

ALICE = User("alice", groups=("developers",))


class FakeReviewer:
    """Knows the token of alice, who may list the pods of ``ours``."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False
        self.metrics = False

    async def user(self, token: str) -> User | None:
        self.asked.append(token)
        await asyncio.sleep(0.01)
        if self.fails:
            raise ReviewError("no answer")
        return ALICE if token == "of-alice" else None

    async def may_list_pods(self, user: User, namespace: str) -> bool:
        self.asked.append(namespace)
        if self.fails:
            raise ReviewError("no answer")
        return namespace == "ours"

    async def may_get(self, user: User, path: str) -> bool:
        self.asked.append(path)
        if self.fails:
            raise ReviewError("no answer")
        return self.metrics
