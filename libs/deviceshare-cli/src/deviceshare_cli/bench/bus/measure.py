"""The run: start the system on generated nodes, create pods as fast as possible, wait until all are bound."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
from deviceshare_bus.follower import Follower
from deviceshare_bus.messages import decode_events, decode_ledger
from deviceshare_bus.subjects import Stream, event, of_replicas
from deviceshare_bus.tasks import end
from deviceshare_cluster.interface import Change, ClusterError, Listed, Object
from deviceshare_cluster.local import Applied
from deviceshare_cluster.local.kinds import STREAM

from deviceshare_cli.backing import LocalBacking
from deviceshare_cli.bench.bus import filling, workload
from deviceshare_cli.bench.bus.traffic import Meters, Traffic
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.pods import read_pod
from deviceshare_cli.settled import ClusterState, Poller
from deviceshare_cli.system import System, Wanted, running

CHUNK = 250
"""Pods per batch; a batch is created when the previous batch has been acknowledged."""


class Run(msgspec.Struct, frozen=True):
    """The measurements; times in seconds."""

    bound: int
    pending: int
    seconds: float
    """From the first pod's creation until the last binding was seen."""
    created_in: float
    """Duration of the creation of all pods, during which the first pods are already placed."""
    latencies: tuple[float, ...]
    """Of each bound pod, from the creation request until its binding was seen; sorted."""
    cpu_seconds: dict[str, float]
    load_before: float
    load_after: float
    traffic: dict[str, Traffic]
    events: dict[str, int]
    """Messages on EVENT by the service that wrote them."""
    readers: dict[str, tuple[str, ...]]
    """The streams that each service reads."""
    claims: dict[str, int]
    """Claims in the ledgers at the end, by the process that decided."""
    conflicts: dict[str, int]
    """Refused writes of ledgers since another process had written them, by process."""
    attempts: int = 0
    """Ledgers that were sent to the bus, if it was counted."""


class Load(NamedTuple):
    """The numbers of nodes, cards on each node, and pods.

    ``fill`` is the share of the nodes that are full before, ``queues`` the number of queues of the pods, 0 for one.
    """

    nodes: int
    cards: int
    pods: int
    fill: float = 0.0
    queues: int = 0


async def measure(load: Load, timeout: float, notices: Notices, replicas: Mapping[str, int]) -> Run:
    """Start the system, measure, and stop it.

    Raises CommandError if the system is not ready, or not all pods have a result, within ``timeout`` seconds.
    """
    wanted = Wanted(conf=None, schedulers=("deviceshare",), metrics_port=0, replicas=replicas)
    async with running(wanted, notices) as system:
        conf = system.directory / "volcano-scheduler.conf"
        conf.write_text(workload.CONF)
        system.wanted = replace(wanted, conf=conf)
        return await system.guard(_measure(system, load, timeout))


async def _measure(system: System, load: Load, timeout: float) -> Run:
    pod_count = load.pods
    made = [*workload.nodes(load.nodes, load.cards), *filling.queues(load.queues)]
    applied = await _local(system).local.make(made)
    if problems := [one.problem for one in applied if one.problem is not None]:
        raise CommandError(f"a generated node was refused: {problems[0]}")
    await system.start_inventory()
    poller = Poller(system.bus, lambda: _idle(system), system.wanted.replicas)
    try:
        async with asyncio.timeout(timeout):
            await poller.settled()
    except TimeoutError:
        raise CommandError(f"not ready after {timeout:g} s: {'; '.join(poller.open)}") from None
    attempts = filling.Attempts()
    if full := round(load.fill * load.nodes):
        await _fill(system, full, load.cards, timeout)
    if load.fill or load.queues:
        attempts.begin(system)
    before = await _conflicts(system)
    snapshot = await poller.snapshot()
    meters = Meters({**dict.fromkeys(Stream, system.bus), STREAM: _local(system).objects})
    await meters.begin()
    pods = Pods(ignored=filling.FILLED)
    watching = asyncio.create_task(pods.watch(system))
    metering = asyncio.create_task(meters.run())
    cpu, load_before = cpu_seconds(system), os.getloadavg()[0]
    try:
        await pods.listed.wait()
        began = asyncio.get_running_loop().time()
        created_in = await pods.create(system, pod_count, load.queues)
        await pods.finished(system, pod_count, timeout)
    finally:
        await end(watching, metering)
    after = cpu_seconds(system)
    load_after = os.getloadavg()[0]
    await poller.settled()  # the last explanations, events and outcomes belong to the run's traffic
    traffic = await meters.end()
    info = await system.bus.jetstream.stream_info(Stream.EVENT, subjects_filter="event.>")
    counted: Mapping[str, int] = info.state.subjects or {}
    return Run(
        bound=len(pods.bound),
        pending=pod_count - len(pods.bound),
        seconds=max(pods.bound.values(), default=began) - began,
        created_in=created_in,
        latencies=tuple(sorted(at - pods.sent[name] for name, at in pods.bound.items())),
        cpu_seconds={name: round(max(0.0, after[name] - cpu.get(name, 0.0)), 2) for name in after},
        load_before=load_before,
        load_after=load_after,
        traffic=traffic,
        events={subject.removeprefix("event."): count for subject, count in counted.items()},
        readers={name: tuple(service.positions) for name, service in snapshot.services.items()},
        claims=await _claims(system),
        conflicts={name: count - before.get(name, 0) for name, count in (await _conflicts(system)).items()},
        attempts=attempts.ledgers,
    )


async def _fill(system: System, nodes: int, cards: int, timeout: float) -> None:
    """Fill so many nodes, and wait until the system has nothing to do."""
    pods = Pods()
    watching = asyncio.create_task(pods.watch(system))
    try:
        await pods.listed.wait()
        await pods.make(system, list(filling.fillers(nodes, cards)))
        await pods.finished(system, nodes, timeout)
        if len(pods.bound) < nodes:
            raise CommandError(f"{len(pods.bound)} of {nodes} nodes could be filled")
    finally:
        await end(watching)
    await Poller(system.bus, lambda: _idle(system), system.wanted.replicas).settled()


async def _claims(system: System) -> dict[str, int]:
    """Return the number of claims of measured pods by the process that decided."""
    found: Counter[str] = Counter()
    for message in await Follower(system.bus, Stream.LEDGER).read_to_end():
        if not of_replicas(message.subject):
            claims = decode_ledger(message.data).claims
            found.update(claim.decided_by for claim in claims if not claim.name.startswith(filling.FILLED))
    return dict(sorted(found.items()))


async def _conflicts(system: System) -> dict[str, int]:
    """Return the number of refused writes of ledgers by process."""
    found: Counter[str] = Counter()
    for message in await Follower(system.bus, Stream.EVENT, subject=event("placement"), history=True).read_to_end():
        events = decode_events(message.data)
        found[events.instance] += events.counters.get("ledger_conflicts", 0)
    return dict(sorted(found.items()))


class Pods:
    """Times of creation and binding of each pod, in seconds of the event loop's clock."""

    def __init__(self, ignored: str = "-") -> None:
        self._ignored = ignored
        """Begins the names of pods that are not counted."""
        self.listed = asyncio.Event()
        self._changed = asyncio.Event()
        self.sent: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self.reasons: dict[str, str] = {}

    async def watch(self, system: System) -> None:
        """Observe the cluster's pods until cancelled."""
        with _local(system).observed(self._take):
            self.listed.set()
            await asyncio.Event().wait()

    def _take(self, batch: list[Change | Listed]) -> None:
        at = asyncio.get_running_loop().time()
        self._changed.set()
        for change in batch:
            if isinstance(change, Change) and change.kind == "Pod" and change.name not in self.bound and change.raw:
                if change.name.startswith(self._ignored):
                    continue
                pod = read_pod(change.raw)
                if pod.node:
                    self.bound[pod.name] = at
                    self.reasons.pop(pod.name, None)
                elif pod.reason:
                    self.reasons[pod.name] = pod.reason

    async def create(self, system: System, count: int, queues: int = 0) -> float:
        """Create all pods and return the duration in seconds."""
        return await self.make(system, list(workload.pods(count, queues)))

    async def make(self, system: System, everything: list[Object]) -> float:
        """Create these pods and return the duration in seconds."""
        now = asyncio.get_running_loop().time
        began = now()
        for start in range(0, len(everything), CHUNK):
            chunk = everything[start : start + CHUNK]
            at = now()
            for obj in chunk:
                self.sent[obj["metadata"]["name"]] = at
            for one in await _made(system, chunk):
                if one.problem is not None:
                    raise CommandError(f"a generated pod was refused: {one.problem}")
        return now() - began

    async def finished(self, system: System, count: int, timeout: float) -> None:
        """Wait until every pod is bound or has a reason why it is pending."""
        settled = Poller(system.bus, lambda: _idle(system), system.wanted.replicas)
        try:
            async with asyncio.timeout(timeout):
                while len(self.bound) + len(self.reasons) < count:
                    self._changed.clear()
                    await self._changed.wait()
                if self.reasons:  # a pending pod may still be placed
                    await settled.settled()
        except TimeoutError:
            raise CommandError(
                f"after {timeout:g} s {len(self.bound)} of {count} pods are bound, {len(self.reasons)} have a reason"
            ) from None


async def _made(system: System, objects: list[Object]) -> Sequence[Applied]:
    """Create objects; retry if the result is unknown because the server became unreachable."""
    while True:
        try:
            return await _local(system).local.make(objects)
        except ClusterError as error:
            system.notices.report(f"bench: {error}, retrying")
            await asyncio.sleep(0.2)


def _local(system: System) -> LocalBacking:
    assert isinstance(system.backing, LocalBacking)
    return system.backing


async def _idle(system: System) -> ClusterState:
    return ClusterState(0, await system.backing.sequence(), system.backing.controllers_open, ())


def cpu_seconds(system: System, others: Mapping[str, int] = {}) -> dict[str, float]:
    """Return the CPU seconds of each process of the system and of ``others``, process ids by name.

    ``bench`` is this process: API server, controllers and watcher.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    used = {}
    for name, pid in {**system.supervisor.pids, **others, "bench": os.getpid()}.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used[name] = (int(fields[11]) + int(fields[12])) / ticks
    return used
