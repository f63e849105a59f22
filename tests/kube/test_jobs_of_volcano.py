"""The Jobs of Volcano's examples and guides run on a real API server, with PodGroups as its controllers make them.

They and their pods are those of ``tests/data/controllers``, the nodes those of ``examples``. As Volcano's controller
does, the test makes the pods of a Job once its PodGroup is admitted to its queue. No manifest has the queues ``root``
and ``default``; the binder creates them and sets the state of every queue.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deviceshare.model.quantities import parse_quantity
from support import deploy
from support.apiserver import ApiServer
from support.definitions import installed
from support.kube_cluster import CleanCluster
from support.plugins import serve
from support.running import RunningOnKube

EXAMPLES = deploy.ROOT / "examples"
RECORDED = deploy.ROOT / "tests" / "data" / "controllers" / "jobs.jsonl.gz"
MERGE = "application/merge-patch+json"
NAMESPACES = "/api/v1/namespaces"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SYSTEM_QUEUES = {"root", "default"}
PATIENCE = 120.0

NETWORK = "networkTopology.mode: 'hard' is not valid"
NUMA = "NUMA nodes, and the topologyPolicy of a task, are not evaluated"
CLAIMS = "the pod uses spec.resourceClaims, which is not evaluated yet"
WAITING = {
    "docs/user-guide/how_to_use_dra_quota.md#6.2": CLAIMS,
    "docs/user-guide/how_to_use_dra_quota.md#7.2": CLAIMS,
    "docs/user-guide/how_to_use_network_topology_aware_scheduling.md#6": NETWORK,
    "docs/user-guide/how_to_use_network_topology_aware_scheduling.md#8": NETWORK,
    "docs/user-guide/how_to_use_numa_aware.md#8": NUMA,
    "docs/user-guide/how_to_use_numa_aware.md#10": NUMA,
    "made/partitions-with-topology": NETWORK,
    "made/other-resources": "queue 'default' is limited to the cluster's 0 of example.com/thing",
}
"""Jobs that wait, with their reasons: what the cluster of the examples does not offer, or nothing evaluates."""


def recorded() -> list[Any]:
    """Return the Jobs whose names can be used again: letters of volumes are masked."""
    rows = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]
    return [row for row in rows if "podgroup" in row and "<letters>" not in json.dumps(row)]


class Scene:
    """The recorded Jobs, each in a namespace of its own."""

    def __init__(self, server: ApiServer, rows: list[Any]) -> None:
        self._server = server
        self.rows = {f"recorded-{number:02}": row for number, row in enumerate(rows)}
        self._with_pods: set[str] = set()

    async def put(self, path: str, obj: Any) -> None:
        await asyncio.to_thread(self._server.request, "POST", path, obj)

    async def items(self, path: str) -> list[Any]:
        found = await asyncio.to_thread(self._server.request, "GET", path)
        return list(found["items"])

    async def submit(self) -> None:
        """Create all PodGroups, their queues and their namespaces."""
        for queue in {row["podgroup"]["spec"]["queue"] for row in self.rows.values()} - SYSTEM_QUEUES:
            await self.put(
                QUEUES,
                {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue}},
            )
        for namespace, row in self.rows.items():
            await self.put(NAMESPACES, {"metadata": {"name": namespace}})
            await self.put(
                f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups",
                moved(row["podgroup"], namespace),
            )

    async def phases(self) -> dict[str, str]:
        """Return the phase of each PodGroup by namespace, and play the controller and the device plugins."""
        phases = {
            group["metadata"]["namespace"]: group.get("status", {}).get("phase", "")
            for group in await self.items(GROUPS)
        }
        for namespace, phase in phases.items():
            if phase not in ("", "Pending") and namespace not in self._with_pods:
                self._with_pods.add(namespace)
                for pod in self.rows[namespace]["pods"]:
                    # Only the API server may fill in the fields of a PriorityClass.
                    pod["spec"] = {
                        name: pod["spec"][name] for name in pod["spec"].keys() - {"priority", "preemptionPolicy"}
                    }
                    await self.put(f"/api/v1/namespaces/{namespace}/pods", moved(pod, namespace))
            if namespace in self._with_pods:
                await asyncio.to_thread(serve, self._server, namespace)
        return phases

    async def waiting(self) -> dict[str, int]:
        """Return how many pods of each Job are not bound, of those that have such."""
        bound = dict.fromkeys(self.rows, 0)
        for pod in await self.items("/api/v1/pods"):
            if pod["spec"].get("nodeName") and pod["metadata"]["namespace"] in bound:
                bound[pod["metadata"]["namespace"]] += 1
        lacking = {row["source"]: len(row["pods"]) - bound[namespace] for namespace, row in self.rows.items()}
        return {source: count for source, count in lacking.items() if count}


def moved(obj: Any, namespace: str) -> Any:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


@pytest.fixture
def kinds(apiserver: ApiServer) -> Iterator[None]:
    """Let there be PodGroups, Queues and the PriorityClasses that the Jobs name."""
    classes = {name: value for row in recorded() for name, value in row.get("priorities", {}).items()}
    for name, value in classes.items():
        one = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        apiserver.request("POST", CLASSES, one | {"value": value})
    with installed(apiserver, *deploy.read(deploy.KUBERNETES / "crds")):
        yield
    for name in classes:
        apiserver.request("DELETE", f"{CLASSES}/{name}")


@pytest.fixture
async def cluster(apiserver: ApiServer, kinds: None) -> AsyncIterator[CleanCluster]:
    """Give the cluster of the examples, without pods."""
    there = {each["metadata"]["name"] for each in apiserver.request("GET", NAMESPACES)["items"]}
    async with CleanCluster(apiserver) as cluster:
        for path in sorted((*EXAMPLES.glob("nodes/*.yaml"), *EXAMPLES.glob("configmaps/*.yaml"))):
            for obj in yaml.safe_load_all(path.read_text()):
                namespace = obj["metadata"].get("namespace", "")
                if namespace and namespace not in there:
                    there.add(namespace)
                    apiserver.request("POST", NAMESPACES, {"metadata": {"name": namespace}})
                await cluster.create(obj)
                if obj["kind"] == "Node":
                    taints = {"spec": {"taints": (obj.get("spec") or {}).get("taints")}}
                    apiserver.request("PATCH", f"/api/v1/nodes/{obj['metadata']['name']}", taints, MERGE)
        yield cluster


async def test_all_jobs_that_the_cluster_has_room_for_run(
    apiserver: ApiServer, cluster: CleanCluster, tmp_path: Path
) -> None:
    scene = Scene(apiserver, recorded())
    options = ("--conf", str(EXAMPLES / "volcano-scheduler.conf"))
    async with RunningOnKube(tmp_path, apiserver.kubeconfig("admin"), *options) as system:
        await scene.submit()
        end = asyncio.get_running_loop().time() + PATIENCE
        while True:
            phases, waiting = await scene.phases(), await scene.waiting()
            running = {scene.rows[namespace]["source"] for namespace, phase in phases.items() if phase == "Running"}
            if (
                waiting.keys() == WAITING.keys()
                and running == {r["source"] for r in scene.rows.values()} - WAITING.keys()
            ):
                break
            assert asyncio.get_running_loop().time() < end, f"{waiting}\n{system.log[-3000:]}"
            await asyncio.sleep(0.5)
        for group in await scene.items(GROUPS):
            source = scene.rows[group["metadata"]["namespace"]]["source"]
            while source in WAITING:
                found = [one for one in group["status"].get("conditions", ()) if one["type"] == "Unschedulable"]
                if found and WAITING[source] in found[0]["message"]:
                    break
                assert asyncio.get_running_loop().time() < end, group
                await asyncio.sleep(0.5)
                name = group["metadata"]["namespace"], group["metadata"]["name"]
                (group,) = [
                    one
                    for one in await scene.items(GROUPS)
                    if (one["metadata"]["namespace"], one["metadata"]["name"]) == name
                ]
        await queues_report_their_pods(scene, end)


async def queues_report_their_pods(scene: Scene, end: float) -> None:
    """Wait until the status of each queue has what its pods have."""
    expected = {"root": 0}
    for row in scene.rows.values():
        if row["source"] not in WAITING:
            queue = row["podgroup"]["spec"]["queue"]
            expected[queue] = expected.get(queue, 0) + len(row["pods"])
            expected["root"] += len(row["pods"])
    while True:
        queues = {each["metadata"]["name"]: each for each in await scene.items(QUEUES)}
        pods = {name: each["status"]["allocated"].get("pods", "0") for name, each in queues.items() if "status" in each}
        if pods == {name: str(expected.get(name, 0)) for name in queues}:
            break
        assert asyncio.get_running_loop().time() < end, f"{pods} is not {expected}"
        await asyncio.sleep(0.5)
    assert {each["status"]["state"] for each in queues.values()} == {"Open"}
    assert {name: queues[name]["spec"]["reclaimable"] for name in SYSTEM_QUEUES} == {"root": False, "default": True}
    allocated = queues["root"]["status"]["allocated"]
    requests = sum(
        parse_quantity(row["podgroup"]["spec"]["minResources"].get("cpu", "0"))
        for row in scene.rows.values()
        if row["source"] not in WAITING
    )
    assert parse_quantity(allocated["cpu"]) >= requests
