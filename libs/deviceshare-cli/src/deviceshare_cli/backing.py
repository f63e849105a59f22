"""The cluster of a running system: its own local cluster, loaded from a directory, or a live Kubernetes cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_cluster import KUBE, LOCAL
from deviceshare_cluster.interface import Change, Cluster, ClusterError, Listed
from deviceshare_cluster.kube import KubeCluster
from deviceshare_localcluster import Controller, LocalCluster
from deviceshare_localcluster.kinds import STREAM

from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import Loaded, load


class Backing:
    """The cluster of a running system; a live cluster has its own objects and controllers: nothing to load or run.

    ``spec``: the value of the services' option ``--cluster``.
    """

    def __init__(self, spec: str, cluster: Cluster) -> None:
        self.spec = spec
        self.cluster = cluster

    async def fill(self, schedulers: tuple[str, ...], report: Callable[[str], None]) -> Loaded:
        """Load the initial objects; ``report`` gets one line for each warning and rejected object."""
        return Loaded([], [], [])

    async def sequence(self) -> int:
        """Return the number of writes to the cluster, 0 for a live cluster."""
        return 0

    @property
    def controllers_open(self) -> int:
        """Number of objects that the simulated controllers have not processed yet."""
        return 0

    async def run(self) -> None:
        """Run the simulated controllers until cancelled."""
        await asyncio.Event().wait()


class LocalBacking(Backing):
    """A local cluster on its own nats-server, loaded from a directory of manifests, if there is one."""

    def __init__(self, url: str, cluster: LocalCluster, objects: Connection, directory: Path | None) -> None:
        super().__init__(f"{LOCAL}{url}", cluster)
        self.local = cluster
        self.objects = objects
        """The connection to the cluster's server."""
        self._directory = directory
        self._controller = Controller(cluster)

    async def fill(self, schedulers: tuple[str, ...], report: Callable[[str], None]) -> Loaded:
        """Load the directory."""
        if self._directory is None:
            return await super().fill(schedulers, report)
        return await load(self.local, self._directory, schedulers, report)

    async def sequence(self) -> int:
        """Return the last sequence of the object stream."""
        return int((await self.objects.jetstream.stream_info(STREAM)).state.last_seq)

    @property
    def controllers_open(self) -> int:
        """Number of Jobs and pods that the controllers have not processed yet."""
        return self._controller.open

    @contextmanager
    def observed(self, observer: Callable[[list[Change | Listed]], None]) -> Iterator[None]:
        """Call ``observer`` with the changes that the controllers see meanwhile: they need no second watch."""
        self._controller.observers.append(observer)
        try:
            yield
        finally:
            self._controller.observers.remove(observer)

    async def run(self) -> None:
        """Run the controllers, which create the pods of workloads."""
        await self._controller.run()


@asynccontextmanager
async def kube_backing(spec: str) -> AsyncIterator[Backing]:
    """Connect to the live cluster ``kube`` or ``kube:CONTEXT``. Raises CommandError."""
    try:
        async with KubeCluster(context=spec.partition(":")[2], name="deviceshare-up") as cluster:
            # Fails if the API server is unreachable or rejects the credentials.
            await cluster.get("Node", "", "anything")
            yield Backing(spec, cluster)
    except ClusterError as error:
        raise CommandError(f"--cluster {spec}: {error}") from None


@asynccontextmanager
async def local_backing(url: str, directory: Path | None) -> AsyncIterator[LocalBacking]:
    """Set up a local cluster on a running nats-server; ``directory`` has its manifests."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster(url, name="up"))
        await cluster.setup()
        objects = await connect(url, "up")
        stack.push_async_callback(objects.close)
        yield LocalBacking(url, cluster, objects, directory)


def directory_of(spec: str, option: str = "--cluster ") -> Path | None:
    """Return the directory of ``local:DIR``, None for a live cluster. Raises CommandError."""
    kind, colon, name = spec.partition(":")
    if kind == KUBE:
        return None
    if kind != "local" or not colon or not name:
        raise CommandError(f"{option}{spec}: expected local:DIR, a directory of manifests, kube or kube:CONTEXT")
    directory = Path(name)
    if not directory.is_dir():
        raise CommandError(f"{option}{spec}: {name} is not a directory of manifests")
    return directory
