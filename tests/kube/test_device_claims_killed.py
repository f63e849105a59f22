"""ResourceClaims on a real API server while services are killed: no device twice, nothing left of pods that are gone.

Each service is a process with the manifests' permissions and nothing else. Claims are made of templates, or named by
pods; kube-controller-manager makes and frees them. The judge reads what the API server says.
The number of pods can be raised by the environment: DEVICESHARE_DEVICE_PODS=2000.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.beside import beside
from support.device_cluster import (
    CLAIMS_AT,
    DEVICES,
    PODS_AT,
    DeviceCluster,
    claim_of,
    claiming_pod,
    device_cluster,
    devices_of,
    reserved,
)

PODS = int(os.environ.get("DEVICESHARE_DEVICE_PODS", "48"))
NODES = -(-PODS // DEVICES) + 1
FAULTS = ("binder", "placement", "inventory", "bus")
FINALIZER = "resource.kubernetes.io/delete-protection"
PATIENCE = 60 + PODS / 4
PAUSE = 0.1 + PODS / 1000
"""Seconds between two looks at all pods, which are most of the work of the API server."""
pytestmark = pytest.mark.timeout(600 + 2 * PODS)


class Cluster:
    """A cluster at work, and a judge."""

    def __init__(self, cluster: DeviceCluster) -> None:
        self.items, self.create, self.system = cluster.items, cluster.create, cluster.system
        self._delete, self._follow = cluster.delete_pod, cluster.api.follow
        self.wrong: list[str] = []
        self.names: list[str] = []
        self._made = 0

    async def arrive(self, count: int) -> None:
        numbers = range(self._made, self._made + count)
        self._made += count
        self.names += [f"p{number}" for number in numbers]
        pods = (claiming_pod(f"p{number}", by_template=number % 4 > 0) for number in numbers)
        await self.create(each for objects in pods for each in objects)

    async def leave(self, count: int) -> None:
        gone, self.names = self.names[:count], self.names[count:]
        for name in gone:
            await self._delete(name)

    async def bound(self) -> int:
        return sum(bool(pod["spec"].get("nodeName")) for pod in await self.items(PODS_AT))

    async def watch(self) -> None:
        """Judge every change of a claim: devices of two claims, and of one whose deletion would free used devices."""
        given: dict[str, list[tuple[str, str]]] = {}
        used = Counter[tuple[str, str]]()
        async for event, claim in self._follow(CLAIMS_AT):
            if event == "LISTED":
                given.clear()
                used.clear()
                continue
            name = claim["metadata"]["name"]
            used.subtract(given.pop(name, ()))
            if event != "DELETED" and (devices := devices_of(claim)):
                given[name] = devices
                used.update(devices)
                self.wrong += [f"{device} has {used[device]} claims" for device in devices if used[device] > 1]
                if FINALIZER not in (claim["metadata"].get("finalizers") or ()):
                    self.wrong.append(f"{name} is not protected")

    async def until(self, true: Callable[[], Awaitable[bool]], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not await true():
            assert time.monotonic() < end, f"{what}\n{self.wrong[:5]}\n{await self.waiting()}\n{self.system.log}"
            assert not self.system.has_ended, self.system.log
            await asyncio.sleep(PAUSE)

    async def waiting(self) -> list[str]:
        """Return why pods wait."""
        pods = [pod for pod in await self.items(PODS_AT) if not pod["spec"].get("nodeName")]
        return [f"{pod['metadata']['name']}: {(pod.get('status') or {}).get('conditions')}" for pod in pods[:5]]

    async def all_bound(self) -> bool:
        return await self.bound() == len(self.names)

    async def all_free(self) -> bool:
        claims = await self.items(CLAIMS_AT)
        used = [each for each in claims if reserved(each) or devices_of(each) or each["metadata"].get("finalizers")]
        return not used and not any(each["metadata"].get("ownerReferences") for each in claims)


@asynccontextmanager
async def judged(directory: Path) -> AsyncIterator[Cluster]:
    async with device_cluster(directory, NODES) as cluster:
        found = Cluster(cluster)
        async with beside(found.watch()):
            yield found


async def test_claims_survive_kills_of_all_services(tmp_path: Path) -> None:
    async with judged(tmp_path) as found:
        began = time.monotonic()
        await found.arrive(PODS)
        await found.until(found.all_bound, "the first pods are not bound")
        print(f"{PODS} pods with claims in {time.monotonic() - began:.1f} s")  # noqa: T201
        for fault in FAULTS:
            await found.leave(PODS // 2)
            before = await found.bound()
            creating = asyncio.create_task(found.arrive(PODS // 2))

            async def some(enough: int = before + PODS // 8) -> bool:
                return await found.bound() >= enough

            await found.until(some, f"before {fault} was killed")
            began = time.monotonic()
            found.system.kill(fault)
            await creating
            # Some go whose claims are being written.
            await found.leave(PODS // 8)
            await found.until(found.all_bound, f"after {fault} was killed")
            print(f"{fault} killed: all pods bound after {time.monotonic() - began:.1f} s")  # noqa: T201
            await found.arrive(PODS // 8)
        await found.until(found.all_bound, "at the end")
        claims = {claim["metadata"]["name"]: claim for claim in await found.items(CLAIMS_AT)}
        for pod in await found.items(PODS_AT):
            claim = claims[claim_of(pod)]
            assert [where for where, _ in devices_of(claim)] == [pod["spec"]["nodeName"]]
            assert reserved(claim) == [pod["metadata"]["uid"]]
        began = time.monotonic()
        await found.leave(len(found.names))
        await found.until(found.all_free, "something is left of pods that are gone")
        print(f"all claims are free after {time.monotonic() - began:.1f} s")  # noqa: T201
        assert found.wrong == []
