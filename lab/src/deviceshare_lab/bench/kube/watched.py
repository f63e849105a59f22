"""A watch of bound pods, which also simulates their device plugins."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec
from deviceshare_cluster.interface import Listed, Object
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.kube.client import MERGE
from deviceshare_inventory.service import WATCH_WINDOW
from deviceshare_localcluster.plugins import served

from deviceshare_lab.bench.kube.client import Client
from deviceshare_lab.bench.kube.workload import PODS


class Watched:
    """Those of the named pods that were bound since the watch began; the client ``plugins`` serves each at once.

    Other pods are ignored: the API server's watch cache may still deliver bindings of an earlier measurement.
    """

    def __init__(self, names: Iterable[str], plugins: Client | None) -> None:
        self._names = frozenset(names)
        self._plugins = plugins
        self._changed = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._serving: set[asyncio.Task[None]] = set()
        self.given: dict[str, tuple[str, dict[str, str]]] = {}
        """Node and annotations of each pod."""
        self.first = self.last = 0.0

    @property
    def serves(self) -> bool:
        """Whether device plugins are simulated."""
        return self._plugins is not None

    @property
    def seconds(self) -> float:
        """The time from the first binding to the last."""
        return self.last - self.first

    async def until(self, count: int) -> None:
        """Wait until ``count`` pods are bound."""
        while len(self.given) < count:
            self._changed.clear()
            await self._changed.wait()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch the pods; at the end wait until all of them are bound and served.

        No pod would be bound any longer to a node where one is not served. So an error of a plugin ends at once what is
        done meanwhile, and is raised.
        """
        try:
            async with KubeCluster(name="bench") as cluster, self._group:
                watch = self._group.create_task(self._watch(cluster))
                await self._changed.wait()
                yield
                await self.until(len(self._names))
                await asyncio.gather(*self._serving)
                watch.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _watch(self, cluster: KubeCluster) -> None:
        listed = False
        async for batch in cluster.watch(["Pod"], window=WATCH_WINDOW):
            for change in batch:
                if isinstance(change, Listed):
                    listed = True
                elif listed and change.raw:
                    self._see(msgspec.json.decode(change.raw))
            if listed:
                self._changed.set()

    def _see(self, pod: Object) -> None:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if not node or name not in self._names or name in self.given:
            return
        self.last = asyncio.get_running_loop().time()
        self.first = self.first or self.last
        annotations = pod["metadata"].get("annotations") or {}
        self.given[name] = node, annotations
        if self._plugins is not None:
            task = self._group.create_task(self._serve(self._plugins, name, annotations))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, plugins: Client, name: str, annotations: dict[str, str]) -> None:
        body = {"metadata": {"annotations": served(annotations)}}
        await plugins.request("PATCH", f"{PODS}/{name}", body, MERGE)
