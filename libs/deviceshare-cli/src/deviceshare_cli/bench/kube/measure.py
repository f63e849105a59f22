"""The run: pods wait, the whole system binds them, then a bare client binds as many that are equal to them."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from deviceshare_bus.tasks import end
from deviceshare_cluster import KUBE
from deviceshare_cluster.interface import Listed, Object
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.kube.client import MERGE
from deviceshare_cluster.local.plugins import served

from deviceshare_cli.bench.bus.measure import cpu_seconds
from deviceshare_cli.bench.kube.apiserver import Server, api_server
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.system import Wanted, running

IN_FLIGHT = 16
"""Requests of the bare client, and of whoever creates and serves pods."""
CARDS, CARD_MEMORY = 8, 24_576
MEMORY = 1000
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.GPUSharingEnable: true
      deviceshare.SchedulePolicy: spread
      deviceshare.ScheduleWeight: 10
"""
OURS, ALONE, BESIDE = "deviceshare", "alone", "beside"
"""Who binds the pods: the system, and the bare client without and with device plugins at work."""
PODS = "/api/v1/namespaces/default/pods"


class Run(msgspec.Struct, frozen=True):
    """What was measured; times in seconds."""

    seconds: float
    """From the first binding to the last, as a watch shows them."""
    decided_in: float
    """From the start of the service that reads the cluster to the last binding."""
    bare_seconds: float
    """From the first request to the last answer, nobody else being at work."""
    bare_beside_plugins_seconds: float
    """The same while the pods' device plugins answer as well."""
    cpu_seconds: dict[str, float]
    load_before: float
    load_after: float


class Client:
    """Bare requests, :data:`IN_FLIGHT` at a time."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self._limit = asyncio.Semaphore(IN_FLIGHT)

    async def request(self, method: str, path: str, body: Any, content: str = "application/json") -> None:
        """Send a request. Raises CommandError where it is refused."""
        async with (
            self._limit,
            self._session.request(
                method, f"{self._url}{path}", data=msgspec.json.encode(body), headers={"Content-Type": content}
            ) as answer,
        ):
            raw = await answer.read()
            if answer.status >= 400:
                raise CommandError(f"{method} {path}: {answer.status} {raw[:300].decode(errors='replace')}")

    async def create_node(self, node: Object) -> None:
        """Create a node, and then its status, which is not taken with it."""
        await self.request("POST", "/api/v1/nodes", node)
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        await self.request("PATCH", path, {"status": node["status"]}, MERGE)


@asynccontextmanager
async def _client(server: Server) -> AsyncIterator[Client]:
    tls = ssl.create_default_context(cafile=str(server.authority))
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0), headers=headers) as session:
        yield Client(session, server.url)


async def measure(node_count: int, pod_count: int, timeout: float, notices: Notices) -> Run:
    """Start an API server and the system, measure all ways, end it all. Raises CommandError, TimeoutError."""
    async with api_server() as server, asyncio.timeout(timeout):
        os.environ["KUBECONFIG"] = str(server.kubeconfig)  # the services inherit it
        async with _client(server) as client, _client(server) as plugins:
            await _all(client.create_node, [(_node(number),) for number in range(node_count)])
            load = os.getloadavg()[0]
            pods = Pods(plugins)
            async with pods.watched():
                decided_in, spent = await _bound_by_system(client, pods, pod_count, notices)
            bindings = [_binding(*pods.given[_name(OURS, number)]) for number in range(pod_count)]
            alone = await _bare(client, ALONE, bindings)
            async with Pods(plugins).watched():
                beside = await _bare(client, BESIDE, bindings)
    return Run(pods.seconds, decided_in, alone, beside, spent, load, os.getloadavg()[0])


async def _bound_by_system(
    client: Client, pods: "Pods", pod_count: int, notices: Notices
) -> tuple[float, dict[str, float]]:
    """Let the system bind pods that wait; return the seconds from its first look at them, and its CPU seconds."""
    wanted = Wanted(cluster=KUBE, schedulers=(OURS,), metrics_port=0)
    async with running(wanted, notices) as system:
        conf = system.directory / "volcano-scheduler.conf"
        conf.write_text(CONF)
        system.wanted = Wanted(KUBE, conf=conf, schedulers=wanted.schedulers, metrics_port=0)
        await _all(client.request, [("POST", PODS, _pod(OURS, number)) for number in range(pod_count)])
        used, began = cpu_seconds(system), asyncio.get_running_loop().time()
        await system.start_inventory()
        await system.guard(pods.until(pod_count))
        spent = {name: round(seconds - used.get(name, 0.0), 2) for name, seconds in cpu_seconds(system).items()}
        return pods.last - began, spent


async def _bare(client: Client, scheduler: str, bindings: list[Object]) -> float:
    """Create as many pods that are equal to those that the system bound, and bind them; return the seconds of that."""
    count = len(bindings)
    await _all(client.request, [("POST", PODS, _pod(scheduler, number)) for number in range(count)])
    named = [
        (
            f"{PODS}/{_name(scheduler, number)}/binding",
            body | {"metadata": body["metadata"] | {"name": _name(scheduler, number)}},
        )
        for number, body in enumerate(bindings)
    ]
    began = asyncio.get_running_loop().time()
    await _all(client.request, [("POST", path, body) for path, body in named])
    return asyncio.get_running_loop().time() - began


async def _all(send: Callable[..., Awaitable[None]], requests: Iterable[tuple[Any, ...]]) -> None:
    await asyncio.gather(*(send(*request) for request in requests))


class Pods:
    """Watches pods, and plays their device plugins, which answer at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()
        self.given: dict[str, tuple[str, dict[str, str]]] = {}
        """Node and annotations of each pod that was bound."""
        self.first = self.last = 0.0

    @property
    def seconds(self) -> float:
        """The time from the first binding to the last."""
        return self.last - self.first

    async def until(self, count: int) -> None:
        """Wait until so many are bound."""
        while len(self.given) < count:
            self._changed.clear()
            await self._changed.wait()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Watch and serve; at the end all that were seen are served. Those that are bound before count for nothing."""
        async with KubeCluster(name="bench") as cluster:
            watching = asyncio.create_task(self._watch(cluster))
            try:
                await self._changed.wait()
                yield
                await asyncio.gather(*self._serving)
            finally:
                await end(watching)

    async def _watch(self, cluster: KubeCluster) -> None:
        listed = False
        async for batch in cluster.watch(["Pod"]):
            for change in batch:
                if isinstance(change, Listed):
                    listed = True
                elif listed and change.raw:
                    self._see(msgspec.json.decode(change.raw))
            if listed:
                self._changed.set()

    def _see(self, pod: Object) -> None:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if not node or name in self.given:
            return
        self.last = asyncio.get_running_loop().time()
        self.first = self.first or self.last
        annotations = pod["metadata"].get("annotations") or {}
        self.given[name] = node, annotations
        task = asyncio.ensure_future(self._serve(name, annotations))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, name: str, annotations: dict[str, str]) -> None:
        body = {"metadata": {"annotations": served(annotations)}}
        await self._client.request("PATCH", f"{PODS}/{name}", body, MERGE)


def _node(number: int) -> Object:
    devices = {"volcano.sh/gpu-memory": str(CARD_MEMORY * CARDS), "volcano.sh/gpu-number": str(CARDS)}
    resources = {"cpu": "128", "memory": "1Ti", "pods": "250", **devices}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05d}"},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _name(scheduler: str, number: int) -> str:
    return f"{scheduler}-{number:05d}"


def _pod(scheduler: str, number: int) -> Object:
    resources = {"limits": {"volcano.sh/gpu-memory": str(MEMORY)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _name(scheduler, number), "namespace": "default"},
        "spec": {
            "schedulerName": scheduler,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        },
    }


def _binding(node: str, annotations: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "default", "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
