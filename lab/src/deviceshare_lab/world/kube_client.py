"""The connection of a simulated service to the simulated API server: :class:`KubeClient` without HTTP.

Everything above it (watches, retries after conflicts, bindings) is that of the product.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import msgspec
from deviceshare_cluster.interface import Change, ChangeType, ClusterError
from deviceshare_cluster.kube.client import JSON, REQUEST_SECONDS, ApiRefusal, KubeClient, Query
from deviceshare_cluster.kube.cluster import KubeCluster
from deviceshare_cluster.kube.follow import INITIAL_EVENTS_END

from deviceshare_lab.world.apiserver import ApiServer
from deviceshare_lab.world.link import Link, resolve
from deviceshare_lab.world.rest import Target, parse, serve

LATENCY = (0.001, 0.01)
"""Seconds from a client to the API server, and back."""
BOOKMARK = 60.0
"""Seconds between two bookmarks of a watch."""


class ApiFaults:
    """What the API server does wrong at present; shares are from 0 to 1."""

    def __init__(self) -> None:
        self.down = False
        self.lost_requests = 0.0
        self.lost_answers = 0.0
        self.late_requests = 0.0
        """Requests that are executed after their client has given up."""
        self.errors = 0.0
        """Requests that are answered with 500, half of them after they were executed."""
        self.conflicts = 0.0
        """Writes that are answered with 409 although nothing has changed."""
        self.forbidden = False
        """Writes are answered with 403."""
        self.lag = 0.0
        """Seconds that changes take to reach watches."""
        self.lost_changes = 0.0
        """Changes that watches do not deliver."""
        self.oldest = 0
        """Watches from an older revision are answered with 410."""


class Frontend:
    """Accepts the requests and watches of all services, with faults."""

    def __init__(self, server: ApiServer, chance: random.Random) -> None:
        self.server = server
        self.faults = ApiFaults()
        self.watches: dict[Watch, None] = {}
        self.chance = chance
        self.on_bind: Callable[[str, str, str], None] = lambda uid, node, by: None
        """Hears of each request for a binding when it is sent: the pod's uid, the node, and the instance that asks."""
        self.on_evict: Callable[[str, str], None] = lambda uid, by: None
        """Hears of each request to evict a pod, dry runs excepted, when it is sent: its uid, the instance that asks."""

    def happens(self, share: float) -> bool:
        """Draw whether a fault happens."""
        return share > 0.0 and self.chance.random() < share

    def break_watches(self) -> int:
        """End all watches; return how many."""
        watches = list(self.watches)
        for watch in watches:
            watch.end(broken=True)
        return len(watches)

    def silence_watches(self, share: float) -> int:
        """Let some watches fall silent; return how many."""
        chosen = [watch for watch in self.watches if self.happens(share)]
        for watch in chosen:
            watch.silent = True
        return len(chosen)


class Watch:
    """One watch: lines that arrive at its client with a lag."""

    def __init__(self, frontend: Frontend, target: Target, silence: float) -> None:
        self._frontend, self._target, self._silence = frontend, target, silence
        self._link = Link(frontend.chance, *LATENCY)
        self._chunks: list[bytes] = []
        self._arrived = asyncio.Event()
        self._ended = False
        self._broken = False
        self.silent = False
        frontend.watches[self] = None
        frontend.server.watchers[self._changed] = None
        self._loop = asyncio.get_running_loop()
        self._bookmark = self._loop.call_later(BOOKMARK, self._send_bookmark)

    def _changed(self, change: Change) -> None:
        if self._target.covers(change) and not self._frontend.happens(self._frontend.faults.lost_changes):
            self.send("DELETED" if change.type is ChangeType.DELETED else "MODIFIED", change.raw)

    def send(self, event: str, raw: bytes) -> None:
        """Send a line."""
        if not self.silent:
            self._link.delay = self._frontend.faults.lag
            self._link.send(self._arrive, b'{"type":"%s","object":%s}\n' % (event.encode(), raw))

    def _send_bookmark(self) -> None:
        self.send("BOOKMARK", b'{"metadata":{"resourceVersion":"%d"}}' % self._frontend.server.revision)
        self._bookmark = self._loop.call_later(BOOKMARK, self._send_bookmark)

    def _arrive(self, line: bytes) -> None:
        self._chunks.append(line)
        self._arrived.set()

    async def readany(self) -> bytes:
        """Return what has arrived, b'' at the end. Raises OSError, TimeoutError."""
        if not self._chunks and not self._ended:
            self._arrived.clear()
            async with asyncio.timeout(self._silence):
                await self._arrived.wait()
        chunks, self._chunks = self._chunks, []
        if self._broken:
            raise ConnectionResetError("the watch was cut")
        return b"".join(chunks)

    def end(self, *, broken: bool = False) -> None:
        """End the watch."""
        self._ended, self._broken = True, broken
        self._bookmark.cancel()
        self._link.cut()
        self._frontend.watches.pop(self, None)
        self._frontend.server.watchers.pop(self._changed, None)
        self._arrived.set()


class SimulatedKubeClient(KubeClient):
    """A client of the simulated API server; ``name`` is the service."""

    def __init__(self, frontend: Frontend, name: str, instance: str) -> None:
        super().__init__(user_agent=name)
        self._frontend = frontend
        self._by = name
        self._instance = instance

    async def start(self) -> None:
        """Do nothing: there is no connection."""

    async def stop(self) -> None:
        """Do nothing."""

    async def request(
        self, method: str, path: str, query: Query = (), body: Any = None, content: str = JSON, accept: str = JSON
    ) -> bytes:
        """Execute a request. Raises ApiRefusal, ClusterError.

        It is executed later, also if the client is dead by then.
        """
        frontend, faults = self._frontend, self._frontend.faults
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        up, down = frontend.chance.uniform(*LATENCY), frontend.chance.uniform(*LATENCY)
        if faults.down:
            await asyncio.sleep(up)
            raise ClusterError(f"the API server does not answer: {method} {path}: connection refused")
        if path.endswith("/binding"):
            frontend.on_bind(body["metadata"]["uid"], body["target"]["name"], self._instance)
        if path.endswith("/eviction") and "dryRun" not in body["deleteOptions"]:
            frontend.on_evict(body["deleteOptions"]["preconditions"]["uid"], self._instance)
        if method != "GET" and frontend.happens(faults.late_requests):
            up += frontend.chance.uniform(5.0, 50.0)
        if not frontend.happens(faults.lost_requests):
            # The body is what it is now: its sender may change it later.
            loop.call_later(up, self._execute, method, path, msgspec.json.encode(body), down, answer)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await answer
        except TimeoutError as error:
            raise ClusterError(f"the API server does not answer: {method} {path}: {error!r}") from error

    def _execute(self, method: str, path: str, body: bytes, down: float, answer: "asyncio.Future[bytes]") -> None:
        frontend, faults = self._frontend, self._frontend.faults
        result, error = b"", None
        writes = method != "GET"
        failed = frontend.happens(faults.errors)
        if faults.down:
            return
        if writes and faults.forbidden:
            error = ApiRefusal(403, "Forbidden", f"{self._by} cannot {method} {path}")
        elif method == "PATCH" and frontend.happens(faults.conflicts):
            error = ApiRefusal(409, "Conflict", "the object has been modified")
        elif not failed or frontend.happens(0.5):
            try:
                decoded = msgspec.json.decode(body)
                result = serve(frontend.server, method, path, decoded, self._by)
            except ApiRefusal as refusal:
                error = refusal
        raised = ClusterError(f"the API server says 500 to {method} {path}") if failed else error
        if not frontend.happens(faults.lost_answers):
            asyncio.get_running_loop().call_later(down, resolve, answer, result, raised)

    @asynccontextmanager
    async def stream(self, path: str, query: Query, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a watch. Raises ApiRefusal, ClusterError."""
        frontend, faults = self._frontend, self._frontend.faults
        await asyncio.sleep(frontend.chance.uniform(*LATENCY))
        if faults.down or frontend.happens(faults.errors):
            raise ClusterError(f"the API server does not answer: GET {path}")
        options = dict(query)
        target = parse(path)
        server = frontend.server
        watch = Watch(frontend, target, silence)
        if "sendInitialEvents" in options:
            for change in server.listed(target.kind):
                if target.covers(change):
                    watch.send("ADDED", change.raw)
            ended = {"resourceVersion": str(server.revision), "annotations": {INITIAL_EVENTS_END: "true"}}
            watch.send("BOOKMARK", msgspec.json.encode({"metadata": ended}))
        elif (since := int(options["resourceVersion"])) < faults.oldest:
            watch.send("ERROR", b'{"code":410,"message":"too old resource version"}')
        else:
            for change in server.changes:
                if change.revision > since and target.covers(change):
                    watch.send("DELETED" if change.type is ChangeType.DELETED else "MODIFIED", change.raw)
        ending = asyncio.get_running_loop().call_later(float(options["timeoutSeconds"]), watch.end)
        try:
            yield cast(aiohttp.StreamReader, watch)
        except (OSError, TimeoutError) as error:
            raise ClusterError(f"the API server does not answer: GET {path}: {error!r}") from error
        finally:
            ending.cancel()
            watch.end()


class SimulatedCluster(KubeCluster):
    """The product's Kubernetes cluster with a simulated client."""

    def __init__(self, frontend: Frontend, name: str, instance: str) -> None:
        super().__init__(name=name, instance=instance)
        self._api = SimulatedKubeClient(frontend, name, instance)
