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
from deviceshare_cluster.interface import Change, Object
from deviceshare_cluster.local.plugins import served

from deviceshare_cli.bench.bus.measure import cpu_seconds
from deviceshare_cli.bench.kube.apiserver import Server, api_server
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.system import System, Wanted, running

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
PODS = "/api/v1/namespaces/default/pods"


class Run(msgspec.Struct, frozen=True):
    """What was measured; times in seconds."""

    seconds: float
    """From the first binding to the last, as a watch shows them."""
    decided_in: float
    """From the start of the service that reads the cluster to the last binding."""
    bare_seconds: float
    """From the first request to the last answer."""
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
            if answer.status >= 400 and not (answer.status == 409 and path == PODS):
                raise CommandError(f"{method} {path}: {answer.status} {raw[:300].decode(errors='replace')}")


@asynccontextmanager
async def _client(server: Server) -> AsyncIterator[Client]:
    tls = ssl.create_default_context(cafile=str(server.authority))
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0), headers=headers) as session:
        yield Client(session, server.url)


async def measure(node_count: int, pod_count: int, timeout: float, notices: Notices) -> Run:
    """Start an API server and the system, measure both ways, end it all. Raises CommandError."""
    async with api_server() as server:
        os.environ["KUBECONFIG"] = str(server.kubeconfig)  # the services inherit it
        wanted = Wanted(cluster="kube", schedulers=("deviceshare",), metrics_port=0)
        async with (
            running(wanted, notices) as system,
            _client(server) as client,
            _client(server) as plugins,
            asyncio.timeout(timeout),
        ):
            conf = system.directory / "volcano-scheduler.conf"
            conf.write_text(CONF)
            system.wanted = Wanted("kube", conf=conf, schedulers=wanted.schedulers, metrics_port=0)
            return await system.guard(_measure(system, client, Pods(plugins), node_count, pod_count))


async def _measure(system: System, client: Client, pods: "Pods", node_count: int, pod_count: int) -> Run:
    watching = system.beside(pods.watch(system))
    await _all(client.request, [("POST", "/api/v1/nodes", _node(number)) for number in range(node_count)])
    for number in range(node_count):
        node = _node(number)
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        await client.request("PATCH", path, {"status": node["status"]}, "application/merge-patch+json")
    await _all(client.request, [("POST", PODS, _pod(number, "deviceshare")) for number in range(pod_count)])
    load, used = os.getloadavg()[0], cpu_seconds(system)
    began = asyncio.get_running_loop().time()
    await system.start_inventory()
    await pods.until(pod_count)
    ours, decided_in = pods.seconds, pods.last - began
    spent = {name: round(seconds - used.get(name, 0.0), 2) for name, seconds in cpu_seconds(system).items()}
    bodies = [_binding(number, *pods.given[f"pod-{number:05d}"]) for number in range(pod_count)]
    await pods.served(pod_count)
    pods.forget()
    await _all(client.request, [("POST", PODS, _pod(number, "nobody")) for number in range(pod_count)])
    bare = asyncio.get_running_loop().time()
    await _all(client.request, [("POST", f"{PODS}/{body['metadata']['name']}/binding", body) for body in bodies])
    bare = asyncio.get_running_loop().time() - bare
    await end(watching)
    return Run(ours, decided_in, bare, spent, load, os.getloadavg()[0])


async def _all(send: Callable[..., Awaitable[None]], requests: Iterable[tuple[Any, ...]]) -> None:
    await asyncio.gather(*(send(*request) for request in requests))


class Pods:
    """Watches pods, and plays their device plugins, which answer at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()
        self._served = 0
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.given: dict[str, tuple[str, dict[str, str]]] = {}
        """Node and annotations of each pod that was bound."""
        self.first = self.last = 0.0
        self._served = 0

    @property
    def seconds(self) -> float:
        """The time from the first binding to the last."""
        return self.last - self.first

    async def until(self, count: int) -> None:
        """Wait until so many are bound."""
        while len(self.given) < count:
            self._changed.clear()
            await self._changed.wait()

    async def served(self, count: int) -> None:
        """Wait until so many are served."""
        while self._served < count:
            await asyncio.gather(*self._serving)

    async def watch(self, system: System) -> None:
        """Watch and serve, for ever."""
        async for batch in system.backing.cluster.watch(["Pod"]):
            for change in batch:
                if isinstance(change, Change) and change.raw:
                    self._see(msgspec.json.decode(change.raw))
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
        await self._client.request("PATCH", f"{PODS}/{name}", body, "application/merge-patch+json")
        self._served += 1


def _node(number: int) -> Object:
    devices = {"volcano.sh/gpu-memory": str(CARD_MEMORY * CARDS), "volcano.sh/gpu-number": str(CARDS)}
    resources = {"cpu": "128", "memory": "1Ti", "pods": "250", **devices}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05d}"},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _pod(number: int, scheduler: str) -> Object:
    name = f"pod-{number:05d}" if scheduler == "deviceshare" else f"bare-{number:05d}"
    resources = {"limits": {"volcano.sh/gpu-memory": str(MEMORY)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": scheduler,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        },
    }


def _binding(number: int, node: str, annotations: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": f"bare-{number:05d}", "namespace": "default", "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
