"""How long a pod has its devices: inventory and placement on a real API server."""

import asyncio
import time
from pathlib import Path

import pytest
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import decode_ledger
from deviceshare_cluster.kube.kinds import KINDS
from support.apiserver import ApiServer
from support.kube_cluster import CleanCluster
from support.kube_proxy import KubeProxy
from support.kube_scene import GIVEN, Scene, following, node, pod

PROMPT = 4.0
"""Seconds: one, where nothing else runs."""
FOUND = 20.0
"""Seconds until a ghost is found out that a watch hides, of a small cluster on a busy machine."""


async def test_devices_are_given_back_at_the_end_of_a_pod_and_not_before(scene: Scene) -> None:
    await scene.cluster.create(node())
    await scene.bound("a", **GIVEN)
    await scene.cluster.create(pod("b"))
    await scene.settled()
    assert await scene.held("a") == [("GPU-0", 3000, 0)]

    async def a_is_terminating() -> bool:
        found = await scene.fact("a")
        return found is not None and found.terminating

    async def b_is_claimed() -> bool:
        return "b" in await scene.claimed()

    # It is being deleted, its node does not answer, its node is gone: it runs on for all that anybody knows.
    await scene.patch("Pod", "a", {"status": {"phase": "Running"}}, "/status")
    await scene.cluster._api.request("DELETE", KINDS["Pod"].object("default", "a"), (), {"gracePeriodSeconds": 30})
    await scene.patch("Node", "n1", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "/status")
    await scene.until(a_is_terminating)
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
    assert await scene.until(scene.claimed, lambda claimed: "b" in claimed) < PROMPT


async def test_changes_lost_by_a_silent_watch_are_found_before_the_silence(
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
        await scene.until(scene.claimed, lambda claimed: claimed == {"ghost"})
        await scene.settled()
        proxy.silence()
        await cluster.delete("Pod", "default", "ghost")
        assert await scene.until(scene.claimed, lambda claimed: claimed == set(), seconds=60) < FOUND


async def test_a_claim_gives_way_to_a_pod_that_another_scheduler_bound(scene: Scene) -> None:
    """Without a binder the claim is marked for withdrawal and stays."""
    await scene.cluster.create(node())
    await scene.cluster.create(pod("b"))

    async def ledger() -> dict[str, bool]:
        message = await scene.context.connection.jetstream.get_last_msg("LEDGER", subjects.ledger("n1"))
        return {claim.name: claim.withdraw for claim in decode_ledger(message.data).claims}

    async def b_is_asked_back() -> bool:
        return await ledger() == {"b": True}

    await scene.until(scene.claimed, lambda claimed: "b" in claimed)
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
