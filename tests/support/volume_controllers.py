"""Kubernetes' controller of volumes and a provisioner, simulated on a real API server, which has neither."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from deviceshare_cluster.interface import Object
from deviceshare_cluster.kube.client import ApiRefusal
from deviceshare_cluster.kube.kinds import KINDS
from deviceshare_localcluster.volume_rules import CLAIM, CLASS, NODE, VOLUME, Create, Patch, VolumeRules
from support.beside import beside
from support.kube_cluster import CleanCluster

MERGE = "application/merge-patch+json"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PAUSE = 0.05


class VolumeControllers:
    """Binds and makes volumes while ``working``; rejects the next ``rejections`` nodes that are selected."""

    def __init__(self, cluster: CleanCluster) -> None:
        self._cluster = cluster
        self.working = True
        self.rejections = 0
        self.rejected: list[str] = []
        """The nodes that were rejected."""

    async def run(self) -> None:
        while True:
            if self.working:
                await self._work()
            await asyncio.sleep(PAUSE)

    async def _work(self) -> None:
        rules = VolumeRules()
        for kind in (CLASS, NODE, VOLUME, CLAIM):
            for obj in await self._cluster.list(kind):
                metadata = obj["metadata"]
                rules.put(kind, metadata.get("namespace", ""), metadata["name"], obj)
        rules.all_dirty()
        for kind, key in rules.take():
            for action in rules.actions(kind, key):
                try:
                    await self._act(action)
                except ApiRefusal as refusal:
                    if refusal.status not in (404, 409):
                        raise
                    break  # the object has changed: the next pass

    async def _act(self, action: Any) -> None:
        match action:
            case Create(obj=obj) if self.rejections and (node := await self._selected(obj)):
                self.rejections -= 1
                self.rejected.append(node)
                reference = obj["spec"]["claimRef"]
                body = {"metadata": {"annotations": {SELECTED_NODE: None}}}
                path = KINDS[CLAIM].object(reference["namespace"], reference["name"])
                await self._cluster._api.request("PATCH", path, (), body, MERGE)
            case Create(obj=obj):
                await self._cluster._api.request("POST", KINDS[VOLUME].collection(), body=obj)
            case Patch(kind=kind, namespace=namespace, name=name, revision=revision, body=body):
                path = KINDS[kind].object(namespace, name)
                parts = {key: value for key, value in body.items() if key != "status"}
                if parts:
                    metadata = parts.get("metadata", {}) | {"resourceVersion": revision}
                    await self._cluster._api.request("PATCH", path, (), parts | {"metadata": metadata}, MERGE)
                if "status" in body:
                    await self._cluster._api.request("PATCH", f"{path}/status", (), {"status": body["status"]}, MERGE)

    async def _selected(self, volume: Object) -> str:
        reference = volume["spec"]["claimRef"]
        claim = await self._cluster.get(CLAIM, reference["namespace"], reference["name"])
        return str(((claim or {}).get("metadata", {}).get("annotations") or {}).get(SELECTED_NODE, ""))


@asynccontextmanager
async def controlling_volumes(cluster: CleanCluster) -> AsyncIterator[VolumeControllers]:
    """Run the controllers; an error of theirs fails the test."""
    controllers = VolumeControllers(cluster)
    async with beside(controllers.run()):
        yield controllers
