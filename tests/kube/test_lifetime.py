"""How long a pod has its devices, and what is believed of it: inventory and placement on a real API server."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from deviceshare.facts import PodFact
from deviceshare_bus import subjects
from deviceshare_bus.messages import decode_fact, decode_ledger
from deviceshare_bus.service import Context
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.kube.kinds import KINDS
from deviceshare_inventory import shell as inventory
from deviceshare_placement import shell as placement
from nats.js.errors import NotFoundError
from support.apiserver import ApiServer
from support.kube_cluster import CleanCluster
from support.kube_proxy import KubeProxy
from support.service import at_work

REGISTER = "GPU-0,1,32000,V100,true,hami-core:"
"""One card that one pod can have."""
GIVEN = {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,3000,0:", "volcano.sh/vgpu-node": "n1"}
ASKS = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}
PROMPT = 4.0
"""Seconds: one, where nothing else runs."""
FOUND = 20.0
"""Seconds until a ghost is found out that a watch hides, of a small cluster on a busy machine."""
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
        assert there is not None
        await self.cluster.bind("default", name, there["metadata"]["uid"], "n1", {})

    async def fact(self, name: str) -> PodFact | None:
        there = await self.cluster.get("Pod", "default", name)
        try:
            assert there is not None
            subject = subjects.fact("pod", there["metadata"]["uid"])
            found = decode_fact((await self.context.connection.jetstream.get_last_msg("CLUSTER", subject)).data)
        except NotFoundError:
            return None
        return found if isinstance(found, PodFact) else None

    async def held(self, name: str) -> list[tuple[str, int, int]]:
        found = await self.fact(name)
        grants = found.held if found is not None and found.node else ()
        return [(device.id, device.memory, device.cores) for grant in grants for device in grant.devices]

    async def claimed(self) -> set[str]:
        """Return the pods that have a claim on the node."""
        try:
            message = await self.context.connection.jetstream.get_last_msg("LEDGER", subjects.ledger("n1"))
        except NotFoundError:
            return set()
        return {claim.name for claim in decode_ledger(message.data).claims}

    async def until(self, true: Any, seconds: float = 20.0) -> float:
        """Wait until something is so; returns how many seconds it took."""
        began = time.monotonic()
        async with asyncio.timeout(seconds):
            while not await true():
                await asyncio.sleep(0.02)
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


@pytest.fixture
async def scene(apiserver: ApiServer, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with CleanCluster(apiserver) as cluster, following(apiserver, nats_url, monkeypatch) as context:
        yield Scene(cluster, context)


@asynccontextmanager
async def following(
    server: ApiServer, url: str, monkeypatch: pytest.MonkeyPatch, way: str = ""
) -> AsyncIterator[Context]:
    """Inventory and placement at work; gives inventory's context. ``way`` is another kubeconfig for inventory."""
    options = {"cluster": "kube", "conf": None, "scheduler_name": ["volcano"], "watch_silence": 120.0}
    monkeypatch.setattr(
        inventory, "open_cluster", lambda _, silence: KubeCluster(kubeconfig=way or str(server.kubeconfig()))
    )
    async with (
        at_work("inventory", inventory.main, url, **options) as context,
        at_work("placement", placement.main, url),
    ):
        yield context


async def test_devices_are_given_back_at_the_end_of_a_pod_and_not_before(scene: Scene) -> None:
    await scene.cluster.create(node())
    await scene.bound("a", **GIVEN)
    await scene.cluster.create(pod("b"))
    await scene.settled()
    assert await scene.held("a") == [("GPU-0", 3000, 0)]

    async def b_is_claimed() -> bool:
        return "b" in await scene.claimed()

    # It is being deleted, its node does not answer, its node is gone: it runs on for all that anybody knows.
    await scene.patch("Pod", "a", {"status": {"phase": "Running"}}, "/status")
    await scene.cluster._api.request("DELETE", KINDS["Pod"].object("default", "a"), (), {"gracePeriodSeconds": 30})
    await scene.patch("Node", "n1", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "/status")
    await scene.settled()
    found = await scene.fact("a")
    assert found is not None
    assert found.terminating
    await scene.cluster.delete("Node", "", "n1")
    await scene.settled()
    assert await scene.held("a") == [("GPU-0", 3000, 0)]
    await scene.cluster.create(node())
    await scene.settled()
    await asyncio.sleep(1.0)
    assert not await b_is_claimed()

    await scene.patch("Pod", "a", {"status": {"phase": "Succeeded"}}, "/status")
    assert await scene.until(b_is_claimed) < PROMPT


async def test_devices_are_given_back_when_the_pod_is_gone(scene: Scene) -> None:
    await scene.cluster.create(node())
    await scene.bound("a", **GIVEN)
    await scene.cluster.create(pod("b"))
    await scene.settled()
    assert await scene.claimed() == set()
    await scene.cluster.delete("Pod", "default", "a")

    async def b_is_claimed() -> bool:
        return "b" in await scene.claimed()

    assert await scene.until(b_is_claimed) < PROMPT


async def test_what_a_silent_watch_has_lost_is_found_long_before_the_silence_is(
    apiserver: ApiServer, nats_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with (
        CleanCluster(apiserver) as cluster,
        KubeProxy(apiserver) as proxy,
        following(apiserver, nats_url, monkeypatch, proxy.kubeconfig(tmp_path)) as context,
    ):
        scene = Scene(cluster, context)
        await cluster.create(node())
        await cluster.create(pod("ghost"))

        async def is_claimed() -> bool:
            return await scene.claimed() == {"ghost"}

        async def is_given_back() -> bool:
            return await scene.claimed() == set()

        await scene.until(is_claimed)
        await scene.settled()
        proxy.silence()
        await cluster.delete("Pod", "default", "ghost")
        assert await scene.until(is_given_back, 60) < FOUND


async def test_forged_annotations_have_no_effect_beyond_what_the_pod_asks(scene: Scene) -> None:
    """There is no policy on this server: whoever may create pods may write their annotations."""
    everything = {
        "volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,32000,100:GPU-1,NVIDIA,32000,100:",
        "volcano.sh/gpu-index": "0",
    }
    await scene.cluster.create(node())
    await scene.cluster.create(pod("waits", "other", **everything))  # before it is bound
    await scene.bound("greedy", asks={"cpu": "1"}, **everything)  # it asks no devices
    await scene.settled()
    assert (await scene.held("waits"), await scene.held("greedy")) == ([], [])
    await scene.cluster.create(pod("b"))

    async def b_is_claimed() -> bool:
        return "b" in await scene.claimed()

    await scene.until(b_is_claimed)
    await scene.bind("waits")  # by another scheduler, as it is
    await scene.settled()
    assert await scene.held("waits") == [("GPU-0", 3000, 0)]
    await scene.patch("Pod", "waits", {"metadata": {"annotations": {"volcano.sh/vgpu-ids-new": "GPU-9,NVIDIA,1,0:"}}})
    await scene.settled()
    assert await scene.held("waits") == [("GPU-0", 3000, 0)]
    reasons = [(one["reason"], one["involvedObject"]["name"]) for one in await scene.cluster.list("Event")]
    assert ("InvalidDeviceAnnotation", "greedy") in reasons


async def test_a_claim_gives_way_to_a_pod_that_another_scheduler_bound(scene: Scene) -> None:
    """Here no binder is at work, so the claim is asked back, and nobody gives it back."""
    await scene.cluster.create(node())
    await scene.cluster.create(pod("b"))

    async def ledger() -> dict[str, bool]:
        message = await scene.context.connection.jetstream.get_last_msg("LEDGER", subjects.ledger("n1"))
        return {claim.name: claim.withdraw for claim in decode_ledger(message.data).claims}

    async def b_is_claimed() -> bool:
        return "b" in await scene.claimed()

    async def b_is_asked_back() -> bool:
        return await ledger() == {"b": True}

    await scene.until(b_is_claimed)
    assert await ledger() == {"b": False}
    await scene.bound("theirs", **GIVEN)
    assert await scene.until(b_is_asked_back) < PROMPT


async def test_heartbeats_of_kubelet_make_no_message(scene: Scene) -> None:
    await scene.cluster.create(node())
    await scene.settled()
    await asyncio.sleep(0.2)
    stream = scene.context.connection.jetstream
    before = (await stream.stream_info("CLUSTER")).state.last_seq
    busy = time.process_time()
    for beat in range(300):
        at = f"2026-01-01T{beat // 3600:02}:{beat // 60 % 60:02}:{beat % 60:02}Z"
        conditions = [
            {"type": kind, "status": status, "lastHeartbeatTime": at}
            for kind, status in (("MemoryPressure", "False"), ("DiskPressure", "False"), ("Ready", "True"))
        ]
        status = {
            "conditions": conditions,
            "images": [{"names": [f"image-{beat}-{number}"], "sizeBytes": beat} for number in range(20)],
            "volumesInUse": [f"volume-{beat}"],
        }
        await scene.patch("Node", "n1", {"status": status}, "/status")
    await scene.settled()
    assert (await stream.stream_info("CLUSTER")).state.last_seq == before
    # The patches and their answers are in it as well.
    assert (time.process_time() - busy) / 300 < 0.02
