"""Another scheduler on the same nodes: it locks a node, looks where there is room, and binds as Volcano does."""

import asyncio
import time
from typing import Any

from support import mixed
from support.agents.api import Api, Refused

LOCK = "hamivgpu"
MEMORY = 1000
GRACE = 0.5
"""Seconds from the lock until what others had begun has arrived."""


class OtherScheduler:
    """Places pods of its own, which ask for a little of one card, in a namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._namespace = namespace

    async def place(self, name: str, node: str) -> None:
        """Create a pod and bind it to a node; it is served when this returns."""
        limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(MEMORY)}
        pod = await self._api.request("POST", self._pods, mixed.pod(name, self._namespace, limits, {}, "another"))
        await self._lock(node)
        await asyncio.sleep(GRACE)
        while await self._is_allocating(node):
            await asyncio.sleep(0.1)
        await self._bind(pod, node, await self._emptiest(node))
        while await self._is_allocating(node):
            await asyncio.sleep(0.1)
        await self._api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {LOCK: None}}})

    async def _lock(self, node: str) -> None:
        while True:
            found = await self._api.request("GET", f"/api/v1/nodes/{node}")
            if LOCK not in found["metadata"]["annotations"]:
                value = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                version = found["metadata"]["resourceVersion"]
                metadata = {"annotations": {LOCK: value}, "resourceVersion": version}
                if await self._api.patch(f"/api/v1/nodes/{node}", {"metadata": metadata}) is not None:
                    return
            await asyncio.sleep(0.1)

    async def _on(self, node: str) -> list[dict[str, Any]]:
        found = await self._api.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={node}")
        return [pod for pod in found["items"] if pod["status"]["phase"] not in ("Succeeded", "Failed")]

    async def _is_allocating(self, node: str) -> bool:
        return any(
            pod["metadata"]["annotations"].get("volcano.sh/bind-phase") == "allocating" for pod in await self._on(node)
        )

    async def _emptiest(self, node: str) -> str:
        found = await self._api.request("GET", f"/api/v1/nodes/{node}")
        register = found["metadata"]["annotations"]["volcano.sh/node-vgpu-register"]
        pods = [pod["metadata"]["annotations"].get("volcano.sh/vgpu-ids-new", "") for pod in await self._on(node)]
        return min(
            (item.split(",")[0] for item in register.split(":") if item), key=lambda card: str(pods).count(f"{card},")
        )

    async def _bind(self, pod: dict[str, Any], node: str, card: str) -> None:
        now, devices = str(int(time.time())), f"{card},NVIDIA,{MEMORY},0:"
        annotations = {
            "volcano.sh/vgpu-node": node,
            "volcano.sh/vgpu-time": now,
            "volcano.sh/vgpu-ids-new": devices,
            "volcano.sh/devices-to-allocate": devices,
            "volcano.sh/bind-phase": "allocating",
            "volcano.sh/bind-time": now,
        }
        metadata = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "annotations": annotations}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
        try:
            await self._api.request("POST", f"{self._pods}/{metadata['name']}/binding", body)
        except Refused as refusal:
            if refusal.status != 409:  # it was done, and the answer was lost
                raise
