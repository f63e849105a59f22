"""The run with ResourceClaims: the system binds pods with claims of a template, then kube-scheduler binds as many.

kube-controller-manager makes the claims before either of them starts, and deletes them between the runs.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cluster.interface import Object
from deviceshare_cluster.kube import KubeCluster

from deviceshare_lab.bench.kube.apiserver import ApiServer, find_program
from deviceshare_lab.bench.kube.client import Client, bare_client
from deviceshare_lab.bench.kube.kube_scheduler import NAME, by_kube_scheduler
from deviceshare_lab.bench.kube.measure import Size, api_server, by_system
from deviceshare_lab.bench.kube.watched import Watched
from deviceshare_lab.bench.kube.workload import OURS, PODS, plain_pod
from deviceshare_lab.clusters import objects

DEVICES = 8
"""Devices of a node."""
CONF = objects.conf({"ResourceClaimsEnable": "true"})
PAUSE = 0.2
_API = "resource.k8s.io/v1"
_PROGRAMS = ("kube-controller-manager", "kube-scheduler")


async def measure_claims(size: Size, timeout: float, notices: Notices) -> dict[str, Any]:
    """Return the rates of the system and of kube-scheduler, one after the other on the same API server.

    Raises CommandError, TimeoutError.
    """
    controller, scheduler = (find_program(name) for name in _PROGRAMS)
    if controller is None or scheduler is None:
        raise CommandError(f"ResourceClaims need {' and '.join(_PROGRAMS)}: make kube builds them")
    if size.pods > DEVICES * size.nodes:
        raise CommandError(f"{size.nodes} nodes have {DEVICES * size.nodes} devices, for {size.pods} pods")
    async with api_server() as server, asyncio.timeout(timeout):
        server.run_claim_controller(controller)
        async with bare_client(server, size.in_flight) as client, KubeCluster(name="bench") as cluster:
            await _create_devices(client, size.nodes)
            load = os.getloadavg()[0]
            names = await _create_pods(client, cluster, "ours", OURS, size.pods)
            ours = await _by_system(server, names, notices)
            await _delete_pods(client, cluster, names)
            names = await _create_pods(client, cluster, "other", NAME, size.pods)
            other = await by_kube_scheduler(scheduler, server, names)
    return {
        "nodes": size.nodes,
        "devices": DEVICES * size.nodes,
        "pods": size.pods,
        **ours,
        "kube_scheduler": other,
        "ratio": round(ours["bindings_per_second"] / other["bindings_per_second"], 2),
        "cpus": os.cpu_count(),
        "load_average": {"before": load, "after": os.getloadavg()[0]},
    }


async def _by_system(server: ApiServer, names: list[str], notices: Notices) -> dict[str, Any]:
    watched = Watched(names, None)
    async with watched.watching():
        bound = await by_system(server, watched, names, CONF, notices)
    used = {name: round(1000 * seconds / len(names), 2) for name, seconds in bound.cpu_seconds.items()}
    return {
        "bindings_per_second": round(len(names) / bound.seconds, 1),
        "seconds": round(bound.seconds, 3),
        "cpu_milliseconds_per_pod": used,
    }


async def _create_devices(client: Client, nodes: int) -> None:
    """Create nodes with devices, their class, and the template of claims of one device."""
    names = [f"node-{number:05d}" for number in range(nodes)]
    await asyncio.gather(*(client.create_node(objects.node(name, {"pods": "250"})) for name in names))
    at, claim = f"/apis/{_API}", {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    await client.create(f"{at}/deviceclasses", [_object("DeviceClass", "gpu", {})])
    templates = [_object("ResourceClaimTemplate", "one", {"spec": claim})]
    await client.create(f"{at}/namespaces/default/resourceclaimtemplates", templates)
    await client.create(f"{at}/resourceslices", (_slice(name) for name in names))


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _slice(node: str) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{at}", "attributes": {"uuid": {"string": f"{node}-{at}"}}} for at in range(DEVICES)]
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return _object("ResourceSlice", f"{node}-gpus", spec)


async def _create_pods(client: Client, cluster: KubeCluster, prefix: str, scheduler: str, count: int) -> list[str]:
    """Create pods and wait until each has its claim; return their names."""
    names = [f"{prefix}-{number:05d}" for number in range(count)]
    uses = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    pods = [plain_pod(name, scheduler, resourceClaims=uses) for name in names]
    for each in pods:
        each["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    await client.create(PODS, pods)

    async def made() -> bool:
        return all("resourceClaimStatuses" in each["status"] for each in await cluster.list("Pod"))

    await _until(made)
    return names


async def _delete_pods(client: Client, cluster: KubeCluster, names: list[str]) -> None:
    """Delete pods and wait until their claims are gone."""
    now = {"gracePeriodSeconds": 0}
    await asyncio.gather(*(client.request("DELETE", f"{PODS}/{name}", now) for name in names))

    async def gone() -> bool:
        return not await cluster.list("ResourceClaim")

    await _until(gone)


async def _until(true: Callable[[], Awaitable[bool]]) -> None:
    while not await true():  # noqa: ASYNC110 - a state of the API server
        await asyncio.sleep(PAUSE)
