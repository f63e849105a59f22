"""ResourceClaims on a real API server while services are killed: no device twice, nothing left of pods that are gone.

Each service is a process with the manifests' permissions and nothing else. Claims are made of templates, or named by
pods; kube-controller-manager makes and frees them. The judge reads what the API server says.
The number of pods can be raised by the environment: DEVICESHARE_DEVICE_PODS=2000.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support import apiserver as kube
from support import deploy
from support.agents.api import Api
from support.apiserver import ApiServer
from support.deployed import Deployed
from support.devices import DRIVER

PODS = int(os.environ.get("DEVICESHARE_DEVICE_PODS", "48"))
DEVICES = 8
"""Devices of a node."""
NODES = -(-PODS // DEVICES) + 1
FAULTS = ("binder", "placement", "inventory", "bus")
FINALIZER = "resource.kubernetes.io/delete-protection"
PATIENCE = 60 + PODS / 10
NAMESPACE = "work"
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments: {deviceshare.ResourceClaimsEnable: true}
"""
PODS_AT = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS_AT = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
API = {"apiVersion": "resource.k8s.io/v1"}
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
pytestmark = pytest.mark.timeout(600 + 2 * PODS)

Object = dict[str, Any]


def fixed() -> list[tuple[str, Object]]:
    """Return the paths and objects of a cluster without pods."""
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "data": {"volcano-scheduler.conf": CONFIGURATION},
    }
    device_class = {**API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    template = {**API, "kind": "ResourceClaimTemplate", "metadata": {"name": "one-gpu"}, "spec": {"spec": SPEC}}
    found = [
        ("/api/v1/namespaces/volcano-system/configmaps", config),
        ("/apis/resource.k8s.io/v1/deviceclasses", device_class),
        (f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates", template),
    ]
    for number in range(NODES):
        name = f"n{number}"
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{at}"} for at in range(DEVICES)]
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        found.append(("/api/v1/nodes", node))
        slices = "/apis/resource.k8s.io/v1/resourceslices"
        found.append((slices, {**API, "kind": "ResourceSlice", "metadata": {"name": f"{name}-gpus"}, "spec": spec}))
    return found


def claiming_pod(name: str, *, by_template: bool) -> list[tuple[str, Object]]:
    """Return a pod that uses a claim of the template, or one of its own name."""
    claim = {**API, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": SPEC}
    uses = {"resourceClaimTemplateName": "one-gpu"} if by_template else {"resourceClaimName": name}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", **uses}],
            "containers": [
                {"name": "c", "image": "x", "resources": {"requests": {"cpu": "10m"}, "claims": [{"name": "gpu"}]}}
            ],
        },
    }
    return [(PODS_AT, pod)] if by_template else [(CLAIMS_AT, claim), (PODS_AT, pod)]


def claim_of(pod: Object) -> str:
    """Return the name of the claim that a pod uses."""
    (uses,) = pod["spec"]["resourceClaims"]
    made = (pod.get("status") or {}).get("resourceClaimStatuses") or [{}]
    return str(uses.get("resourceClaimName") or made[0].get("resourceClaimName", ""))


def devices_of(claim: Object) -> list[tuple[str, str]]:
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return [(each["pool"], each["device"]) for each in results]


def reserved(claim: Object) -> list[str]:
    return [each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or []]


class Cluster:
    """A cluster at work, and a judge."""

    def __init__(self, api: Api, system: Deployed) -> None:
        self.api, self.system = api, system
        self.wrong: list[str] = []
        self.names: list[str] = []
        self._made = 0

    async def items(self, path: str) -> list[Object]:
        found: list[Object] = (await self.api.request("GET", path))["items"]
        return found

    async def create(self, objects: Iterable[tuple[str, Object]]) -> None:
        limit = asyncio.Semaphore(16)

        async def one(path: str, obj: Object) -> None:
            async with limit:
                await self.api.request("POST", path, obj)

        await asyncio.gather(*(one(path, obj) for path, obj in objects))

    async def arrive(self, count: int) -> None:
        numbers = range(self._made, self._made + count)
        self._made += count
        self.names += [f"p{number}" for number in numbers]
        pods = (claiming_pod(f"p{number}", by_template=number % 4 > 0) for number in numbers)
        await self.create(each for objects in pods for each in objects)

    async def leave(self, count: int) -> None:
        gone, self.names = self.names[:count], self.names[count:]
        for name in gone:
            await self.api.request("DELETE", f"{PODS_AT}/{name}", {"gracePeriodSeconds": 0})

    async def bound(self) -> int:
        return sum(bool(pod["spec"].get("nodeName")) for pod in await self.items(PODS_AT))

    async def watch(self) -> None:
        """Judge all claims again and again."""
        while True:
            self.judge(await self.items(CLAIMS_AT))
            await asyncio.sleep(0.1)

    def judge(self, claims: list[Object]) -> None:
        """Note devices of two claims, and devices of a claim that its deletion would free while they are used."""
        used = Counter(device for claim in claims for device in devices_of(claim))
        self.wrong += [f"{device} has {count} claims" for device, count in used.items() if count > 1]
        for claim in claims:
            if devices_of(claim) and FINALIZER not in (claim["metadata"].get("finalizers") or ()):
                self.wrong.append(f"{claim['metadata']['name']} is not protected")

    async def until(self, true: Callable[[], Awaitable[bool]], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not await true():
            assert time.monotonic() < end, f"{what}\n{self.wrong[:5]}\n{await self.waiting()}\n{self.system.log}"
            assert not self.system.has_ended, self.system.log
            await asyncio.sleep(0.1)

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
async def cluster(directory: Path) -> AsyncIterator[Cluster]:
    at = directory / "kube"
    at.mkdir()
    server = ApiServer(kube.binaries(), at)
    try:
        await asyncio.to_thread(server.start)
        server.run_claim_controller(kube.program("kube-controller-manager"))
        await asyncio.to_thread(deploy.install_all, server, NAMESPACE)
        await asyncio.to_thread(deploy.apply, server, *deploy.read(deploy.KUBERNETES / "resource-claims"))
        async with Api(server.kubeconfig()) as api, Deployed(server, directory, {}) as system:
            found = Cluster(api, system)
            await found.create(fixed())
            for number in range(NODES):
                amounts = {"pods": "110", "cpu": "64", "memory": "64Gi"}
                ready = [{"type": "Ready", "status": "True"}]
                status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
                await api.patch(f"/api/v1/nodes/n{number}/status", {"status": status})
            watching = asyncio.create_task(found.watch())
            try:
                yield found
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
    finally:
        server.stop()


async def test_claims_survive_kills_of_all_services(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
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
