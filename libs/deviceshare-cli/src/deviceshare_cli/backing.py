"""What the system stands on: a local cluster of its own, filled from a directory, or a live Kubernetes cluster."""

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
    """A cluster as ``up`` sees it."""

    @property
    def spec(self) -> str:
        """What the services are told: ``--cluster``."""
        ...

    @property
    def cluster(self) -> Cluster:
        """The cluster, connected."""
        ...

    async def fill(self, schedulers: tuple[str, ...], say: Callable[[str], None]) -> Loaded:
        """Put into the cluster what it is to begin with."""
        ...

    async def sequence(self) -> int:
        """Return the number of writes that the cluster has seen, 0 where nobody counts them."""
        ...

    @property
    def controllers_open(self) -> int:
        """How many objects the controllers that we play have to work on."""
        ...

    async def run(self) -> None:
        """Play the controllers, until cancelled."""
        ...


class LocalBacking:
    """A local cluster on a nats-server of its own, filled from a directory of manifests."""

    def __init__(self, url: str, cluster: LocalCluster, objects: Connection, directory: Path | None) -> None:
        self.spec = f"{LOCAL}{url}"
        self.cluster = cluster
        self.objects = objects
        """To the cluster's server."""
        self._directory = directory
        self._controller = Controller(cluster)

    async def fill(self, schedulers: tuple[str, ...], say: Callable[[str], None]) -> Loaded:
        """Load the directory, if there is one."""
        if self._directory is None:
            return NOTHING
        return await load(self.cluster, self._directory, schedulers, say)

    async def sequence(self) -> int:
        """Return the last sequence of the stream of objects."""
        return int((await self.objects.jetstream.stream_info(STREAM)).state.last_seq)

    @property
    def controllers_open(self) -> int:
        """Jobs and pods that are not as they should be yet."""
        return self._controller.open

    async def run(self) -> None:
        """Make pods of Jobs."""
        await self._controller.run()


class KubeBacking:
    """A live cluster: nothing is put into it, and its controllers are its own."""

    controllers_open = 0

    def __init__(self, spec: str, cluster: KubeCluster) -> None:
        self.spec = spec
        self.cluster = cluster

    async def fill(self, schedulers: tuple[str, ...], say: Callable[[str], None]) -> Loaded:
        """Put nothing into it."""
        return NOTHING

    async def sequence(self) -> int:
        """Nobody counts."""
        return 0

    async def run(self) -> None:
        """Leave the controllers alone."""
        await asyncio.Event().wait()


@asynccontextmanager
async def kube_backing(spec: str) -> AsyncIterator[KubeBacking]:
    """Reach the live cluster that ``kube`` or ``kube:CONTEXT`` names. Raises CommandError."""
    try:
        async with KubeCluster(context=spec.partition(":")[2], name="deviceshare-up") as cluster:
            await cluster.get("Node", "", "anything")  # whether it answers, and takes our credentials
            yield KubeBacking(spec, cluster)
    except ClusterError as error:
        raise CommandError(f"--cluster {spec}: {error}") from None


@asynccontextmanager
async def local_backing(url: str, directory: Path | None) -> AsyncIterator[LocalBacking]:
    """Set up a local cluster on a nats-server that runs; ``directory`` is what it is filled with."""
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
        raise CommandError(f"--cluster {spec}: {name} is not a directory: name one that holds manifests")
    return directory
