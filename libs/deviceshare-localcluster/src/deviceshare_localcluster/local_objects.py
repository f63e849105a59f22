"""The objects of a local cluster, for those who only read them: importing the whole cluster takes long."""

from typing import Self

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.kinds import named_key
from deviceshare_localcluster.store import Store


class LocalObjects:
    """Reads the objects of a store. Use as an async context manager."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __aenter__(self) -> Self:
        """Connect; wait for the server without a time limit."""
        await self._store.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Disconnect."""
        await self._store.stop()

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object, or None. Raises ClusterError."""
        return await self._store.get(named_key(kind, namespace, name))

    async def list(self, kind: str) -> list[Object]:
        """Return all objects of a kind. Raises ClusterError."""
        return await self._store.list_kind(kind)
