"""Draining cards in tests: two nodes with cards, pods with a share of them, and the command.

No kubelet runs: on the real API server the fixture ends terminating pods.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from deviceshare.model import Backoff
from deviceshare.objects import decode_node
from deviceshare_cli import cordon, drain
from deviceshare_cli.drain import DrainOptions, drain_cards
from support.beside import beside

REGISTER = "GPU-0,10,32000,V100,true,hami-core:GPU-1,10,32000,V100,true,hami-core:GPU-M,7,40960,NVIDIA-A100,true,mig:"
CORDONING = cordon.cordoning("alice", "fan", 1_700_000_000.0)


@pytest.fixture
async def drained_nodes(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(drain, "RETRY", Backoff(0.01, 0.02))
    monkeypatch.setattr(drain, "POLL_SECONDS", 0.01)
    labels = {"volcano.sh/node-vgpu-register": REGISTER}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    for name in ("gpu-1", "gpu-2"):
        metadata = {"name": name, "annotations": labels}
        await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": ready})
    async with beside(_end_pods(cluster, cluster.list)):
        yield


async def _end_pods(cluster: Any, list_all: Callable[[str], Any]) -> None:
    """End pods that are terminating, unless they stay; ``list_all`` is none that a test replaces."""
    while True:
        for pod in await list_all("Pod"):
            metadata = pod["metadata"]
            if "deletionTimestamp" in metadata and "stays" not in metadata["name"]:
                await cluster.delete("Pod", metadata["namespace"], metadata["name"])
        await asyncio.sleep(0.02)


def pod(name: str, *cards: str, owner: str = "ReplicaSet", node: str = "gpu-1", **spec: Any) -> dict[str, Any]:
    held = "".join(f"{card},NVIDIA,1000,10:" for card in cards)
    limits = {"volcano.sh/vgpu-number": str(len(cards)), "volcano.sh/vgpu-memory": "1000"}
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"app": name.partition("-")[0]}}
    metadata["annotations"] = {"volcano.sh/vgpu-ids-new": f"{held};", "volcano.sh/preemptable": "false"}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
        ]
    container = {"name": "c", "image": "busybox", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "volcano", "containers": [container], "nodeName": node, **spec},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


async def budget(cluster: Any, app: str, expected: int, name: str = "b") -> None:
    status = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    await cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {**status, "expectedPods": expected},
        }
    )


async def names(cluster: Any) -> list[str]:
    return sorted(each["metadata"]["name"] for each in await cluster.list("Pod"))


async def cordoned(cluster: Any) -> list[str]:
    node = decode_node(json.dumps(await cluster.get("Node", "", "gpu-1")).encode())
    return [each.id for each in node.cordons]


async def run(cluster: Any, *cards: str, system: drain.ReadSystem | None = None, **options: Any) -> int:
    async with asyncio.timeout(60):
        return await drain_cards(cluster, cordon.parse_cards(cards), CORDONING, DrainOptions(**options), system)


async def run_until(
    reached: Callable[[str], bool],
    cluster: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    **options: Any,
) -> tuple[int, list[str]]:
    """Drain GPU-0 of gpu-1 until ``reached`` says so of what is printed; return status and errors."""
    limits: list[asyncio.Timeout] = []

    def limited(seconds: float | None) -> asyncio.Timeout:
        limits.append(asyncio.timeout(seconds))
        return limits[-1]

    monkeypatch.setattr(drain, "time_limit", limited)
    task = asyncio.create_task(run(cluster, "gpu-1/GPU-0", timeout=600.0, **options))
    out = err = ""
    async with asyncio.timeout(60):
        while not reached(out + err):
            assert not task.done()
            found = capsys.readouterr()
            out, err = out + found.out, err + found.err
            await asyncio.sleep(0.01)
    limits[0].reschedule(asyncio.get_running_loop().time())
    status = await task
    return status, (err + capsys.readouterr().err).splitlines()


def unread(name: str, annotations: Mapping[str, str] = {}) -> dict[str, Any]:
    """Return a pod with these annotations in place of its cards."""
    made = pod(name, "GPU-0")
    made["metadata"]["annotations"] = dict(annotations)
    return made
