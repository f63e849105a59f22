"""The controller of PersistentVolumes of the local cluster, and its provisioner (:mod:`.volume_rules`)."""

import logging
from collections.abc import Mapping

from deviceshare_cluster.interface import Change, ClusterError

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.volume_rules import CLAIM, CLASS, NODE, VOLUME, Action, Create, Patch, Remove, VolumeRules
from deviceshare_localcluster.work_list import UNEXPECTED, WorkList, read

log = logging.getLogger("deviceshare.local_cluster")

KINDS = (CLASS, VOLUME, CLAIM, NODE)
"""The kinds that it follows."""


class VolumeController(WorkList):
    """Binds and makes volumes."""

    kinds = KINDS

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self._rules = VolumeRules()

    def _changed(self, key: Key, change: Change) -> None:
        try:
            self._rules.put(*key, read(change))
        except ClusterError:
            self._rules.put(*key, None)
            raise
        finally:
            self._note_dirty()

    def _note_dirty(self) -> None:
        self.keys |= {Key(kind, *name): None for kind, name in self._rules.take()}

    async def _act_on_all(self, keys: Mapping[Key, None]) -> Mapping[Key, None]:
        try:
            for key in keys:
                for action in self._actions(key):
                    if not await self._act(action):
                        break
        except ClusterError as error:
            log.warning("%s", error)
            self._rules.all_dirty()
            self._note_dirty()
            return keys
        return {}

    def _actions(self, key: Key) -> list[Action]:
        try:
            return self._rules.actions(key.kind, (key.namespace, key.name))
        except UNEXPECTED as error:
            self._warnings.warn(f"{key}: is not bound: {type(error).__name__}: {error}")
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
