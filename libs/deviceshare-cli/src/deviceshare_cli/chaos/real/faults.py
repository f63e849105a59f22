"""The faults of a run, by name: how often each is drawn, how long it lasts, and what it does."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from deviceshare.model import InputError
from deviceshare_cluster.interface import BindState, ClusterError
from deviceshare_cluster.local import LocalCluster

from deviceshare_cli.chaos import manifests
from deviceshare_cli.chaos.real.bus_faults import STREAMS, BusFaults
from deviceshare_cli.chaos.real.checker.bindings import Bindings
from deviceshare_cli.chaos.real.hostile import Hostile
from deviceshare_cli.chaos.real.proxy import Link
from deviceshare_cli.chaos.real.system import BUS, CLUSTER, System
from deviceshare_cli.errors import CommandError

NOT_SURVIVED_YET: frozenset[str] = frozenset()
"""Faults that the product does not survive yet. They are drawn only if they are named; the set has to become empty."""
LATENCIES = (0.02, 0.2, 1.0)
"""Delays of a slow connection in seconds, at most."""
OTHER = "other-scheduler"


class Context(NamedTuple):
    """What faults act on."""

    system: System
    cluster: LocalCluster
    bus: BusFaults
    hostile: Hostile
    bindings: Bindings
    chance: random.Random

    def replica(self) -> str:
        """Choose a process of a service."""
        return self.chance.choice(self.system.replicas)

    def link(self) -> tuple[str, Link]:
        """Choose a connection of a service, and name it."""
        name = self.replica()
        server = self.chance.choice(sorted(self.system.links[name]))
        return f"{name} to the {server}", self.system.links[name][server]

    def nodes(self) -> list[str]:
        """Return the names of the nodes."""
        return sorted(self.bindings.nodes) or ["none"]

    def waiting(self) -> list[Mapping[str, Any]]:
        """Return our pods that wait."""
        return [
            pod
            for _, pod in sorted(self.bindings.pods.items())
            if not pod["spec"].get("nodeName") and pod["spec"].get("schedulerName") == manifests.SCHEDULER
        ]


class Fault(NamedTuple):
    """A kind of fault: ``act`` causes it for so many seconds (0 unless it ``lasts``) and returns what it has hit."""

    weight: int
    lasts: bool
    act: Callable[[Context, float], Awaitable[str]]


async def _kill(context: Context, seconds: float) -> str:
    name = context.replica()
    context.system.signal(name, signal.SIGKILL)
    return name


async def _kill_all(context: Context, seconds: float) -> str:
    service = context.chance.choice(context.system.replicas).rpartition("-")[0]
    killed = [name for name in context.system.replicas if name.rpartition("-")[0] == service]
    for name in killed:
        context.system.signal(name, signal.SIGKILL)
    return ", ".join(killed)


async def _pause(context: Context, seconds: float) -> str:
    name = context.replica()
    await context.system.pause(name, seconds)
    return name


async def _kill_bus(context: Context, seconds: float) -> str:
    await context.bus.kill(0.0)
    return ""


async def _stop_bus(context: Context, seconds: float) -> str:
    await context.bus.kill(seconds)
    return ""


async def _pause_bus(context: Context, seconds: float) -> str:
    await context.bus.pause(seconds)
    return ""


async def _kill_cluster(context: Context, seconds: float) -> str:
    context.system.signal(CLUSTER, signal.SIGKILL)
    return ""


async def _pause_cluster(context: Context, seconds: float) -> str:
    await context.system.pause(CLUSTER, seconds)
    return ""


async def _delay(context: Context, seconds: float) -> str:
    name, link = context.link()
    link.delay = context.chance.choice(LATENCIES)
    try:
        return f"{name}: up to {link.delay:g} s"
    finally:
        await asyncio.sleep(seconds)
        link.delay = 0.0


async def _cut(context: Context, seconds: float) -> str:
    name, link = context.link()
    link.cut()
    return name


async def _refuse(context: Context, seconds: float) -> str:
    name, link = context.link()
    link.closed = True
    link.cut()
    try:
        await asyncio.sleep(seconds)
    finally:
        link.closed = False
    return name


async def _half_open(context: Context, seconds: float) -> str:
    name, link = context.link()
    link.silence()
    try:
        await asyncio.sleep(seconds)
    finally:
        link.cut_silent()
    return name


async def _partition_bus(context: Context, seconds: float) -> str:
    """Cut all services off the bus."""
    links = [links[BUS] for links in context.system.links.values()]
    for link in links:
        link.closed = True
        link.cut()
    try:
        await asyncio.sleep(seconds)
    finally:
        for link in links:
            link.closed = False
    return "all services"


async def _wipe(context: Context, seconds: float) -> str:
    await context.bus.wipe(0.0)
    return ""


async def _roll_back(context: Context, seconds: float) -> str:
    return await context.bus.roll_back(0.0)


async def _roll_back_stream(context: Context, seconds: float) -> str:
    stream = context.chance.choice(STREAMS)
    return f"{stream} to {await context.bus.roll_back(0.0, stream)}"


async def _roll_back_apart(context: Context, seconds: float) -> str:
    """Roll a stream back while a service is cut off: the stream has grown again when the service returns."""
    name = context.replica()
    link = context.system.links[name][BUS]
    link.closed = True
    link.cut()
    try:
        hit = await _roll_back_stream(context, 0.0)
        await asyncio.sleep(seconds)
    finally:
        link.closed = False
    return f"{hit}, without {name}"


async def _delete_stream(context: Context, seconds: float) -> str:
    stream = context.chance.choice(STREAMS)
    await context.bus.delete_stream(stream)
    return stream


async def _empty_stream(context: Context, seconds: float) -> str:
    stream = context.chance.choice(STREAMS)
    await context.bus.empty_stream(stream)
    return stream


async def _fill_disk(context: Context, seconds: float) -> str:
    return await context.bus.fill_disk(seconds)


async def _garbage(context: Context, seconds: float) -> str:
    return await context.hostile.garbage()


async def _wrong_subject(context: Context, seconds: float) -> str:
    return await context.hostile.wrong_subject(context.nodes())


async def _forged_claim(context: Context, seconds: float) -> str:
    return await context.hostile.forged_claim(context.nodes(), context.waiting())


async def _other_scheduler(context: Context, seconds: float) -> str:
    """Bind a pod of another scheduler to a node, and one of ours without its devices."""
    node = context.chance.choice(context.nodes())
    foreign = manifests.pod(f"foreign-{context.chance.randrange(10**9)}", manifests.PodKind({"cpu": "1"}))
    foreign["spec"]["schedulerName"] = OTHER
    try:
        await context.cluster.create(foreign)
        created = await context.cluster.get("Pod", manifests.NAMESPACE, foreign["metadata"]["name"])
        waiting = context.waiting()
        stolen = context.chance.choice(waiting) if waiting else None
        for pod in filter(None, (created, stolen)):
            metadata = pod["metadata"]
            context.bindings.foreign.add(metadata["uid"])
            bound = await context.cluster.bind(metadata["namespace"], metadata["name"], metadata["uid"], node, {})
            if pod is stolen and bound.state is not BindState.BOUND:  # it was too late
                context.bindings.foreign.discard(metadata["uid"])
        return f"on {node}" + (f", with {stolen['metadata']['name']}" if stolen is not None else "")
    except (ClusterError, InputError) as error:
        return f"in vain: {error}"


FAULTS: dict[str, Fault] = {
    "kill": Fault(16, False, _kill),
    "kill-all": Fault(4, False, _kill_all),
    "pause": Fault(6, True, _pause),
    "kill-bus": Fault(3, False, _kill_bus),
    "stop-bus": Fault(1, True, _stop_bus),
    "pause-bus": Fault(1, True, _pause_bus),
    "kill-cluster": Fault(2, False, _kill_cluster),
    "pause-cluster": Fault(1, True, _pause_cluster),
    "delay": Fault(4, True, _delay),
    "cut": Fault(4, False, _cut),
    "refuse": Fault(2, True, _refuse),
    "half-open": Fault(3, True, _half_open),
    "partition": Fault(1, True, _partition_bus),
    "wipe": Fault(2, False, _wipe),
    "roll-back": Fault(2, False, _roll_back),
    "roll-back-stream": Fault(2, False, _roll_back_stream),
    "roll-back-apart": Fault(1, True, _roll_back_apart),
    "delete-stream": Fault(2, False, _delete_stream),
    "empty-stream": Fault(2, False, _empty_stream),
    "disk-full": Fault(1, True, _fill_disk),
    "garbage": Fault(2, False, _garbage),
    "wrong-subject": Fault(2, False, _wrong_subject),
    "forged-claim": Fault(2, False, _forged_claim),
    "other-scheduler": Fault(2, False, _other_scheduler),
}
"""All faults by name. A step of the clock is not among them: it would need a privilege, or a library in each process;
the simulation has it."""


def parse_kinds(text: str) -> tuple[str, ...]:
    """Return the faults of a list of names; '' for all that the product survives, ``all``. Raises CommandError."""
    if text in ("", "all"):
        return tuple(sorted(FAULTS.keys() - (NOT_SURVIVED_YET if not text else set())))
    names = tuple(filter(None, text.split(",")))
    if unknown := sorted(set(names) - FAULTS.keys()):
        raise CommandError(f"there is no fault {', '.join(unknown)}: expected {', '.join(sorted(FAULTS))} or all")
    return names
