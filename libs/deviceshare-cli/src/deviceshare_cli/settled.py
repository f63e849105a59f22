"""Detection of a settled system: no decision, binding or outcome is open, and nothing has changed for a second.

:class:`Poller` takes a :class:`Snapshot` of the state; :func:`open_work` and :class:`Quiet` evaluate it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from deviceshare_bus.messages.codec import Status, decode_status
from deviceshare_bus.messages.subjects import Stream, status
from deviceshare_bus.wire.connection import Connection
from deviceshare_cluster.interface import ClusterError
from nats.errors import Error as NatsError

SERVICES = ("inventory", "placement", "binder", "metrics")
COUNTED = tuple(stream for stream in Stream if stream is not Stream.EVENT)
"""All streams that cause work; EVENT only records what was done."""
WITH_LEASES = frozenset({Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME})
INTERVAL = 0.2
"""Seconds between two snapshots."""
ANSWER_SECONDS = 1.0
"""Timeout of the answers to a request for the status of a service."""
QUIET = 1.0
"""Seconds without a change."""


class ServiceState(msgspec.Struct, frozen=True):
    """The status of a service: instance, position in each counted stream, number of open items."""

    instance: str
    positions: dict[str, int]
    open: int
    revision: int


class ClusterState(msgspec.Struct, frozen=True):
    """The state of the cluster: revisions, open work of its controllers, pending pods without a reason."""

    revision: int
    """The last revision of the kinds that inventory reads."""
    sequence: int
    """The sequence of the last write of any kind."""
    controllers_open: int
    unanswered: tuple[str, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """The state that decides whether the system is settled, without services and streams that did not answer."""

    services: dict[str, ServiceState]
    streams: dict[str, int]
    """Last sequence of each counted stream."""
    cluster: ClusterState | None


def open_work(snapshot: Snapshot) -> list[str]:
    """Return descriptions of the open work; empty if all work is done."""
    found = [f"{name} does not answer" for name in SERVICES if name not in snapshot.services]
    found += [f"stream {stream} does not answer" for stream in COUNTED if stream not in snapshot.streams]
    for name, service in snapshot.services.items():
        for stream, position in service.positions.items():
            last = snapshot.streams.get(stream)
            if last is not None and position != last:
                found.append(f"{name} has read {stream} up to {position} of {last}")
        if service.open:
            found.append(f"{name} has {service.open} open items")
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
        found.append(f"the cluster's controllers have {cluster.controllers_open} objects to process")
    if cluster.unanswered:
        shown = ", ".join(cluster.unanswered[:5])
        more = f" and {len(cluster.unanswered) - 5} more" if len(cluster.unanswered) > 5 else ""
        found.append(f"neither bound nor refused with a reason: {shown}{more}")
    return found


class Quiet:
    """Evaluates successive snapshots: settled after ``seconds`` of equal ones without open work."""

    def __init__(self, seconds: float = QUIET) -> None:
        self._seconds = seconds
        self._last: Snapshot | None = None
        self._since = 0.0

    def judge(self, snapshot: Snapshot, now: float) -> list[str]:
        """Return why the system is not settled at ``now`` (seconds of any clock); empty if it is."""
        compared = _without_leases(snapshot)
        if compared != self._last:
            self._last, self._since = compared, now
        found = open_work(snapshot)
        if not found and now - self._since < self._seconds:
            found.append(f"the last change was less than {self._seconds:g} s ago")
        return found


def _without_leases(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without the positions in streams with leases, which replicas renew all the time.

    Other changes in these streams have causes or effects in the cluster or in EXPLAIN.
    """
    services = {
        name: msgspec.structs.replace(
            state, positions={stream: at for stream, at in state.positions.items() if stream not in WITH_LEASES}
        )
        for name, state in snapshot.services.items()
    }
    streams = {stream: last for stream, last in snapshot.streams.items() if stream not in WITH_LEASES}
    return msgspec.structs.replace(snapshot, services=services, streams=streams)


class Poller:
    """Takes snapshots of a running system until it is settled."""

    def __init__(
        self,
        bus: Connection,
        cluster: Callable[[], Awaitable[ClusterState]],
        replicas: Mapping[str, int] | None = None,
    ) -> None:
        self._replicas = replicas or {}
        """How many answers each service gives, 1 for a service without an entry."""
        self._bus = bus
        self._cluster = cluster
        self.open: Sequence[str] = ("the state has not been read yet",)
        """The open work of the latest snapshot."""

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
        """Take a snapshot."""
        # The cluster first: the services, requested later, have had time to read its state.
        cluster = await self._cluster_state()
        answers = await asyncio.gather(*(self._service_state(name) for name in SERVICES))
        last = await asyncio.gather(*(self._last_sequence(stream) for stream in COUNTED))
        return Snapshot(
            {name: answer for name, answer in zip(SERVICES, answers, strict=True) if answer is not None},
            {stream.value: sequence for stream, sequence in zip(COUNTED, last, strict=True) if sequence is not None},
            cluster,
        )

    async def _cluster_state(self) -> ClusterState | None:
        try:
            return await self._cluster()
        except (ClusterError, NatsError, TimeoutError, OSError):
            return None

    async def _service_state(self, service: str) -> ServiceState | None:
        """Return the state of a service, None if not all of its replicas answer."""
        client, reply = self._bus.client, self._bus.client.new_inbox()
        try:
            answers = await client.subscribe(reply)
            try:
                await client.publish(status(service), b"", reply=reply)
                async with asyncio.timeout(ANSWER_SECONDS):
                    found = [
                        state_of(decode_status((await answers.next_msg(ANSWER_SECONDS)).data))
                        for _ in range(self._replicas.get(service, 1))
                    ]
            finally:
                await answers.unsubscribe()
        except (NatsError, TimeoutError, OSError, msgspec.MsgspecError):
            return None
        return merged(found)

    async def _last_sequence(self, stream: Stream) -> int | None:
        try:
            info = await self._bus.jetstream.stream_info(stream)
        except (NatsError, TimeoutError, OSError):
            return None
        return info.state.last_seq


def merged(states: Sequence[ServiceState]) -> ServiceState:
    """Return the state of all replicas of a service together: the least that all have read, and all open work."""
    if len(states) == 1:
        return states[0]
    streams = {stream for state in states for stream in state.positions}
    return ServiceState(
        instance=",".join(sorted(state.instance for state in states)),
        positions={stream: min(state.positions.get(stream, 0) for state in states) for stream in sorted(streams)},
        open=sum(state.open for state in states),
        revision=min(state.revision for state in states),
    )


def state_of(answer: Status) -> ServiceState:
    """Return the state of a service without its position in EVENT."""
    positions: Mapping[str, int] = answer.positions
    counted = {stream: position for stream, position in positions.items() if stream != Stream.EVENT}
    return ServiceState(answer.instance, counted, answer.open, answer.revision)
