"""When the system is settled: no decision, binding or outcome is open, and nothing has changed for a second.

A :class:`Snapshot` holds all that this depends on; :func:`open_matters` and :class:`Quiet` judge it, nothing else.
:class:`Poller` takes the snapshots.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from deviceshare_bus.connection import Connection
from deviceshare_bus.messages import Status, decode_status
from deviceshare_bus.subjects import Stream, status
from deviceshare_cluster.interface import ClusterError
from nats.errors import Error as NatsError

SERVICES = ("inventory", "placement", "binder", "metrics")
COUNTED = tuple(stream for stream in Stream if stream is not Stream.EVENT)
"""EVENT tells what was done, it asks for nothing to be done."""
INTERVAL = 0.2
QUIET = 1.0
"""Seconds without a change."""


class ServiceState(msgspec.Struct, frozen=True):
    """What a service answered: who it is, how far it has read each counted stream, what it has open."""

    instance: str
    positions: dict[str, int]
    open: int
    revision: int


class ClusterState(msgspec.Struct, frozen=True):
    """The cluster: how far it is, what its controllers have to do, and our pods that wait without a reason."""

    revision: int
    """The last one of the kinds that inventory reads."""
    sequence: int
    """The last write of any kind."""
    controllers_open: int
    unanswered: tuple[str, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """All that the question depends on; a service or stream that did not answer is not in it."""

    services: dict[str, ServiceState]
    streams: dict[str, int]
    """Last sequence of each counted stream."""
    cluster: ClusterState | None


def open_matters(snapshot: Snapshot) -> list[str]:
    """Return what is open, in words; nothing where all work is done."""
    found = [f"{name} does not answer" for name in SERVICES if name not in snapshot.services]
    found += [f"stream {stream} does not answer" for stream in COUNTED if stream not in snapshot.streams]
    for name, service in snapshot.services.items():
        for stream, position in service.positions.items():
            last = snapshot.streams.get(stream)
            if last is not None and position != last:
                found.append(f"{name} has read {stream} up to {position} of {last}")
        if service.open:
            found.append(f"{name} has {service.open} open")
    return found + _open_in_cluster(snapshot)


def _open_in_cluster(snapshot: Snapshot) -> list[str]:
    cluster = snapshot.cluster
    if cluster is None:
        return ["the cluster does not answer"]
    found = []
    inventory = snapshot.services.get("inventory")
    if inventory is not None and inventory.revision < cluster.revision:
        found.append(f"inventory has read the cluster up to revision {inventory.revision} of {cluster.revision}")
    if cluster.controllers_open:
        found.append(f"the cluster's controllers have {cluster.controllers_open} objects to work on")
    if cluster.unanswered:
        shown = ", ".join(cluster.unanswered[:5])
        more = f" and {len(cluster.unanswered) - 5} more" if len(cluster.unanswered) > 5 else ""
        found.append(f"neither bound nor refused with a reason: {shown}{more}")
    return found


class Quiet:
    """Judges snapshots as they come: settled after ``seconds`` of equal ones in which nothing is open."""

    def __init__(self, seconds: float = QUIET) -> None:
        self._seconds = seconds
        self._last: Snapshot | None = None
        self._since = 0.0

    def judge(self, snapshot: Snapshot, now: float) -> list[str]:
        """Return what keeps the system from being settled at ``now`` (seconds of any clock); nothing if it is."""
        if snapshot != self._last:
            self._last, self._since = snapshot, now
        found = open_matters(snapshot)
        if not found and now - self._since < self._seconds:
            found.append(f"something changed less than {self._seconds:g} s ago")
        return found


class Poller:
    """Takes snapshots of a running system until it is settled."""

    def __init__(self, bus: Connection, cluster: Callable[[], Awaitable[ClusterState]]) -> None:
        self._bus = bus
        self._cluster = cluster
        self.open: Sequence[str] = ("nothing has been looked at yet",)
        """What was open when it was looked at last."""

    async def settled(self) -> None:
        """Return when the system is settled."""
        loop = asyncio.get_running_loop()
        quiet = Quiet()
        while True:
            self.open = quiet.judge(await self.snapshot(), loop.time())
            if not self.open:
                return
            await asyncio.sleep(INTERVAL)

    async def snapshot(self) -> Snapshot:
        """Ask everybody."""
        # The cluster first: whoever is asked later has had the time to see what was there.
        cluster = await self._ask_cluster()
        answers = await asyncio.gather(*(self._ask(name) for name in SERVICES))
        last = await asyncio.gather(*(self._last_sequence(stream) for stream in COUNTED))
        return Snapshot(
            {name: answer for name, answer in zip(SERVICES, answers, strict=True) if answer is not None},
            {stream.value: sequence for stream, sequence in zip(COUNTED, last, strict=True) if sequence is not None},
            cluster,
        )

    async def _ask_cluster(self) -> ClusterState | None:
        try:
            return await self._cluster()
        except (ClusterError, NatsError, TimeoutError, OSError):
            return None

    async def _ask(self, service: str) -> ServiceState | None:
        try:
            answer = await self._bus.client.request(status(service), b"", timeout=1.0)
            return state_of(decode_status(answer.data))
        except (NatsError, TimeoutError, OSError, msgspec.MsgspecError):
            return None

    async def _last_sequence(self, stream: Stream) -> int | None:
        try:
            info = await self._bus.jetstream.stream_info(stream)
        except (NatsError, TimeoutError, OSError):
            return None
        return info.state.last_seq


def state_of(answer: Status) -> ServiceState:
    """Return what counts of a service's answer."""
    positions: Mapping[str, int] = answer.positions
    counted = {stream: position for stream, position in positions.items() if stream != Stream.EVENT}
    return ServiceState(answer.instance, counted, answer.open, answer.revision)
