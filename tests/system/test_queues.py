"""Queues, PodGroups and the action enqueue of a running system, as users see them on the objects."""

import asyncio
import time
from pathlib import Path
from typing import Any

from support.running import RunningSystem

MEMORY = "volcano.sh/vgpu-memory"


def node() -> dict[str, Any]:
    register = ":".join(f"GPU-{at},10,40960,NVIDIA-A100,true,hami-core" for at in range(2)) + ":"
    resources = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "annotations": {"volcano.sh/node-vgpu-register": register}},
        "status": {"allocatable": resources, "capacity": resources},
    }


def queue(memory: int) -> dict[str, Any]:
    spec = {"weight": 1, "capability": {MEMORY: memory}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


def gang(name: str, memory: int) -> dict[str, Any]:
    spec = {"minMember": 2, "queue": "q", "minResources": {MEMORY: str(2 * memory)}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec
    }  # fmt: skip


def member(group: str, number: int, memory: int) -> dict[str, Any]:
    limits = {"volcano.sh/vgpu-number": "1", MEMORY: str(memory)}
    annotations = {"scheduling.k8s.io/group-name": group}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{group}-{number}", "namespace": "default", "annotations": annotations},
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
        },
    }


async def status(system: RunningSystem, kind: str, name: str, **wanted: object) -> dict[str, Any]:
    """Wait until an object has this status, and return it."""
    until = time.monotonic() + 60
    found: dict[str, Any] = {}
    while time.monotonic() < until:
        object_ = await system.cluster.get(kind, "" if kind == "Queue" else "default", name)
        found = (object_ or {}).get("status") or {}
        if all(found.get(field) == value for field, value in wanted.items()):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"{kind} {name}: {found}, not {wanted}\n{system.log}")


async def test_a_gang_waits_outside_its_queue_until_there_is_room_for_what_it_needs(tmp_path: Path) -> None:
    async with RunningSystem(tmp_path) as system:
        first = [gang("first", 10_000), *(member("first", at, 10_000) for at in range(2))]
        second = [gang("second", 15_000), *(member("second", at, 15_000) for at in range(2))]
        await system.cluster.load([node(), queue(40_000), *first])
        await status(system, "PodGroup", "first", phase="Running", running=2)
        await system.cluster.load([*second, gang("none", 5_000)])
        # The third one has no pods yet: Volcano's controller creates them after this phase.
        await status(system, "PodGroup", "none", phase="Inqueue")
        found = await status(system, "PodGroup", "second", phase="Pending")
        (condition,) = found["conditions"]
        assert (condition["type"], condition["reason"]) == ("Unschedulable", "NotEnoughResources")
        assert condition["message"].endswith(
            f"queue 'q' has a capability of 40000 MiB of {MEMORY}, 30000 MiB promised, 30000 MiB asked"
        )
        await status(system, "Queue", "q", pending=1, inqueue=1, running=1)
        assert not (await system.cluster.get("Pod", "default", "second-0") or {})["spec"].get("nodeName")
        await system.cluster.load([queue(60_000)])
        found = await status(system, "PodGroup", "second", phase="Running", running=2)
        assert found["conditions"][-1]["type"] == "Scheduled"
