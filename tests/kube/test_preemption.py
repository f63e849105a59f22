"""Pods go for others on a real API server, while placement and binder are killed: as few as needed, and as budgets say.

The test plays the kubelets, the GPU plugin, and the disruption controller, which keeps the status of budgets. There are
``DEVICESHARE_PREEMPTIONS`` pods (24) of high priority, each of which needs the room of one of low priority.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import gpus
from support.apiserver import ApiServer
from support.beside import beside
from support.definitions import installed
from support.deploy import KUBERNETES, read
from support.kube_cluster import CleanCluster
from support.plugins import serve
from support.running import RunningOnKube

PREEMPTIONS = int(os.environ.get("DEVICESHARE_PREEMPTIONS", "24"))
MEMORY, ON_CARD = 24576, 3
"""MiB of a card, and how many of these pods fit on it."""
CARDS = 2
KILLS = max(8, PREEMPTIONS // 42)
"""How often a process is killed: `up` ends when one has ended five times within ten seconds of its start."""
PODS, CLASSES = "/api/v1/namespaces/default/pods", "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
PATIENCE = 120.0 + 2.0 * PREEMPTIONS
CONF = objects.conf(
    {"GPUSharingEnable": "true"},
    plugins=("priority", "gang", "conformance", "predicates"),
    actions=("enqueue", "allocate", "preempt", "backfill"),
)
GUARDED = {"fixed": 4, "shrinks": 3}
"""The pods of each budget that have to stay, of four."""


class Kubelets:
    """Runs and ends the pods, and keeps the status of their budgets."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.evicted: dict[str, str] = {}
        """The pods that were terminating, by uid, with their names."""
        self.violations: list[str] = []

    def _request(self, method: str, path: str, body: Any, content: str = "application/json") -> None:
        """Send a request whose object may be gone, or have another version than was read."""
        try:
            self._server.request(method, path, body, content)
        except HTTPError as error:
            if error.code not in (404, 409):
                raise

    async def play(self) -> None:
        while True:
            await asyncio.to_thread(self._turn)
            await asyncio.sleep(0.05)

    def _turn(self) -> None:
        budgets = self._server.request("GET", BUDGETS)["items"]
        pods = self._server.request("GET", PODS)["items"]
        for pod in pods:
            path = f"{PODS}/{pod['metadata']['name']}"
            if "deletionTimestamp" in pod["metadata"]:
                self.evicted[pod["metadata"]["uid"]] = pod["metadata"]["name"]
            elif pod["spec"].get("nodeName") and pod["status"].get("phase") != "Running":
                ready = [{"type": "Ready", "status": "True"}]
                status = {"phase": "Running", "conditions": ready}
                self._request("PATCH", f"{path}/status", {"status": status}, MERGE)
        serve(self._server, "default")
        for budget in budgets:
            self._count(budget, pods)
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
                self._request("DELETE", f"{PODS}/{pod['metadata']['name']}", options)

    def _count(self, budget: Any, pods: list[Any]) -> None:
        """Write the status of a budget, unless an eviction was counted since it was read."""
        wanted = budget["spec"]["selector"]["matchLabels"]
        selected = [pod for pod in pods if wanted.items() <= pod["metadata"].get("labels", {}).items()]
        healthy = sum(
            pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in selected
        )
        least = budget["spec"]["minAvailable"]
        if budget.get("status", {}).get("currentHealthy", 0) >= least > healthy:
            self.violations.append(f"{budget['metadata']['name']}: {healthy} of {least}")
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": least,
            "disruptionsAllowed": max(0, healthy - least),
            "expectedPods": len(selected),
            "observedGeneration": budget["metadata"]["generation"],
        }
        kept = {name: value for name, value in budget.get("status", {}).items() if name in status}
        if kept == status:
            return
        self._request("PUT", f"{BUDGETS}/{budget['metadata']['name']}/status", {**budget, "status": status})


@asynccontextmanager
async def kubelets(server: ApiServer) -> AsyncIterator[Kubelets]:
    played = Kubelets(server)
    async with beside(played.play()):
        yield played


async def bound(cluster: CleanCluster) -> int:
    """Return how many pods of high priority are bound."""
    pods = await cluster.list("Pod")
    return sum(each["metadata"]["name"].startswith("high-") and "nodeName" in each["spec"] for each in pods)


async def until_bound(cluster: CleanCluster, count: int, system: RunningOnKube) -> None:
    """Wait until so many pods of high priority are bound."""
    try:
        async with asyncio.timeout(PATIENCE):
            while await bound(cluster) < count:
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{await bound(cluster)} of {count} are bound\n{system.log}") from None


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[CleanCluster]:
    """Give a cluster with as many cards as pods of low priority fill twice over what is needed."""
    for name, value in (("low", 10), ("high", 1000)):
        apiserver.request("POST", CLASSES, objects.priority_class(name, value))
    with installed(apiserver, *read(KUBERNETES / "crds")):
        async with CleanCluster(apiserver) as cluster:
            for number in range(-(-2 * PREEMPTIONS // (CARDS * ON_CARD))):
                published = gpus(CARDS, MEMORY)
                await cluster.create(objects.node(f"node-{number}", published.resources, published.annotations))
            yield cluster
    for name in ("low", "high"):
        apiserver.request("DELETE", f"{CLASSES}/{name}")


def pod(name: str, priority: str, **labels: str) -> Any:
    limits = {"volcano.sh/gpu-memory": str(MEMORY // ON_CARD)}
    return objects.pod(
        name, limits, labels=labels, priorityClassName=priority, terminationGracePeriodSeconds=1, **objects.TOLERANT
    )


async def test_as_few_pods_as_needed_go_while_processes_are_killed(
    apiserver: ApiServer, cluster: CleanCluster, tmp_path: Path
) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(CONF)
    room = -(-2 * PREEMPTIONS // (CARDS * ON_CARD)) * CARDS * ON_CARD
    low = [pod(f"{name}-{number}", "low", budget=name) for name in GUARDED for number in range(4)]
    low += [pod(f"low-{number}", "low") for number in range(room - len(low))]
    for name, least in GUARDED.items():
        await asyncio.to_thread(apiserver.request, "POST", BUDGETS, objects.budget(name, least, {"budget": name}))
    options = (tmp_path, apiserver.kubeconfig("admin"), "--conf", str(conf))
    async with kubelets(apiserver) as played, RunningOnKube(*options) as system:
        for each in low:
            await cluster.create(each)
        await system.bound(cluster, room, within=PATIENCE)
        for number in range(PREEMPTIONS):
            await cluster.create(pod(f"high-{number}", "high"))
        for turn, number in enumerate(range(1, PREEMPTIONS, -(-PREEMPTIONS // KILLS))):
            # While the next pods are nominated, asked, evicted, or bound.
            await until_bound(cluster, number, system)
            name = ("binder", "placement")[turn % 2]
            process = system.process(name)
            os.kill(process, signal.SIGKILL)
            await system.restarted(name, process)
        await until_bound(cluster, PREEMPTIONS, system)
        pods = {each["metadata"]["name"]: each for each in await cluster.list("Pod")}
    assert not played.violations
    high = [name for name, each in pods.items() if name.startswith("high-") and each["spec"].get("nodeName")]
    assert len(high) == PREEMPTIONS
    evicted = sorted(played.evicted.values())
    assert len(evicted) == PREEMPTIONS, "one for each, none in vain"
    assert not [name for name in evicted if name.startswith(("high-", "fixed-"))]
    assert len([name for name in evicted if name.startswith("shrinks-")]) <= 1
