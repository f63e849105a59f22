"""The services of a simulated system: each instance is the product's service on a simulated bus and API server.

Shell, core, decoders, follower, publisher and cluster access are those of the product.
"""

import argparse
import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deviceshare_binder import service as binder
from deviceshare_binder.core import PATIENCE, REPORTS_PER_SECOND
from deviceshare_bus.cores.core import Now
from deviceshare_bus.runtime.eventlog import EventLog
from deviceshare_bus.runtime.service import Context, ServiceState, run_epochs
from deviceshare_bus.runtime.shell import Shell
from deviceshare_bus.streams.publisher import Publisher
from deviceshare_bus.streams.stream_watch import StreamWatch
from deviceshare_inventory import service as inventory
from deviceshare_inventory.core import core_arguments
from deviceshare_metrics import service as metrics
from deviceshare_metrics.core import build_core as build_metrics_core
from deviceshare_placement import service as placement

from deviceshare_lab.clusters.manifests import SCHEDULER
from deviceshare_lab.world.kube_client import SimulatedCluster
from deviceshare_lab.world.nats_client import SimulatedConnection
from deviceshare_lab.world.virtual_time import WALL

if TYPE_CHECKING:
    from deviceshare_lab.chaos.system import System

KEYS = (b"the signing key of all histories",)
RESTART = (0.5, 3.0)
"""Seconds until a process that has failed is started again."""


class Process:
    """One replica of a service: an instance after the other. ``wall_offset`` is the error of its wall clock."""

    def __init__(self, system: "System", service: str, number: int, chance: random.Random) -> None:
        self.service = service
        self.name = f"{service}/{number}"
        self.wall_offset = 0.0
        self.connection: SimulatedConnection | None = None
        self._system = system
        self._chance = chance
        self._task: asyncio.Task[None] | None = None
        self._starts = 0
        self._held = False

    @property
    def runs(self) -> bool:
        """Whether an instance runs."""
        return self._task is not None

    def start(self) -> None:
        """Start an instance, unless one runs."""
        self._held = False
        if self._task is not None:
            return
        self._starts += 1
        instance = f"{self.service}-{self.name.rpartition('/')[2]}x{self._starts}"
        self._system.note(f"{self.name} starts as {instance}")
        self.connection = SimulatedConnection(self._system.bus, instance, self._chance)
        self._task = asyncio.get_running_loop().create_task(self._run(self.connection, instance))
        self._task.add_done_callback(self._ended)

    def kill(self) -> None:
        """Kill the instance; it stays dead until :meth:`start`."""
        self._held = True
        if self._task is not None and self.connection is not None:
            self._system.note(f"{self.name} is killed")
            self.connection.kill()
            self._task.cancel()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if self.connection is not None:
            self.connection.kill()
        if self._system.over:
            return
        if not task.cancelled() and (error := task.exception()) is not None:
            self._system.crashed(self.name, error)
        if not self._held:
            asyncio.get_running_loop().call_later(self._chance.uniform(*RESTART), self._start_again)
        elif task.cancelled():
            self._system.note(f"{self.name} is dead")

    def _start_again(self) -> None:
        if not self._held and not self._system.over:
            self.start()

    async def _run(self, connection: SimulatedConnection, instance: str) -> None:
        connection.listen(connection.requests.subject, connection.requests.answered)
        publisher = Publisher(connection)
        loop = asyncio.get_running_loop()

        def clock() -> Now:
            now = loop.time()
            return Now(now, WALL + now + self.wall_offset)

        def begin(watch: StreamWatch, hold: float) -> Context:
            events = EventLog(publisher, self.service, instance)
            options = argparse.Namespace()
            context = Context(self.service, instance, options, connection, publisher, events, clock)
            context.watch, context.hold = watch, hold
            return context

        await run_epochs(connection, self._main(instance), begin, ServiceState())

    def _main(self, instance: str) -> Callable[[Context], Any]:
        """Return what the service's ``main`` does after it has read its options."""
        match self.service:
            case "inventory":
                arguments = core_arguments((SCHEDULER,), None, self._chance.random())
                return lambda context: inventory.run(context, self._cluster(instance), arguments, KEYS)
            case "placement":
                return placement.main
            case "binder":
                options = {"plugin_patience": PATIENCE, "reports_per_second": REPORTS_PER_SECOND}
                return lambda context: binder.run(context, self._cluster(instance), options, KEYS)
            case "metrics":
                return lambda context: Shell(context, build_metrics_core({}), metrics.SOURCES, arguments={}).run()
        raise ValueError(self.service)

    def _cluster(self, instance: str) -> SimulatedCluster:
        return SimulatedCluster(self._system.frontend, self.service, instance)
