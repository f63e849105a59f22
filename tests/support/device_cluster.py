"""Clusters with devices of ResourceClaims on a real API server, with the deployed services and the claim controller."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from support import apiserver as kube
from support import deploy
from support.agents.api import Api, Refused
from support.apiserver import ApiServer
from support.deployed import Deployed
from support.devices import DRIVER

DEVICES = 8
"""Devices of a node."""
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

Object = dict[str, Any]


def fixed(nodes: int) -> list[tuple[str, Object]]:
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
    for number in range(nodes):
        name = f"n{number}"
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{at}"} for at in range(DEVICES)]
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        found.append(("/api/v1/nodes", node))
        slices = "/apis/resource.k8s.io/v1/resourceslices"
        found.append((slices, {**API, "kind": "ResourceSlice", "metadata": {"name": f"{name}-gpus"}, "spec": spec}))
    return found


def claiming_pod(name: str, *, by_template: bool = True, scheduler: str = "volcano") -> list[tuple[str, Object]]:
    """Return a pod that uses a claim of the template, or one of its own name."""
    claim = {**API, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": SPEC}
    uses = {"resourceClaimTemplateName": "one-gpu"} if by_template else {"resourceClaimName": name}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
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
    """Return pool and name of the devices of a claim."""
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return [(each["pool"], each["device"]) for each in results]


def reserved(claim: Object) -> list[str]:
    """Return the uids of the pods for which a claim is reserved."""
    return [each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or []]


class DeviceCluster(NamedTuple):
    """An API server with devices and the claim controller, and the system at work on it."""

    server: ApiServer
    api: Api
    system: Deployed

    async def items(self, path: str) -> list[Object]:
        """Return objects."""
        found: list[Object] = (await self.api.request("GET", path))["items"]
        return found

    async def create(self, objects: Iterable[tuple[str, Object]]) -> None:
        """Create objects at their paths."""
        limit = asyncio.Semaphore(16)

        async def one(path: str, obj: Object) -> None:
            async with limit:
                try:
                    await self.api.request("POST", path, obj)
                except Refused as refusal:
                    if refusal.status != 409:  # it was done, and the answer was lost
                        raise

        await asyncio.gather(*(one(path, obj) for path, obj in objects))

    async def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        await self.api.request("DELETE", f"{PODS_AT}/{name}", {"gracePeriodSeconds": 0})


@asynccontextmanager
async def device_cluster(directory: Path, nodes: int, *options: str) -> AsyncIterator[DeviceCluster]:
    """Run a cluster of nodes with devices; skips the test where a program is missing.

    ``options``: those of the API server.
    """
    controller = kube.program("kube-controller-manager")
    at = directory / "kube"
    at.mkdir()
    server = ApiServer(kube.binaries(), at, *options)
    try:
        await asyncio.to_thread(server.start)
        server.run_claim_controller(controller)
        await asyncio.to_thread(deploy.install_all, server, NAMESPACE)
        await asyncio.to_thread(deploy.apply, server, *deploy.read(deploy.KUBERNETES / "resource-claims"))
        async with Api(server.kubeconfig()) as api, Deployed(server, directory, {}) as system:
            found = DeviceCluster(server, api, system)
            await found.create(fixed(nodes))
            for number in range(nodes):
                amounts = {"pods": "110", "cpu": "64", "memory": "64Gi"}
                ready = [{"type": "Ready", "status": "True"}]
                status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
                await api.patch(f"/api/v1/nodes/n{number}/status", {"status": status})
            yield found
    finally:
        server.stop()
