"""The whole system on a real API server: nodes of all device families, their device plugins, kubelets, and what breaks.

The judges read the API server's objects only. The sizes can be raised by the environment; a full run has 200 nodes,
2,000 pods and 600 more, and plugins that take up to 3 seconds.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import apiserver as kube
from support import mixed
from support.agents import NodeAgents
from support.agents.api import Api, Refused
from support.apiserver import ApiServer
from support.definitions import install
from support.kube_proxy import KubeProxy
from support.other_scheduler import OtherScheduler
from support.running import RunningOnKube
from support.validity import violations

NODES = int(os.environ.get("DEVICESHARE_SYSTEM_NODES", "20"))
PODS = int(os.environ.get("DEVICESHARE_SYSTEM_PODS", "120"))
MORE = int(os.environ.get("DEVICESHARE_SYSTEM_MORE", "40"))
DELAY = float(os.environ.get("DEVICESHARE_SYSTEM_DELAY", "0.5"))
"""Seconds that a device plugin takes, at most."""
FAILURES = 0.02
"""Share of the device plugins' calls that fail."""
PATIENCE = 60 + PODS / 10 + 10 * DELAY
"""Seconds until all pods have to be bound."""
FAULTS = os.environ.get(
    "DEVICESHARE_SYSTEM_FAULTS", "inventory,placement,binder,metrics,bus,apiserver,expired,scheduler"
).split(",")
"""What breaks, one after the other; ``silence`` takes more than two minutes, so it has to be asked for."""
BATCH = max(16, PODS // 10)
"""Pods that come, and as many that go, while it breaks."""
pytestmark = pytest.mark.timeout(300 + PODS)
CRDS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "crds"
NAMESPACE = "work"
PATIENCE_WITH_SILENCE = 130
"""Seconds until a watch that says nothing is taken for dead, and more."""

Object = dict[str, Any]
Way = Callable[[ApiServer], Awaitable[Path]]
"""Returns the kubeconfig by which the system reaches the API server."""


class Cluster:
    """A cluster at work: an API server, the system, the agents of all nodes."""

    def __init__(self, server: ApiServer, api: Api, system: RunningOnKube, agents: NodeAgents) -> None:
        self.server, self.api, self.system, self.agents = server, api, system, agents
        self._created = self._alive = 0
        self._random = random.Random(1)

    async def create_pods(self, count: int) -> None:
        """Create so many pods, with their PodGroups."""
        await create(self.api, mixed.workloads(self._created, count, NAMESPACE))
        self._created += count
        self._alive += count

    async def delete_pods(self, share: float) -> None:
        """Delete pods at random, as a user does: the kubelets end them."""
        pods = self._random.sample(self.agents.pods, int(self._alive * share))
        for pod in pods:
            await self.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
        self._alive -= len(pods)

    async def add_foreign_pods(self, count: int) -> None:
        """Let another scheduler place pods of its own on our nodes, one node after the other."""
        other = OtherScheduler(self.api, NAMESPACE)
        hosts = [name for name, mode in mixed.modes(NODES).items() if mode == "hami-core"]
        for number in range(count):
            self._alive += 1
            await other.place(f"foreign-{self._created}-{number}", hosts[number % len(hosts)])

    async def settled(self, what: str = "") -> None:
        """Wait until all pods are bound and served; nobody may have complained."""
        until = time.monotonic() + PATIENCE + (PATIENCE_WITH_SILENCE if what == "silence" else 0)
        while len(self.agents.pods) != self._alive or self.agents.waiting or not self.agents.idle:
            assert not self.agents.complaints, "\n".join(self.agents.complaints[:20])
            if time.monotonic() > until or self.system.has_ended:
                raise AssertionError(f"{what}: {self._report()}")
            await asyncio.sleep(0.1)
        assert self.agents.complaints == []

    async def check(self) -> None:
        """Judge what the API server says."""
        nodes, pods = [(await self.api.request("GET", f"/api/v1/{kind}"))["items"] for kind in ("nodes", "pods")]
        config = yaml.safe_load(mixed.DEVICE_CONFIG.read_text())["data"]["device-config.yaml"]
        assert violations(nodes, pods, device_config=config) == []
        for pod in pods:
            assert pod["spec"].get("nodeName"), pod
            uid, phase = pod["metadata"]["uid"], pod["status"]["phase"]
            assert phase == ("Failed" if uid in self.agents.failed else "Running"), pod
            asking = {one["name"] for one in pod["spec"]["containers"] if "limits" in one.get("resources", {})}
            if phase == "Running":
                assert set(self.agents.environments[uid]) == asking

    def _report(self) -> str:
        waiting = self.agents.waiting
        told = [
            f"{pod['metadata']['name']}: {condition.get('message', condition)}"
            for pod in waiting
            for condition in pod["status"].get("conditions", [{"message": "not told why"}])
        ]
        return "\n".join([f"{len(waiting)} pods wait; idle: {self.agents.idle}", *told[:20], self.system.log[-4000:]])


@asynccontextmanager
async def cluster(directory: Path, way: Way | None = None) -> AsyncIterator[Cluster]:
    server = ApiServer(kube.binaries(), directory / "kube")
    configuration = directory / "volcano-scheduler.conf"
    configuration.write_text(mixed.CONFIGURATION)
    try:
        await asyncio.to_thread(server.start)
        for path in sorted(CRDS.glob("[!k]*.yaml")):
            await asyncio.to_thread(install, server, yaml.safe_load(path.read_text()))
        options = "--conf", str(configuration), "--scheduler-name", mixed.SCHEDULER
        kubeconfig = await way(server) if way is not None else server.kubeconfig()
        async with (
            Api(server.kubeconfig()) as api,
            NodeAgents(server.kubeconfig(), delay=DELAY, failures=FAILURES, ours=is_ours) as agents,
            RunningOnKube(directory, kubeconfig, *options) as system,
        ):
            for name in (NAMESPACE, "mindx-dl"):
                await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            await create(api, [*mixed.config_maps(NODES), *mixed.nodes(NODES)])
            yield Cluster(server, api, system, agents)
    finally:
        server.stop()


def is_ours(pod: Object) -> bool:
    return bool(pod["spec"]["schedulerName"] == mixed.SCHEDULER)


async def create(api: Api, objects: Iterable[Object]) -> None:
    """Create objects, 16 at a time."""
    limit = asyncio.Semaphore(16)

    async def one(obj: Object) -> None:
        plural = {"ConfigMap": "configmaps", "Node": "nodes", "Pod": "pods", "PodGroup": "podgroups"}[obj["kind"]]
        root = f"/apis/{obj['apiVersion']}" if "/" in obj["apiVersion"] else f"/api/{obj['apiVersion']}"
        namespace = obj["metadata"].get("namespace")
        path = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
        async with limit:
            try:
                await api.request("POST", path, obj)
            except Refused as refusal:
                if refusal.status != 409:  # the server was killed after it had done it
                    raise
            if "status" in obj:
                await api.patch(f"{path}/{obj['metadata']['name']}/status", {"status": obj["status"]})

    await asyncio.gather(*map(one, objects))


async def test_all_families_are_bound_and_served_and_bound_again_after_many_went(tmp_path: Path) -> None:
    async with cluster(tmp_path) as there:
        await there.create_pods(PODS)
        await there.settled()
        await there.check()
        await there.delete_pods(0.3)
        await there.create_pods(MORE)
        await there.settled()
        await there.check()


async def test_ends_valid_whatever_breaks_in_the_middle(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        proxies: list[KubeProxy] = []

        async def through_proxy(server: ApiServer) -> Path:
            proxies.append(await stack.enter_async_context(KubeProxy(server)))
            return Path(proxies[0].kubeconfig(tmp_path))

        there = await stack.enter_async_context(cluster(tmp_path, through_proxy))
        await there.create_pods(PODS)
        await there.settled()
        for fault in FAULTS:
            await there.delete_pods(BATCH / PODS)
            creating = asyncio.create_task(there.create_pods(BATCH))
            await asyncio.sleep(0.2)
            await strike(fault, there, proxies[0])
            await creating
            await there.settled(fault)
            await there.check()


async def strike(fault: str, there: Cluster, proxy: KubeProxy) -> None:
    if fault == "silence":
        proxy.silence()
    elif fault in ("apiserver", "expired"):
        if fault == "expired":
            await asyncio.to_thread(there.server.compact)
        await asyncio.to_thread(there.server.restart_apiserver, 0.5)
    elif fault == "scheduler":
        await there.add_foreign_pods(4)
    else:
        os.kill(there.system.process(fault), signal.SIGKILL)
