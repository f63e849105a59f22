"""A tenant who creates large pods: the services stay below their shipped limits of memory, and place other pods.

``DEVICESHARE_ATTACK_SHARE=1`` creates all pods of the attack; by default a part. From one half to the next a service
may grow by a small multiple of what it is sent: a fact keeps a bounded part of one object.
"""

import asyncio
import json
import os
import re
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml
from deviceshare_cluster.interface import Object
from support.hostile_pods import ATTACK
from support.manifests import node, pod
from support.running import RunningSystem

SHARE = float(os.environ.get("DEVICESHARE_ATTACK_SHARE", "0.06"))
"""The part of the attack that is created."""
MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"
SERVICES = ("inventory", "placement", "binder", "metrics")
NODES = 10
CHUNK = 20
LONG = 600.0
"""Seconds, on any machine."""
WAITS = 4
"""How often the test waits for so long, at most."""
FACTOR = 4
"""Bytes that a service may grow by for each byte of JSON that is sent to it."""
NOISE = 24.0
"""MiB that a service may grow by besides. Measured with a share of 0.06, 16 MiB in the second half, on two busy cores:
placement and metrics grew by at most 1 MiB, inventory by 18, binder by 45; without the bounds placement grew by 109.
"""
pytestmark = pytest.mark.timeout(WAITS * LONG + 300 + 2000 * SHARE)


def shipped_limit(service: str) -> float:
    """Return the limit of memory in the manifest of a service, in MiB."""
    for manifest in yaml.safe_load_all((MANIFESTS / f"{service}.yaml").read_text()):
        if manifest["kind"] == "Deployment":
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            return float(container["resources"]["limits"]["memory"].removesuffix("Gi")) * 1024
    raise AssertionError(service)


def memory(pid: int) -> tuple[float, float]:
    """Return a process's resident memory, and its peak, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, peak = (re.findall(rf"{name}:\s*(\d+) kB", status)[0] for name in ("VmRSS", "VmHWM"))
    return int(now) / 1024, int(peak) / 1024


def stored(obj: Object) -> Object:
    """Return a pod as an API server stores it: admission of the local cluster would take most of the time."""
    obj["metadata"] |= {
        "uid": str(uuid.uuid4()),
        "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return obj | {"status": {"phase": "Pending"}}


def labelled_node(number: int) -> Object:
    found = node(number)
    found["metadata"]["labels"] = {"kubernetes.io/hostname": found["metadata"]["name"]}
    return found


def refusal(obj: Object) -> str:
    """Return the message of the condition PodScheduled of a pod."""
    conditions: list[dict[str, Any]] = obj["status"].get("conditions") or []
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")


async def create(system: RunningSystem, first: bool) -> float:
    """Create the first or the second half of the pods, and wait until all are explained; return their JSON in MiB."""
    created, size = 0, 0
    for make, count in ATTACK.items():
        half = max(1, round(SHARE * count / 2))
        numbers = range(half) if first else range(half, 2 * half)
        created += numbers.stop
        for start in range(0, half, CHUNK):
            pods = [stored(make(number)) for number in numbers[start : start + CHUNK]]
            size += sum(len(json.dumps(pod, separators=(",", ":"))) for pod in pods)
            await system.cluster._store.create_all(pods)
    async with asyncio.timeout(LONG):
        while True:
            waiting = [each for each in await system.cluster.list("Pod") if not each["spec"].get("nodeName")]
            if len(waiting) == created and all("at most" in refusal(each) for each in waiting):
                return size / 2**20
            await asyncio.sleep(1.0)  # a list takes as long as all objects


async def test_large_pods_are_refused_below_the_shipped_limits(tmp_path: Path) -> None:
    # Core logs have a bound of their own, in bytes.
    async with RunningSystem(tmp_path, None, DEVICESHARE_CORE_LOG_ENTRIES="20") as system:
        cluster = system.cluster
        await cluster.load([labelled_node(number) for number in range(NODES)])
        await cluster.load([pod(0)])
        await system.bound(cluster, 1, within=LONG)
        pids = {service: system.process(service) for service in SERVICES}
        await create(system, first=True)
        at_half = {service: memory(pid)[0] for service, pid in pids.items()}
        sent = await create(system, first=False)
        await cluster.load([pod(1)])
        await system.bound(cluster, 2, within=LONG)

        for service, pid in pids.items():
            assert system.process(service) == pid, f"{service} was restarted"
            now, peak = memory(pid)
            print(f"{service}: {at_half[service]:.0f} MiB, then {now:.0f}, peak {peak:.0f}; sent {sent:.0f}")  # noqa: T201
            assert now - at_half[service] <= FACTOR * sent + NOISE, (service, at_half[service], now, sent)
            assert peak < shipped_limit(service), (service, peak)
