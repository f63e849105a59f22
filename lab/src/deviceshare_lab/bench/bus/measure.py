"""The run: start the system on generated nodes, create pods, wait until all are bound."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
from deviceshare_bus.messages.codec import decode_events, decode_ledger
from deviceshare_bus.messages.subjects import Stream, event, of_replicas
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.wire.tasks import end
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.settled import ClusterState, Poller
from deviceshare_cli.system import System, Wanted, running
from deviceshare_localcluster.kinds import STREAM

from deviceshare_lab.bench.bus import filling, workload
from deviceshare_lab.bench.bus.pods import Pods, local
from deviceshare_lab.bench.bus.stages import Arrivals, Moments, add_steps
from deviceshare_lab.bench.bus.traffic import Meters, Traffic


class Run(msgspec.Struct, frozen=True):
    """The measurements; times in seconds."""

    bound: int
    pending: int
    seconds: float
    """From the first pod's creation until the last binding was seen."""
    created_in: float
    """Duration of the creation of all pods, during which the first pods are already placed."""
    moments: tuple[Moments, ...]
    """The stages of each pod."""
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
    arrivals: Arrivals | None = None
    """Of a run with a rate."""

    @property
    def latencies(self) -> list[float]:
        """Seconds of each bound pod, from its creation until its binding was seen; sorted."""
        return sorted(pod.bound - pod.created for pod in self.moments if pod.bound)


class Load(NamedTuple):
    """The numbers of nodes, cards on each node, and pods.

    ``rate`` is that of the pods per second, 0: all at once. ``fill`` is the share of the nodes that are full before,
    ``queues`` the number of queues of the pods, 0 for one.
    """

    nodes: int
    cards: int
    pods: int
    rate: float = 0.0
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
    made = [*workload.nodes(load.nodes, load.cards), *filling.queues(load.queues)]
    applied = await local(system).local.make(made)
    if problems := [one.problem for one in applied if one.problem is not None]:
        raise CommandError(f"a generated node was refused: {problems[0]}")
    await system.start_inventory()
    poller = poller_of(system)
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
    meters = Meters({**dict.fromkeys(Stream, system.bus), STREAM: local(system).objects})
    await meters.begin()
    pods = Pods()
    watching = asyncio.create_task(pods.watch(system))
    metering = asyncio.create_task(meters.run())
    cpu, load_before = cpu_seconds(system), os.getloadavg()[0]
    arrivals = None
    wanted = list(workload.pods(load.pods, load.queues))
    try:
        await pods.listed.wait()
        began = time.time()
        if load.rate:
            arrivals = await pods.create_at(system, wanted, load.rate)
        else:
            await pods.create(system, wanted)
        created_in = time.time() - began
        settled = poller_of(system).settled
        await pods.finished(load.pods, settled, timeout)
    finally:
        await end(watching, metering)
    after = cpu_seconds(system)
    load_after = os.getloadavg()[0]
    await poller.settled()  # the last explanations, events and outcomes belong to the run's traffic
    traffic = await meters.end()
    info = await system.bus.jetstream.stream_info(Stream.EVENT, subjects_filter="event.>")
    counted: Mapping[str, int] = info.state.subjects or {}
    events = await Follower(system.bus, Stream.EVENT, history=True).read_to_end()
    add_steps(pods.moments, (decode_events(message.data) for message in events))
    moments = tuple(pods.moments.values())
    return Run(
        bound=len(pods.bound),
        pending=load.pods - len(pods.bound),
        seconds=max((pod.bound for pod in moments if pod.bound), default=began) - began,
        created_in=created_in,
        moments=moments,
        cpu_seconds={name: round(max(0.0, after[name] - cpu.get(name, 0.0)), 2) for name in after},
        load_before=load_before,
        load_after=load_after,
        traffic=traffic,
        events={subject.removeprefix("event."): count for subject, count in counted.items()},
        readers={name: tuple(service.positions) for name, service in snapshot.services.items()},
        claims=await _claims(system),
        conflicts={name: count - before.get(name, 0) for name, count in (await _conflicts(system)).items()},
        attempts=attempts.ledgers,
        arrivals=arrivals,
    )


async def _fill(system: System, nodes: int, cards: int, timeout: float) -> None:
    """Fill so many nodes, and wait until the system has nothing to do."""
    pods = Pods()
    watching = asyncio.create_task(pods.watch(system))
    try:
        await pods.listed.wait()
        await pods.create(system, list(filling.fillers(nodes, cards)))
        await pods.finished(nodes, poller_of(system).settled, timeout)
        if len(pods.bound) < nodes:
            raise CommandError(f"{len(pods.bound)} of {nodes} nodes could be filled")
    finally:
        await end(watching)
    await poller_of(system).settled()


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


def poller_of(system: System) -> Poller:
    """Return what waits until the services have read the whole cluster and have nothing to do."""

    async def cluster() -> ClusterState:
        return ClusterState(0, await system.backing.sequence(), system.backing.controllers_open, ())

    return Poller(system.bus, cluster, system.wanted.replicas)


def cpu_seconds(system: System, others: Mapping[str, int] = {}) -> dict[str, float]:
    """Return the CPU seconds of each process of the system and of ``others``, process ids by name.

    ``bench`` is this process: API server, controllers and watcher.
    """
    return process_seconds({**system.supervisor.pids, **others, "bench": os.getpid()})


def process_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the CPU seconds of processes, by name."""
    ticks = os.sysconf("SC_CLK_TCK")
    used = {}
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used[name] = (int(fields[11]) + int(fields[12])) / ticks
    return used
