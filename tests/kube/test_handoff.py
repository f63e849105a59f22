"""Many pods of one device plugin on a real API server: in turn, and behind a pod that is never served.

The sizes can be raised by the environment.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from deviceshare_lab.checker.objects import violations
from support import apiserver as kube
from support import deploy, manifests, mixed
from support.agents import NodeAgents
from support.agents.api import MERGE, Api
from support.apiserver import ApiServer
from support.deployed import Deployed

PODS = int(os.environ.get("DEVICESHARE_PACKED_PODS", "16"))
"""At most 80: ten on each card of a node."""
DELAY = float(os.environ.get("DEVICESHARE_SYSTEM_DELAY", "0.3"))
"""Seconds that a device plugin takes, at most."""
BETWEEN = 1.0
"""Seconds from a pod that is served, by kubelet's status of it, to the next that is bound, on the average, on a busy
machine."""
PATIENCE = 2.0
"""Seconds until a pod that is not served is reported."""
NAMESPACE = "packed"
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
FORGOTTEN = "forgotten"
HAMI = "hami"
CONFIGURATION = mixed.CONFIGURATION.replace("SchedulePolicy: spread", "SchedulePolicy: binpack")
pytestmark = pytest.mark.timeout(400 + PODS * (DELAY + 1))

Object = dict[str, Any]


class Scene:
    """Two nodes of eight cards, the system, and the agents of the nodes."""

    def __init__(self, server: ApiServer, api: Api, agents: NodeAgents, system: Deployed) -> None:
        self.server, self.api, self.agents, self.system = server, api, agents, system

    async def create(self, name: str, number: int, node: str = "") -> None:
        """Create a pod that asks a number of vGPUs."""
        limits = {"volcano.sh/vgpu-number": str(number), "volcano.sh/vgpu-memory": "8000"}
        pod = mixed.pod(name, NAMESPACE, limits, {}, mixed.SCHEDULER)
        if node:
            pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        await self.api.request("POST", PATH, pod)

    async def pods(self) -> dict[str, Object]:
        """Return all pods by their names."""
        return {pod["metadata"]["name"]: pod for pod in (await self.api.request("GET", PATH))["items"]}

    async def until(self, true: Callable[[dict[str, Object]], bool], seconds: float) -> dict[str, Object]:
        """Wait until a condition of the pods holds, and return them."""
        end = time.monotonic() + seconds
        while not true(pods := await self.pods()):
            assert not self.agents.complaints, self.agents.complaints
            if time.monotonic() > end:
                raise AssertionError(f"{ {name: pod['status'] for name, pod in pods.items()} }\n{self.system.log}")
            await asyncio.sleep(0.05)
        return pods

    async def until_event(self, name: str, reason: str, note: str) -> None:
        """Wait for an Event about a pod."""
        end = time.monotonic() + 60
        while True:
            events = (await self.api.request("GET", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"))["items"]
            said = [(event["reason"], event["note"]) for event in events if event["regarding"]["name"] == name]
            if any(each == reason and note in text for each, text in said):
                return
            assert time.monotonic() < end, (name, said)
            await asyncio.sleep(0.1)

    async def check(self) -> None:
        """Judge the cluster."""
        nodes = (await self.api.request("GET", "/api/v1/nodes"))["items"]
        assert violations(nodes, (await self.pods()).values()) == []
        assert self.agents.complaints == []


def hami_node() -> Object:
    """Return a node of two cards that HAMi's NVIDIA device plugin registers."""
    cards = [
        {"id": f"GPU-hami-{index}", "index": index, "count": 10, "devmem": 16384, "devcore": 100,
         "type": "NVIDIA-Tesla T4", "mode": "hami-core", "health": True}
        for index in range(2)
    ]  # fmt: skip
    resources = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": HAMI, "annotations": {"hami.io/node-nvidia-register": json.dumps(cards)}},
        "status": {"allocatable": resources, "capacity": resources},
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give an API server with two nodes and everything installed."""
    running = ApiServer(kube.binaries(), tmp_path_factory.mktemp("packed") / "kube")
    try:
        running.start()
        deploy.install_all(running, NAMESPACE)
        running.request(
            "POST",
            "/api/v1/namespaces/volcano-system/configmaps",
            {
                "metadata": {"name": "volcano-scheduler-configmap"},
                "data": {"volcano-scheduler.conf": CONFIGURATION},
            },
        )
        for number in range(2):
            node = manifests.node(number)
            node["metadata"]["labels"] = {"kubernetes.io/hostname": node["metadata"]["name"]}
            deploy.create_node(running, node)
        deploy.create_node(running, hami_node())
        yield running
    finally:
        running.stop()


@asynccontextmanager
async def scene(server: ApiServer, directory: Path, ends: float = 0.0) -> AsyncIterator[Scene]:
    """Give the system at work; the pods go at the end. ``ends`` as of :class:`NodeAgents`."""
    options = {"binder": ["--plugin-patience", str(PATIENCE)]}
    forgets = lambda pod: pod["metadata"]["name"] == FORGOTTEN  # noqa: E731
    async with (
        Api(server.kubeconfig()) as api,
        NodeAgents(server.kubeconfig(), delay=DELAY, ends=ends, forgets=forgets) as agents,
        Deployed(server, directory, options) as system,
    ):
        there = Scene(server, api, agents, system)
        yield there
        for name in await there.pods():
            await api.request("DELETE", f"{PATH}/{name}", {"gracePeriodSeconds": 0})


def run(pods: dict[str, Object], *names: str) -> bool:
    """Return whether these pods run, all where none is named."""
    return all(pods[name]["status"]["phase"] == "Running" for name in names or pods)


async def test_many_alike_packed_onto_one_node_are_served_one_after_the_other(
    server: ApiServer, tmp_path: Path
) -> None:
    async with scene(server, tmp_path) as there:
        for number in range(PODS):
            await there.create(f"one-{number}", 1)
        await there.until(lambda pods: any("nodeName" in pod["spec"] for pod in pods.values()), 60)
        began = time.monotonic()
        pods = await there.until(run, 60 + PODS * (DELAY + BETWEEN))
        seconds = time.monotonic() - began
        await there.check()
        assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == 1
        devices = [pod["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] for pod in pods.values()]
        assert len(set(devices)) == -(-PODS // 10), "cards are packed too"
        assert seconds - there.agents.slept < PODS * BETWEEN
        each = (seconds - there.agents.slept) / PODS
        print(f"{PODS} pods: {seconds:.1f} s, {there.agents.slept:.1f} s of it the plugin's; {each:.2f} s for each")  # noqa: T201


async def test_a_pod_that_is_never_served_holds_back_those_like_it_on_its_node_until_it_ends(
    server: ApiServer, tmp_path: Path
) -> None:
    async with scene(server, tmp_path) as there:
        here, elsewhere = "node-00000", "node-00001"
        await there.create(FORGOTTEN, 1, here)
        await there.until(lambda pods: "nodeName" in pods[FORGOTTEN]["spec"], 30)
        for number in range(2):
            await there.create(f"alike-{number}", 1, here)
            await there.create(f"other-{number}", 2, here)
            await there.create(f"elsewhere-{number}", 1, elsewhere)
        free = [f"{name}-{number}" for name in ("other", "elsewhere") for number in range(2)]
        await there.until(lambda pods: run(pods, *free), 60)
        await there.until_event(FORGOTTEN, "DevicePluginStuck", "does not serve this pod, which has 1 vGPU")
        for number in range(2):
            why = f"has not served pod {NAMESPACE}/{FORGOTTEN} yet, which has 1 vGPU"
            await there.until_event(f"alike-{number}", "FailedScheduling", why)
        pods = await there.pods()
        assert [pods[f"alike-{number}"]["spec"].get("nodeName") for number in range(2)] == [None, None]
        await there.api.request("PATCH", f"{PATH}/{FORGOTTEN}/status", {"status": {"phase": "Failed"}}, MERGE)
        alike = ("alike-0", "alike-1")
        await there.until(lambda pods: run(pods, *alike), 60)
        await there.check()


async def test_kubelets_that_end_before_their_checkpoint_give_no_container_the_devices_of_another_pod(
    server: ApiServer, tmp_path: Path
) -> None:
    """They request the devices again: the plugin, which has marked the pod, finds none or those of the pod itself."""
    async with scene(server, tmp_path, ends=0.3) as there:
        for number in range(PODS):
            await there.create(f"one-{number}", 1, "node-00000")
            limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "5"}
            pod = mixed.pod(f"hami-{number}", NAMESPACE, limits, {}, mixed.SCHEDULER)
            await there.api.request("POST", PATH, pod)
        over = lambda pods: all(pod["status"]["phase"] in ("Running", "Failed") for pod in pods.values())  # noqa: E731
        pods = await there.until(over, 240 + 2 * PODS * (DELAY + BETWEEN))
        await there.check()
        failed = {pod["metadata"]["uid"] for pod in pods.values() if pod["status"]["phase"] == "Failed"}
        assert there.agents.asked_again, "some answers were lost"
        assert failed <= there.agents.asked_again


async def test_pods_on_a_node_of_hami_get_their_own_gpus(server: ApiServer, tmp_path: Path) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "10"}
    async with scene(server, tmp_path) as there:
        for number in range(4):
            pod = mixed.pod(f"hami-{number}", NAMESPACE, limits, {}, mixed.SCHEDULER)
            if number % 2:
                second = dict(pod["spec"]["containers"][0], name="second")
                amounts = {**limits, "nvidia.com/gpumem": "2000"}
                second["resources"] = {"limits": amounts, "requests": amounts}
                pod["spec"]["containers"].append(second)
            await there.api.request("POST", PATH, pod)
        pods = await there.until(run, 60)
        await there.check()
        assert {pod["spec"]["nodeName"] for pod in pods.values()} == {HAMI}
        for pod in pods.values():
            written = pod["metadata"]["annotations"]
            slots = [slot.strip(":").split(",") for slot in written["hami.io/vgpu-devices-allocated"].split(";")[:-1]]
            given = there.agents.environments[pod["metadata"]["uid"]]
            assert [
                [each["NVIDIA_VISIBLE_DEVICES"], "NVIDIA", each["CUDA_DEVICE_MEMORY_LIMIT_0"].rstrip("m"), "10"]
                for each in given.values()
            ] == slots
            assert len(slots) == len(pod["spec"]["containers"])
            assert written["hami.io/bind-phase"] == "success"
        node = await there.api.request("GET", f"/api/v1/nodes/{HAMI}")
        assert "hami.io/mutex.lock" not in node["metadata"]["annotations"]
