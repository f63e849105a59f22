"""The controller of PersistentVolumes of the local cluster, and its provisioner (:mod:`.volume_rules`)."""

import asyncio
import logging
from collections.abc import Iterable

import msgspec
from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed, Object
from deviceshare_cluster.readable import readable

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.volume_rules import (
    CLAIM,
    CLASS,
    NODE,
    VOLUME,
    Action,
    Create,
    Patch,
    Remove,
    VolumeRules,
)
from deviceshare_localcluster.warn_once import WarnOnce

log = logging.getLogger("deviceshare.local_cluster")

KINDS = (CLASS, VOLUME, CLAIM, NODE)
"""The kinds that it follows."""
_RETRY_SECONDS = 0.5
_UNEXPECTED = (AttributeError, LookupError, TypeError, ValueError, msgspec.MsgspecError)
"""Raised for an object of an unexpected form: admission does not know all fields."""


class VolumeController:
    """Binds and makes volumes; :meth:`run` until cancelled, :meth:`take` for each batch of changes.

    Stateless: all that it does follows from the objects.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._rules = VolumeRules()
        self._listed = False
        self._changed = asyncio.Event()
        self._acting = False
        self._warnings = WarnOnce()

    @property
    def open(self) -> int:
        """The number of claims and volumes for which something may have to be done."""
        return len(self._rules.dirty) + self._acting

    def take(self, batch: Iterable[Change | Listed]) -> None:
        """Note changed objects."""
        for change in batch:
            if isinstance(change, Listed):
                self._listed = True
            elif change.kind in KINDS:
                obj: Object | None = None
                try:
                    if change.type is not ChangeType.DELETED:
                        obj = readable(change.kind, change.raw)
                    self._rules.put(change.kind, change.namespace, change.name, obj)
                except ClusterError as error:
                    self._warnings.warn(f"{change.kind} {change.name}: {error}")
                    self._rules.put(change.kind, change.namespace, change.name, None)
                except _UNEXPECTED as error:
                    self._warnings.warn(f"{change.kind} {change.name}: is not read: {type(error).__name__}: {error}")
        if self._listed and self._rules.dirty:
            self._changed.set()

    async def run(self) -> None:
        """Bind and make volumes without end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._acting = True
            try:
                for kind, key in self._rules.take():
                    for action in self._actions(kind, key):
                        if not await self._act(action):
                            break
            except ClusterError as error:
                log.warning("%s", error)
                self._rules.all_dirty()
                self._changed.set()
                await asyncio.sleep(_RETRY_SECONDS)
            finally:
                self._acting = False

    def _actions(self, kind: str, key: tuple[str, str]) -> list[Action]:
        try:
            return self._rules.actions(kind, key)
        except _UNEXPECTED as error:
            self._warnings.warn(f"{kind} {'/'.join(filter(None, key))}: is not bound: {type(error).__name__}: {error}")
            return []

    async def _act(self, action: Action) -> bool:
        """Execute an action; return whether it was possible. Raises a transient ClusterError."""
        try:
            return await self._execute(action)
        except ClusterError as error:
            if not error.final:
                raise
            self._warnings.warn(str(error))
            return False

    async def _execute(self, action: Action) -> bool:
        match action:
            case Create(obj=obj):
                for result in await self._cluster.make([obj]):
                    if result.problem is not None:
                        self._warnings.warn(str(result.problem))
            case Remove(name=name):
                await self._cluster.delete(VOLUME, "", name)
            case Patch(kind=kind, namespace=namespace, name=name, revision=revision, body=body):
                return await self._cluster.merge(Key(kind, namespace, name), revision, body)
        return True
