"""Inventory and placement on a real API server, and changes of its objects."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from deviceshare.model import PodFact
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import decode_fact, decode_ledger
from deviceshare_bus.runtime.service import Context
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.kube.kinds import KINDS
from deviceshare_inventory import service as inventory
from deviceshare_placement import service as placement
from nats.js.errors import NotFoundError
from support.apiserver import ApiServer
from support.kube_cluster import CleanCluster
from support.service import INVENTORY, at_work
from support.waiting import until

REGISTER = "GPU-0,1,32000,V100,true,hami-core:"
"""One card that one pod can have."""
GIVEN = {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,3000,0:", "volcano.sh/vgpu-node": "n1"}
ASKS = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}
MERGE = "application/merge-patch+json"


def node(name: str = "n1", ready: str = "True") -> dict[str, Any]:
    amounts = {"pods": "10", "cpu": "8", "memory": "8Gi", "volcano.sh/vgpu-number": "1"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": ready}]}
    metadata = {"name": name, "annotations": {"volcano.sh/node-vgpu-register": REGISTER}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(name: str, scheduler: str = "volcano", asks: dict[str, str] = ASKS, **annotations: str) -> dict[str, Any]:
    spec = {
        "schedulerName": scheduler,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "x", "resources": {"limits": asks}}],
    }
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Scene:
    """A cluster, and inventory and placement that follow it."""

    def __init__(self, cluster: CleanCluster, context: Context) -> None:
        self.cluster = cluster
        self.context = context

    async def patch(self, kind: str, name: str, body: dict[str, Any], part: str = "") -> None:
        namespace = "default" if kind == "Pod" else ""
        await self.cluster._api.request("PATCH", KINDS[kind].object(namespace, name) + part, (), body, MERGE)

    async def bound(self, name: str, **fields: Any) -> None:
        """Create a pod and bind it as another scheduler does: its annotations first."""
        await self.cluster.create(pod(name, "other", **fields))
        await self.bind(name)

    async def bind(self, name: str) -> None:
        there = await self.cluster.get("Pod", "default", name)
        await self.cluster.bind("default", name, there["metadata"]["uid"], "n1", {})

    async def fact(self, name: str) -> PodFact | None:
        there = await self.cluster.get("Pod", "default", name)
        try:
            subject = subjects.fact("pod", there["metadata"]["uid"])
            found = decode_fact((await self.context.connection.jetstream.get_last_msg("CLUSTER", subject)).data)
        except NotFoundError:
            return None
        return found if isinstance(found, PodFact) else None

    async def held(self, name: str) -> list[tuple[str, int, int]]:
        found = await self.fact(name)
        grants = found.held if found is not None and found.node else ()
        return [(device.id, device.memory, device.cores) for grant in grants for device in grant.devices]

    async def claimed(self, node: str = "n1") -> set[str]:
        """Return the pods that have a claim on a node."""
        try:
            message = await self.context.connection.jetstream.get_last_msg("LEDGER", subjects.ledger(node))
        except NotFoundError:
            return set()
        return {claim.name for claim in decode_ledger(message.data).claims}

    async def until(
        self, value: Callable[[], Any], holds: Callable[[Any], bool] = bool, seconds: float = 60.0
    ) -> float:
        """Wait until something holds of a value; return how many seconds it took."""
        began = time.monotonic()
        await until(value, holds, seconds)
        return time.monotonic() - began

    async def settled(self) -> None:
        """Wait until what the cluster holds is on the bus."""
        await self.until(self._is_settled)

    async def _is_settled(self) -> bool:
        newest = [
            int(each["metadata"]["resourceVersion"])
            for kind in ("Node", "Pod")
            for each in await self.cluster.list(kind)
        ]
        return self.context.revision() >= max(newest, default=0) and not self.context.open_work()


@asynccontextmanager
async def following(
    server: ApiServer, url: str, monkeypatch: pytest.MonkeyPatch, way: str = ""
) -> AsyncIterator[Context]:
    """Inventory and placement at work; gives inventory's context. ``way`` is another kubeconfig for inventory."""
    monkeypatch.setattr(
        inventory, "open_cluster", lambda _, silence: KubeCluster(kubeconfig=way or str(server.kubeconfig()))
    )
    async with (
        at_work("inventory", inventory.main, url, **INVENTORY) as context,
        at_work("placement", placement.main, url),
    ):
        yield context
