"""What the controllers of the local cluster have in common: objects to act on, and again after an error."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress

from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed, Object
from deviceshare_cluster.readable import MALFORMED, readable

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.warn_once import WarnOnce

RETRY_SECONDS = 0.5
UNEXPECTED = (AttributeError, LookupError, TypeError, ValueError, *MALFORMED)
"""Raised for an object of an unexpected form: admission does not know all fields, and the cluster may have been loaded
by an earlier version."""


class WorkList(ABC):
    """Acts on objects once all are listed; :meth:`run` until cancelled, :meth:`take` for each batch of changes.

    Stateless: all that a controller does follows from the objects. A subclass notes changed objects in :meth:`_changed`
    and adds to ``keys`` those on which :meth:`_act_on_all` has to act.
    """

    kinds: tuple[str, ...]
    """The kinds that it follows."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._warnings = WarnOnce()
        self.keys: dict[Key, None] = {}
        """The objects for which something may have to be done."""
        self._listed = False
        self._wake = asyncio.Event()
        self._acting = False

    @property
    def open(self) -> int:
        """The number of objects for which something may have to be done."""
        return len(self.keys) + self._acting

    def take(self, batch: Iterable[Change | Listed]) -> None:
        """Note changed objects; one that cannot be read is reported."""
        for change in batch:
            if isinstance(change, Listed):
                self._listed = True
            elif change.kind in self.kinds:
                key = Key(change.kind, change.namespace, change.name)
                try:
                    self._changed(key, change)
                except (*UNEXPECTED, ClusterError) as error:
                    self._warnings.warn(f"{key}: is not read: {type(error).__name__}: {error}")
        if self._listed and self.keys:
            self._wake.set()

    @abstractmethod
    def _changed(self, key: Key, change: Change) -> None:
        """Note a changed object. Raises ClusterError or :data:`UNEXPECTED`: it cannot be read."""

    @abstractmethod
    async def _act_on_all(self, keys: Mapping[Key, None]) -> Mapping[Key, None]:
        """Act on objects; return those that are to be tried again after a while."""

    def _pause(self) -> float | None:
        """Return after how many seconds to act although nothing changes, None: never."""
        return None

    async def run(self) -> None:
        """Act without end."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            self._wake.clear()
            keys, self.keys = self.keys, {}
            self._acting = True
            try:
                if failed := await self._act_on_all(keys):
                    await asyncio.sleep(RETRY_SECONDS)
                    self.keys = dict(failed) | self.keys
                    self._wake.set()
            finally:
                self._acting = False


def read(change: Change) -> Object | None:
    """Return a changed object, None if it is gone. Raises a final ClusterError: it cannot be read."""
    return None if change.type is ChangeType.DELETED else readable(change.kind, change.raw)
