"""A running system as the source of read commands: its JSON API, its cluster and its bus."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from deviceshare.model import describe_error
from deviceshare_cluster.interface import Cluster, ClusterError, Object
from deviceshare_metrics import api

from deviceshare_cli import runfile
from deviceshare_cli.errors import CommandError, NotAllowedError
from deviceshare_cli.json_api import fetch
from deviceshare_cli.reading.reader import ITEMS, StoredMessage, T, Target, in_order

if TYPE_CHECKING:
    from deviceshare_localcluster.local_objects import LocalObjects

CONNECT_SECONDS = 5.0
"""Timeout until the cluster or the bus answers."""
READ_SECONDS = 60.0
"""Timeout to read the streams of the bus."""


class LiveReader:
    """Implements :class:`.reader.Reader`. The cluster and the bus are connected to when they are first needed."""

    def __init__(self, run: runfile.Run, stack: AsyncExitStack) -> None:
        self.target = Target(run.title, run.schedulers)
        self._run = run
        self._stack = stack
        self._cluster: Cluster | LocalObjects | None = None

    @property
    def now(self) -> float:
        """The current time."""
        return time.time()

    async def items(self, kind: type[T], state: str = "") -> tuple[T, ...]:
        """Return a list of the JSON API."""
        (name,) = (name for name, each in ITEMS.items() if each is kind)
        parameters = [("state", state)] if state else []
        return (await fetch(self._run.endpoint, name, api.Items[kind], parameters)).items  # type: ignore[valid-type]

    async def explain(self, namespace: str, name: str) -> api.PodExplanation:
        """Return the explanation from the JSON API."""
        return await fetch(self._run.endpoint, f"pods/{namespace}/{name}/explain", api.PodExplanation)

    async def objects(self, kind: str) -> list[Object]:
        """List objects of the cluster."""
        try:
            return in_order(await (await self._connected()).list(kind))
        except ClusterError as error:
            raise (NotAllowedError if error.final else CommandError)(str(error)) from None

    async def object(self, kind: str, namespace: str, name: str) -> Object | None:
        """Read one object of the cluster."""
        try:
            return await (await self._connected()).get(kind, namespace, name)
        except ClusterError as error:
            raise CommandError(str(error)) from None

    async def messages(self, streams: Sequence[str]) -> list[StoredMessage]:
        """Read streams of the bus to their ends."""
        if not self._run.bus:
            raise CommandError("this command reads the bus, which --server does not name: set DEVICESHARE_BUS")
        from deviceshare_bus.streams.follower import BusWiped, Follower
        from deviceshare_bus.wire.connection import connect

        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                bus = await connect(self._run.bus, "deviceshare", credentials=self._run.credentials_of("reader"))
        except TimeoutError:
            raise CommandError(f"the bus at {self._run.bus} does not answer within {CONNECT_SECONDS:g} s") from None
        self._stack.push_async_callback(bus.close)
        try:
            async with asyncio.timeout(READ_SECONDS):
                found = [await Follower(bus, each, history=each == "EVENT").read_to_end() for each in streams]
        except (TimeoutError, BusWiped) as error:
            raise CommandError(f"the bus at {self._run.bus} cannot be read: {describe_error(error)}") from None
        return [
            StoredMessage(str(stream), message.subject, message.sequence, bytes(message.data))
            for stream, messages in zip(streams, found, strict=True)
            for message in messages
        ]

    async def _connected(self) -> "Cluster | LocalObjects":
        """Return the cluster, connected. Raises CommandError, ClusterError."""
        if self._cluster is None:
            where = self._run.cluster or self._run.target
            cluster = self._local() if self._run.cluster else self._named()
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._stack.enter_async_context(cluster)
            except TimeoutError:
                raise CommandError(f"the cluster {where} does not answer") from None
            self._cluster = cluster
        return self._cluster

    def _local(self) -> "LocalObjects":
        from deviceshare_localcluster.local_objects import LocalObjects
        from deviceshare_localcluster.store import Store

        return LocalObjects(Store(self._run.cluster, "deviceshare", CONNECT_SECONDS))

    def _named(self) -> Cluster:
        from deviceshare_cluster import UnknownCluster, open_cluster

        try:
            return open_cluster(self._run.target, name="deviceshare")
        except UnknownCluster as error:
            raise CommandError(f"the run file does not name its cluster: {error}") from None


@asynccontextmanager
async def open_live(run: runfile.Run) -> AsyncIterator[LiveReader]:
    """Read a running system."""
    async with AsyncExitStack() as stack:
        yield LiveReader(run, stack)
