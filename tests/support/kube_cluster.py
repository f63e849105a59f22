"""A Kubernetes cluster for tests: created objects are deleted at the end, since all tests share one API server."""

from typing import Any

from deviceshare_cluster.interface import Object
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.kube.client import ApiRefusal
from deviceshare_cluster.kube.kinds import KINDS
from support.apiserver import ApiServer

KINDS_TO_CLEAN = (
    "Pod", "PodDisruptionBudget", "Event", "ConfigMap", "PodGroup", "Queue", "Node", "PersistentVolumeClaim",
    "PersistentVolume", "ResourceClaim", "ResourceSlice", "DeviceClass",
)  # fmt: skip
_PROTECTED = ("PersistentVolumeClaim", "PersistentVolume", "ResourceClaim")


class CleanCluster(KubeCluster):
    """Also creates and deletes, as ``kubectl`` would."""

    def __init__(self, server: ApiServer, user: str = "admin") -> None:
        super().__init__(kubeconfig=str(server.kubeconfig(user)))

    async def __aexit__(self, *error: object) -> None:
        for kind in KINDS_TO_CLEAN:
            for obj in await self.list(kind):
                metadata = obj["metadata"]
                if kind != "ConfigMap" or metadata["name"] != "kube-root-ca.crt":
                    await self.delete(kind, metadata.get("namespace", ""), metadata["name"])
        await super().__aexit__(*error)

    async def create(self, obj: Object) -> None:
        """Create an object; its status, which the API server drops from what is created, is written after it."""
        kind = KINDS[obj["kind"]]
        namespace = obj["metadata"].get("namespace", "")
        await self._api.request("POST", kind.collection(namespace), body=obj)
        if status := obj.get("status"):
            path = f"{kind.object(namespace, obj['metadata']['name'])}/status"
            await self._api.request("PATCH", path, (), {"status": status}, "application/merge-patch+json")

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object, at once: no controller removes the finalizers of claims and volumes."""
        body: dict[str, Any] = {"gracePeriodSeconds": 0}
        path = KINDS[kind].object(namespace, name)
        try:
            if kind in _PROTECTED:
                without = {"metadata": {"finalizers": None}}
                await self._api.request("PATCH", path, (), without, "application/merge-patch+json")
            await self._api.request("DELETE", path, body=body)
        except ApiRefusal as refusal:
            if refusal.status != 404:
                raise
