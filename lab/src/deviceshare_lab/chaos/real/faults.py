"""The faults of a run, by name: how often each is drawn, whether it lasts, and what it does."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from deviceshare.model import InputError
from deviceshare_cli.errors import CommandError
from deviceshare_cluster.interface import BindState, ClusterError
from deviceshare_localcluster import LocalCluster

from deviceshare_lab.chaos.real.bus_faults import STREAMS, BusFaults
from deviceshare_lab.chaos.real.hostile import Hostile
from deviceshare_lab.chaos.real.proxy import Link
from deviceshare_lab.chaos.real.schedule import Kind
from deviceshare_lab.chaos.real.system import BUS, CLUSTER, NoEffect, System
from deviceshare_lab.chaos.real.watched import Watched
from deviceshare_lab.chaos.real.workload import MAY_WAIT
from deviceshare_lab.clusters import manifests

LATENCIES = (0.02, 0.2, 1.0)
"""Delays of a slow connection in seconds, at most."""
OTHER = "other-scheduler"


class Context(NamedTuple):
    """What faults act on.

    A fault calls ``began`` with what it hits as soon as it has an effect, once, before it waits for its end. It raises
    NoEffect if it can have none.
    """

    system: System
    cluster: LocalCluster
    bus: BusFaults
    hostile: Hostile
    watched: Watched
    chance: random.Random
    began: Callable[[str], None]

    def replica(self) -> str:
        """Choose a process of a service that runs. Raises NoEffect."""
        running = [name for name in self.system.replicas if self.system.runs(name)]
        if not running:
            raise NoEffect("no process of a service runs")
        return self.chance.choice(running)

    def link(self, *, connected: bool = False) -> tuple[str, Link]:
        """Choose a connection of a service, and name it. Raises NoEffect if none is connected."""
        found = [
            (f"{name} to the {server}", link)
            for name, links in sorted(self.system.links.items())
            for server, link in sorted(links.items())
            if link.connections or not connected
        ]
        if not found:
            raise NoEffect("no service is connected")
        return self.chance.choice(found)

    def nodes(self) -> list[str]:
        """Return the names of the nodes."""
        return sorted(self.watched.nodes) or ["none"]

    def waiting(self) -> list[Mapping[str, Any]]:
        """Return our pods that wait."""
        return [
            pod
            for _, pod in sorted(self.watched.pods.items())
            if not pod["spec"].get("nodeName") and pod["spec"].get("schedulerName") == manifests.SCHEDULER
        ]


class Fault(NamedTuple):
    """A kind of fault. ``act`` causes it, for so many seconds if it ``lasts``."""

    kind: Kind
    act: Callable[[Context, float], Awaitable[None]]


async def _kill(context: Context, seconds: float) -> None:
    name = context.replica()
    context.system.signal(name, signal.SIGKILL)
    context.began(name)


async def _kill_all(context: Context, seconds: float) -> None:
    service = context.replica().rpartition("-")[0]
    replicas = [name for name in context.system.replicas if name.rpartition("-")[0] == service]
    killed = [name for name in replicas if context.system.signal(name, signal.SIGKILL) is not None]
    context.began(", ".join(killed))


async def _pause(context: Context, seconds: float) -> None:
    name = context.replica()
    await context.system.pause(name, seconds, lambda: context.began(name))


async def _kill_cluster(context: Context, seconds: float) -> None:
    if context.system.signal(CLUSTER, signal.SIGKILL) is None:
        raise NoEffect("it does not run")
    context.began("its nats-server")


async def _delay(context: Context, seconds: float) -> None:
    name, link = context.link()
    delay = context.chance.choice(LATENCIES)
    context.began(f"{name}, up to {delay:g} s a packet")
    async with link.delayed(delay):
        await asyncio.sleep(seconds)


async def _cut(context: Context, seconds: float) -> None:
    name, link = context.link(connected=True)
    link.cut()
    context.began(name)


async def _refuse(context: Context, seconds: float) -> None:
    name, link = context.link()
    context.began(name)
    async with link.refused():
        await asyncio.sleep(seconds)


async def _half_open(context: Context, seconds: float) -> None:
    name, link = context.link(connected=True)
    link.silence()
    context.began(name)
    try:
        await asyncio.sleep(seconds)
    finally:
        link.cut_silent()


async def _partition_bus(context: Context, seconds: float) -> None:
    """Cut all services off the bus."""
    context.began("all services")
    async with AsyncExitStack() as stack:
        for links in context.system.links.values():
            await stack.enter_async_context(links[BUS].refused())
        await asyncio.sleep(seconds)


async def _roll_back_apart(context: Context, seconds: float) -> None:
    """Roll a stream back while a service is cut off: the stream has grown again when the service returns."""
    name = context.chance.choice(context.system.replicas)
    async with context.system.links[name][BUS].refused():
        stream = context.chance.choice(STREAMS)
        await context.bus.roll_back([stream], lambda text: context.began(f"{text}, without {name}"))
        await asyncio.sleep(seconds)


async def _garbage(context: Context, seconds: float) -> None:
    context.began(await context.hostile.garbage())


async def _wrong_subject(context: Context, seconds: float) -> None:
    context.began(await context.hostile.wrong_subject(context.nodes()))


async def _forged_claim(context: Context, seconds: float) -> None:
    if not (waiting := context.waiting()):
        raise NoEffect("no pod waits")
    context.began(await context.hostile.forged_claim(context.nodes(), waiting))


async def _other_scheduler(context: Context, seconds: float) -> None:
    """Bind a pod of another scheduler to a node, and one of ours without its devices."""
    node = context.chance.choice(context.nodes())
    foreign = manifests.pod(f"foreign-{context.chance.randrange(10**9)}", manifests.PodKind({"cpu": "1"}))
    foreign["spec"]["schedulerName"] = OTHER
    bound = []
    try:
        await context.cluster.create(foreign)
        created = await context.cluster.get("Pod", manifests.NAMESPACE, foreign["metadata"]["name"])
        # A kubelet, of which there is none here, rejects a pod that requests more than its node has.
        waiting = [pod for pod in context.waiting() if MAY_WAIT not in pod["metadata"].get("labels", {})]
        stolen = context.chance.choice(waiting) if waiting else None
        for pod in filter(None, (created, stolen)):
            metadata = pod["metadata"]
            context.watched.bound.exempt.add(metadata["uid"])
            answer = await context.cluster.bind(metadata["namespace"], metadata["name"], metadata["uid"], node, {})
            if answer.state is BindState.BOUND:
                bound.append(metadata["name"])
            elif pod is stolen:  # it was too late
                context.watched.bound.exempt.discard(metadata["uid"])
    except (ClusterError, InputError) as error:
        if not bound:
            raise NoEffect(str(error)) from None
    if not bound:
        raise NoEffect(f"{node} takes no pod")
    context.began(f"{', '.join(bound)} on {node}")


FAULTS: dict[str, Fault] = {
    "kill": Fault(Kind(10, False), _kill),
    "kill-all": Fault(Kind(4, False), _kill_all),
    "pause": Fault(Kind(6, True), _pause),
    "kill-bus": Fault(Kind(3, False), lambda context, _: context.bus.kill(0.0, context.began)),
    "stop-bus": Fault(Kind(2, True, BUS), lambda context, seconds: context.bus.kill(seconds, context.began)),
    "pause-bus": Fault(Kind(2, True, BUS), lambda context, seconds: context.bus.pause(seconds, context.began)),
    "kill-cluster": Fault(Kind(2, False), _kill_cluster),
    "pause-cluster": Fault(
        Kind(1, True, CLUSTER),
        lambda context, seconds: context.system.pause(CLUSTER, seconds, lambda: context.began("its nats-server")),
    ),
    "delay": Fault(Kind(3, True), _delay),
    "cut": Fault(Kind(3, False), _cut),
    "refuse": Fault(Kind(2, True), _refuse),
    "half-open": Fault(Kind(3, True), _half_open),
    "partition": Fault(Kind(1, True), _partition_bus),
    "wipe": Fault(Kind(2, False), lambda context, _: context.bus.wipe(context.began)),
    "roll-back": Fault(Kind(2, False), lambda context, _: context.bus.roll_back(STREAMS, context.began)),
    "roll-back-stream": Fault(
        Kind(2, False), lambda context, _: context.bus.roll_back([context.chance.choice(STREAMS)], context.began)
    ),
    "roll-back-apart": Fault(Kind(2, True), _roll_back_apart),
    "delete-stream": Fault(
        Kind(2, False), lambda context, _: context.bus.delete_stream(context.chance.choice(STREAMS), context.began)
    ),
    "empty-stream": Fault(
        Kind(2, False), lambda context, _: context.bus.empty_stream(context.chance.choice(STREAMS), context.began)
    ),
    "disk-full": Fault(Kind(1, True, BUS), lambda context, seconds: context.bus.fill_disk(seconds, context.began)),
    "write-errors": Fault(
        Kind(2, True, BUS), lambda context, seconds: context.bus.refuse_writes(seconds, context.began)
    ),
    "garbage": Fault(Kind(2, False), _garbage),
    "wrong-subject": Fault(Kind(2, False), _wrong_subject),
    "forged-claim": Fault(Kind(2, False), _forged_claim),
    "other-scheduler": Fault(Kind(2, False), _other_scheduler),
}
"""All faults by name. A step of the clock is not among them: it would need a privilege, or a library in each process;
the simulation has it."""


def parse_kinds(text: str) -> tuple[str, ...]:
    """Return the faults of a list of names, all of them for ''. Raises CommandError."""
    names = tuple(filter(None, text.split(","))) or tuple(sorted(FAULTS))
    if unknown := sorted(set(names) - FAULTS.keys()):
        raise CommandError(f"there is no fault {', '.join(unknown)}: expected {', '.join(sorted(FAULTS))}")
    return names
