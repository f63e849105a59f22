"""Another scheduler on the same nodes, for several families: it locks a node, selects free cards, and binds.

It does what Volcano and HAMi's scheduler do, under Volcano's account, and waits between its lock and its look for what
others had begun. It counts by annotations alone: what is decided and not bound yet it does not see.
"""

import asyncio
import json
import time
from typing import Any, ClassVar

from deviceshare_lab.checker.cards import Device, Parts, cards_of, devices_of
from deviceshare_lab.clusters.fields import annotations_of as annotations
from support import mixed
from support.agents.api import Api, Refused

ACCOUNT = "system:serviceaccount:volcano-system:volcano-scheduler"
GRACE = 0.5
"""Seconds from the lock until what others had begun has arrived, on a machine that has nothing else to do."""

Object = dict[str, Any]


class PluginFormat:
    """The annotations and locks with which pods of a family reach their device plugin."""

    lock = ""
    """The annotation of a node by which it is locked, '' where schedulers of this family have none."""
    limits: ClassVar[dict[str, str]]
    takes: ClassVar[dict[str, int]]
    """What a pod takes of a card, in the words of :mod:`deviceshare_lab.checker.cards`."""
    labels: ClassVar[dict[str, str]] = {}

    def suits(self, node: Object) -> bool:
        """Whether a node has cards of the family."""
        raise NotImplementedError

    def written(self, node: str, card: str) -> dict[str, str]:
        """Return the annotations of a pod that gets a card."""
        raise NotImplementedError

    def is_waiting(self, pod: Object) -> bool:
        """Whether the plugin has not served a pod on the node yet."""
        raise NotImplementedError


class Vgpu(PluginFormat):
    """Volcano with hami-core."""

    lock = "hamivgpu"
    limits: ClassVar = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}
    takes: ClassVar = {"slots": 1, "MiB": 1000}

    def suits(self, node: Object) -> bool:
        """Whether its register says so."""
        return annotations(node).get("volcano.sh/node-vgpu-register", "").endswith("hami-core:")

    def written(self, node: str, card: str) -> dict[str, str]:
        """Return what Volcano writes."""
        now, devices = str(int(time.time())), f"{card},NVIDIA,1000,0:"
        return {
            "volcano.sh/vgpu-node": node,
            "volcano.sh/vgpu-time": now,
            "volcano.sh/vgpu-ids-new": devices,
            "volcano.sh/devices-to-allocate": devices,
            "volcano.sh/bind-phase": "allocating",
            "volcano.sh/bind-time": now,
        }

    def is_waiting(self, pod: Object) -> bool:
        """Whether it is allocating."""
        return annotations(pod).get("volcano.sh/bind-phase") == "allocating"


class GpuShare(PluginFormat):
    """Volcano with gpu-share."""

    lock = "gpu"
    limits: ClassVar = {"volcano.sh/gpu-memory": "700"}
    takes: ClassVar = {"MiB": 700, "pods beside whole cards": 1}

    def suits(self, node: Object) -> bool:
        """Whether it is one of those whose cards are shared."""
        return "volcano.sh/gpu-memory" in node["status"]["capacity"]

    def written(self, node: str, card: str) -> dict[str, str]:
        """Return what Volcano writes."""
        return {"volcano.sh/gpu-index": card, "volcano.sh/predicate-time": str(time.time_ns())}

    def is_waiting(self, pod: Object) -> bool:
        """Whether it has a card and is not marked."""
        said = annotations(pod)
        return "volcano.sh/predicate-time" in said and said.get("volcano.sh/gpu-assigned", "false") == "false"


class HamiAscend(PluginFormat):
    """HAMi with vNPUs."""

    lock = "hami.io/mutex.lock"
    limits: ClassVar = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16000"}
    takes: ClassVar = {"slots": 1, "MiB": 16384, "AI cores": 5, "AI CPUs": 1}

    def suits(self, node: Object) -> bool:
        """Whether it registers such chips."""
        return "hami.io/node-register-Ascend910B3" in annotations(node)

    def written(self, node: str, card: str) -> dict[str, str]:
        """Return what HAMi writes."""
        now, devices = str(int(time.time())), f"{card},Ascend910B3,16384,0:;"
        return {
            "hami.io/vgpu-node": node,
            "hami.io/vgpu-time": now,
            "hami.io/bind-time": now,
            "hami.io/bind-phase": "allocating",
            "predicate-time": now,
            "hami.io/Ascend910B3-devices-allocated": devices,
            "hami.io/Ascend910B3-devices-to-allocate": devices,
            "huawei.com/Ascend910B3": json.dumps([{"UUID": card, "temp": "vir05_1c_16g"}]),
        }

    def is_waiting(self, pod: Object) -> bool:
        """Whether it is allocating."""
        return annotations(pod).get("hami.io/bind-phase") == "allocating"


class MindCluster(PluginFormat):
    """Volcano with MindCluster's plugin. It has no lock: two schedulers may only take turns."""

    limits: ClassVar = {"huawei.com/npu-core": "1"}
    takes: ClassVar = {"AI cores": 1, "AI CPUs": 1}
    labels: ClassVar = mixed.TASK

    def suits(self, node: Object) -> bool:
        """Whether it has such chips."""
        return "baseDeviceInfos" in annotations(node)

    def written(self, node: str, card: str) -> dict[str, str]:
        """Return what Volcano writes."""
        return {"huawei.com/npu-core": f"{card.removeprefix('chip ')}-vir01", "predicate-time": str(time.time_ns())}

    def is_waiting(self, pod: Object) -> bool:
        """Whether it has a chip and the plugin has not said what it made of it."""
        said = annotations(pod)
        return "huawei.com/npu-core" in said and "huawei.com/AscendReal" not in said


LOCKING: tuple[PluginFormat, ...] = (Vgpu(), GpuShare(), HamiAscend())
TAKING_TURNS: tuple[PluginFormat, ...] = (MindCluster(),)


class OtherScheduler:
    """Places pods of its own, which ask for a little of one card, in a namespace.

    ``parts`` says how cards may be cut, ``grace`` is how long it takes until what others had begun has arrived.
    """

    def __init__(self, api: Api, namespace: str, parts: Parts, grace: float = GRACE) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._namespace = namespace
        self._parts = parts
        self._grace = grace

    async def place(self, name: str, plugin_format: PluginFormat, seed: int) -> None:
        """Create a pod and bind it to a node, another one for another ``seed``; it is served when this returns."""
        pod = mixed.pod(name, self._namespace, plugin_format.limits, {}, "another")
        pod["metadata"]["labels"] = plugin_format.labels
        if "huawei.com/npu-core" in plugin_format.limits:
            pod["spec"]["containers"][0]["resources"]["requests"] = plugin_format.limits
        pod = await self._api.request("POST", self._pods, pod)
        nodes = [
            node for node in (await self._api.request("GET", "/api/v1/nodes"))["items"] if plugin_format.suits(node)
        ]
        for attempt in range(10 * len(nodes)):
            node = nodes[(seed + attempt) % len(nodes)]["metadata"]["name"]
            if await self._place_on(pod, plugin_format, node):
                return
        raise AssertionError(f"there is no room for {name}")

    async def _place_on(self, pod: Object, plugin_format: PluginFormat, node: str) -> bool:
        lock = await self._lock(plugin_format, node, pod)
        card = await self._emptiest(plugin_format, node)
        if card is not None:
            await self._bind(pod, node, plugin_format.written(node, card))
            while await self._is_awaited(plugin_format, node):
                await asyncio.sleep(0.1)
        if lock:
            await self._unlock(node, plugin_format.lock, lock)
        return card is not None

    async def _is_awaited(self, plugin_format: PluginFormat, node: str) -> bool:
        return any(plugin_format.is_waiting(pod) for pod in await self._on(node))

    async def _lock(self, plugin_format: PluginFormat, node: str, pod: Object) -> str:
        """Return the value of the lock, '' for none, once no pod waits for the plugin.

        A plugin that serves a pod of another scheduler releases the lock, whichever scheduler holds it.
        """
        holder = f",{self._namespace},{pod['metadata']['name']}" if plugin_format.lock.startswith("hami.io/") else ""
        value = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) + holder if plugin_format.lock else ""
        while True:
            if not value or await self._has_locked(node, plugin_format.lock, value):
                await asyncio.sleep(self._grace)
                waits = await self._is_awaited(plugin_format, node)
                if not waits and (not value or await self._has_locked(node, plugin_format.lock, value)):
                    return value
            await asyncio.sleep(0.1)

    async def _has_locked(self, node: str, lock: str, value: str) -> bool:
        found = await self._api.request("GET", f"/api/v1/nodes/{node}")
        if lock in annotations(found):
            return annotations(found)[lock] == value
        metadata = {"annotations": {lock: value}, "resourceVersion": found["metadata"]["resourceVersion"]}
        await self._api.patch(f"/api/v1/nodes/{node}", {"metadata": metadata})
        return False

    async def _unlock(self, node: str, lock: str, value: str) -> None:
        """Give a lock back, where it is still ours: the plugin may have done so, and another have taken it."""
        found = await self._api.request("GET", f"/api/v1/nodes/{node}")
        if annotations(found).get(lock) == value:
            metadata = {"annotations": {lock: None}, "resourceVersion": found["metadata"]["resourceVersion"]}
            if await self._api.patch(f"/api/v1/nodes/{node}", {"metadata": metadata}) is None:
                await self._unlock(node, lock, value)

    async def _on(self, node: str) -> list[Object]:
        found = await self._api.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={node}")
        return [pod for pod in found["items"] if pod["status"]["phase"] not in ("Succeeded", "Failed")]

    async def _emptiest(self, plugin_format: PluginFormat, node: str) -> str | None:
        """Return the card with the most room, None if there is too little on each."""
        cards = cards_of(await self._api.request("GET", f"/api/v1/nodes/{node}"), self._parts)
        given: list[Device] = [device for pod in await self._on(node) for device in devices_of(pod, self._parts)]
        room = {
            card: min(
                (has[what] - sum(one.amounts.get(what, 0) for one in given if one.card == card)) // amount
                for what, amount in plugin_format.takes.items()
            )
            for card, has in cards.items()
        }
        best = max(room, key=lambda card: room[card])
        return best if room[best] > 0 else None

    async def _bind(self, pod: Object, node: str, written: dict[str, str]) -> None:
        metadata = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], "annotations": written}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
        try:
            await self._api.request("POST", f"{self._pods}/{metadata['name']}/binding", body, user=ACCOUNT)
        except Refused as refusal:
            if refusal.status != 409:  # it was done, and the answer was lost
                raise
