"""The cluster of a running system: its own local cluster, loaded from a directory, or a live Kubernetes cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from deviceshare_bus.connection import Connection, connect
from deviceshare_cluster import KUBE, LOCAL
from deviceshare_cluster.interface import Cluster, ClusterError
from deviceshare_cluster.kube import KubeCluster
from deviceshare_cluster.local import Controller, LocalCluster
from deviceshare_cluster.local.kinds import STREAM

from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import Loaded, load

NOTHING = Loaded([], [], [])


class Backing(Protocol):
    """The interface of a cluster for ``up``."""

    @property
    def spec(self) -> str:
        """The value of the services' option ``--cluster``."""
        ...

    @property
    def cluster(self) -> Cluster:
        """The connected cluster."""
        ...

    async def fill(self, schedulers: tuple[str, ...], report: Callable[[str], None]) -> Loaded:
        """Load the initial objects; ``report`` gets one line for each warning and rejected object."""
        ...

    async def sequence(self) -> int:
        """Return the number of writes to the cluster, 0 for a live cluster."""
        ...

    @property
    def controllers_open(self) -> int:
        """Number of objects that the simulated controllers have not processed yet."""
        ...

    async def run(self) -> None:
        """Run the simulated controllers until cancelled."""
        ...


class LocalBacking:
    """A local cluster on its own nats-server, loaded from a directory of manifests."""

    def __init__(self, url: str, cluster: LocalCluster, objects: Connection, directory: Path | None) -> None:
        self.spec = f"{LOCAL}{url}"
        self.cluster = cluster
        self.objects = objects
        """The connection to the cluster's server."""
        self._directory = directory
        self._controller = Controller(cluster)

    async def fill(self, schedulers: tuple[str, ...], report: Callable[[str], None]) -> Loaded:
        """Load the directory, if one is configured."""
        if self._directory is None:
            return NOTHING
        return await load(self.cluster, self._directory, schedulers, report)

    async def sequence(self) -> int:
        """Return the last sequence of the object stream."""
        return int((await self.objects.jetstream.stream_info(STREAM)).state.last_seq)

    @property
    def controllers_open(self) -> int:
        """Number of Jobs and pods that the controllers have not processed yet."""
        return self._controller.open

    async def run(self) -> None:
        """Run the controllers, which create the pods of Jobs."""
        await self._controller.run()


class KubeBacking:
    """A live cluster, which has its own objects and controllers."""

    controllers_open = 0

    def __init__(self, spec: str, cluster: KubeCluster) -> None:
        self.spec = spec
        self.cluster = cluster

    async def fill(self, schedulers: tuple[str, ...], report: Callable[[str], None]) -> Loaded:
        """Load nothing."""
        return NOTHING

    async def sequence(self) -> int:
        """Return 0: writes to a live cluster are not counted."""
        return 0

    async def run(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()


@asynccontextmanager
async def kube_backing(spec: str) -> AsyncIterator[KubeBacking]:
    """Connect to the live cluster ``kube`` or ``kube:CONTEXT``. Raises CommandError."""
    try:
        async with KubeCluster(context=spec.partition(":")[2], name="deviceshare-up") as cluster:
            await cluster.get(
                "Node", "", "anything"
            )  # fails if the API server is unreachable or rejects the credentials
            yield KubeBacking(spec, cluster)
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


def directory_of(spec: str) -> Path | None:
    """Return the directory of ``local:DIR``, None for a live cluster. Raises CommandError."""
    kind, colon, name = spec.partition(":")
    if kind == KUBE:
        return None
    if kind != "local" or not colon or not name:
        raise CommandError(f"--cluster {spec}: expected local:DIR, a directory of manifests, kube or kube:CONTEXT")
    directory = Path(name)
    if not directory.is_dir():
        raise CommandError(f"--cluster {spec}: {name} is not a directory of manifests")
    return directory
