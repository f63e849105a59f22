"""ConfigMaps change while ``deviceshare`` runs: waiting pods are placed, errors reported, and running pods go on."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.running import RunningSystem, http_get

PUBLISHED = Path(__file__).parents[1] / "data" / "device-configs" / "volcano-vgpu-device-plugin.yaml"
DEVICES = "volcano-vgpu-device-config"
IDS = "volcano.sh/vgpu-ids-new"

RENAMED = "nvidia:\n  resourceCountName: acme.io/gpus\n  resourceMemoryName: acme.io/mebibytes\n"
NAMING = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.KnownGeometriesCMName: mine
      deviceshare.KnownGeometriesCMNamespace: volcano-system
"""


def node(name: str, mode: str, **resources: str) -> dict[str, Any]:
    register = f"GPU-{name},7,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,{mode}:"
    offered = {"volcano.sh/vgpu-number": "7", "volcano.sh/vgpu-memory": "40960", "volcano.sh/vgpu-cores": "100"}
    resources = {"cpu": "8", "memory": "16Gi", "pods": "110", **offered, **resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"volcano.sh/node-vgpu-register": register}},
        "status": {"allocatable": resources, "capacity": resources},
    }


def pod(name: str, **limits: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
        },
    }


def vgpu(name: str, memory: int) -> dict[str, Any]:
    return pod(name, **{"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)})


def config_map(name: str, namespace: str, key: str, text: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def devices(text: str, name: str = DEVICES, namespace: str = "kube-system") -> dict[str, Any]:
    return config_map(name, namespace, "device-config.yaml", text)


class System:
    """A running system, and what a user reads of it."""

    def __init__(self, system: RunningSystem, directory: Path) -> None:
        self.cluster = system.cluster
        self._log = system
        self._run = json.loads((directory / "run" / "run.json").read_text())

    async def until(self, true: Any, what: str) -> Any:
        until = time.monotonic() + 60
        while not (found := await true()):
            assert time.monotonic() < until, f"{what}\n{self._log.log}"
            await asyncio.sleep(0.05)
        return found

    async def given(self, name: str) -> str:
        """Wait until a pod is bound; return its vGPUs."""

        async def bound() -> Any:
            found = await self.cluster.get("Pod", "default", name)
            return found if found is not None and found["spec"].get("nodeName") else None

        found = await self.until(bound, f"{name} is not bound")
        return str(found["metadata"]["annotations"].get(IDS, ""))

    async def refused(self, name: str) -> str:
        """Wait until a pod has a reason why it is pending, and return the reason."""

        async def condition_message() -> str:
            found = await self.cluster.get("Pod", "default", name)
            conditions = found.get("status", {}).get("conditions", ()) if found is not None else ()
            return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")

        return str(await self.until(condition_message, f"{name} has no reason"))

    async def event(self, reason: str) -> dict[str, Any]:
        """Wait for an Event about a ConfigMap."""

        async def found() -> Any:
            events = await self.cluster.list("Event")
            return next((one for one in events if one["reason"] == reason), None)

        return dict(await self.until(found, f"no Event {reason}"))

    async def shown(self, device: str, *, memory_used: int) -> None:
        """Wait until this many MiB of a card are shown as used."""

        def read() -> bool:
            try:
                items = json.loads(http_get(self._run, "/api/v1/devices"))["items"]
            except OSError:  # the service may still be starting
                return False
            return [one["memory_used"] for one in items if one["id"] == device] == [memory_used]

        await self.until(lambda: asyncio.to_thread(read), f"{device} is not shown with {memory_used} MiB")


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with RunningSystem(tmp_path) as running:
        yield System(running, tmp_path)


async def test_a_mig_pod_is_placed_when_the_geometry_of_its_card_arrives(system: System) -> None:
    await system.cluster.create(node("a", "mig"))
    await system.cluster.create(vgpu("first", 6000))
    assert "knownMigGeometries" in await system.refused("first")
    geometries = next(yaml.safe_load_all(PUBLISHED.read_text()))["data"]["device-config.yaml"]
    await system.cluster.create(devices(geometries.replace("count: 7", "count: 0")))
    event = await system.event("InvalidConfiguration")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("ConfigMap", DEVICES)
    assert "geometries[0].count: '0' is not valid: expected a whole number from 1" in event["message"]

    await system.cluster.apply(devices(geometries))
    assert (await system.given("first")).startswith("GPU-a[group2-")
    await system.shown("GPU-a", memory_used=10240)

    # An invalid ConfigMap changes nothing for later pods.
    await system.cluster.apply(devices("nvidia: {knownMigGeometries: 5}"))
    await system.cluster.create(vgpu("second", 3000))
    assert (await system.given("second")).startswith("GPU-a[group2-")


async def test_another_config_map_is_named_and_deleted(system: System) -> None:
    await system.cluster.create(node("a", "hami-core", **{"acme.io/gpus": "7", "acme.io/mebibytes": "40960"}))
    await system.cluster.create(devices(RENAMED, "mine", "volcano-system"))
    await system.cluster.create(vgpu("usual", 1000))
    assert (await system.given("usual")).startswith("GPU-a,NVIDIA,1000")
    renamed = pod("renamed", **{"acme.io/gpus": "1", "acme.io/mebibytes": "2000"})
    await system.cluster.create(
        config_map("volcano-scheduler-configmap", "volcano-system", "volcano-scheduler.conf", NAMING)
    )
    await system.cluster.create(renamed)
    assert (await system.given("renamed")).startswith("GPU-a,NVIDIA,2000")
    await system.cluster.delete("ConfigMap", "volcano-system", "mine")
    event = await system.event("InvalidConfiguration")
    assert "deviceshare.KnownGeometriesCMName names this ConfigMap" in event["message"]
    await system.cluster.create(vgpu("usual-again", 3000))
    assert (await system.given("usual-again")).startswith("GPU-a,NVIDIA,3000")
