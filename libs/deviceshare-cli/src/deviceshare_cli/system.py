"""The whole system as processes of this machine: nats-server, the four services, and what a local cluster needs.

``up`` and ``bench`` start it in the same way: servers and streams first, then the services that only read the bus;
inventory comes last, after the cluster has been filled, so that the first decisions see all of it.
"""

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from deviceshare_bus.connection import Connection, connect
from deviceshare_bus.setup import make_streams
from deviceshare_bus.tasks import end
from deviceshare_cluster import KUBE

from deviceshare_cli import natsserver, runfile
from deviceshare_cli.backing import Backing, kube_backing, local_backing
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import LogReader, NoticeHandler, Notices, read_logs
from deviceshare_cli.pods import SCHEDULERS
from deviceshare_cli.ports import LOOPBACK, metrics_port
from deviceshare_cli.settled import SERVICES
from deviceshare_cli.supervisor import CannotLive, Program, Supervisor

T = TypeVar("T")
log = logging.getLogger("deviceshare.up")
START_SECONDS = 20.0
"""How long the two nats-servers may take to answer."""


@dataclass(frozen=True)
class Wanted:
    """How the system is to be started."""

    cluster: str = ""
    """``kube`` or ``kube:CONTEXT``; anything else is a local cluster."""
    directory: Path | None = None
    """Manifests that a local cluster is filled with."""
    conf: Path | None = None
    """A ``volcano-scheduler.conf``."""
    schedulers: tuple[str, ...] = SCHEDULERS
    metrics_port: int = 8080
    """0 for any free one."""


@dataclass
class System:
    """A running system."""

    wanted: Wanted
    run: runfile.Run
    notices: Notices
    supervisor: Supervisor
    bus: Connection
    backing: Backing
    directory: Path
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def start_service(self, service: str, *options: str) -> None:
        """Start one of the four services."""
        path = self.directory / f"{service}.log"
        command = (sys.executable, "-m", f"deviceshare_{service}", "--bus", self.run.bus, *options)
        await self.supervisor.start(Program(service, command, path))
        self.beside(read_logs([LogReader(service, path, self.notices)]))

    async def start_inventory(self) -> None:
        """Start the service that reads the cluster: from now on pods are placed."""
        options = ["--cluster", self.backing.spec]
        if self.wanted.conf is not None:
            options += ["--conf", str(self.wanted.conf)]
        for name in self.wanted.schedulers:
            options += ["--scheduler-name", name]
        await self.start_service("inventory", *options)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work while everything beside it lives; raises what ended it where it does not."""
        main = asyncio.ensure_future(work)
        failed = asyncio.ensure_future(self.supervisor.failed())
        try:
            done, _ = await asyncio.wait({main, failed, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            if main not in done:
                for task in done:
                    task.result()  # raises: none of them ends by itself
                raise AssertionError("a task that runs for ever has ended")
            return main.result()
        finally:
            await end(main, failed)

    def beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do work that lasts as long as the system; where it fails, :meth:`guard` fails."""
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    async def _stop(self) -> None:
        await end(*self._tasks)


@asynccontextmanager
async def running(wanted: Wanted, notices: Notices) -> AsyncIterator[System]:
    """Start the system, without inventory; end all of it at the end.

    Raises CommandError where something is missing or taken, or does not start.
    """
    port = metrics_port(wanted.metrics_port)
    natsserver.find_binary()
    _sweep()
    async with AsyncExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="deviceshare-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        supervisor = Supervisor(notices.say)
        bus_server = natsserver.prepare("bus", directory)
        local_server = None if wanted.cluster.startswith(KUBE) else natsserver.prepare("cluster", directory)
        run = runfile.Run(
            pid=os.getpid(),
            bus=bus_server.url,
            cluster=local_server.url if local_server is not None else "",
            metrics=f"http://{LOOPBACK}:{port}",
            directory=str(directory),
            schedulers=wanted.schedulers,
        )
        runfile.write(run)
        stack.callback(runfile.remove, run)
        stack.push_async_callback(supervisor.stop)
        await supervisor.start(bus_server.program)
        if local_server is not None:
            await supervisor.start(local_server.program)
        bus, behind = await _connected(stack, run, wanted, supervisor)
        # From here on, and no longer at the end, when the connections are closed.
        handler = NoticeHandler(notices)
        logging.getLogger("deviceshare").addHandler(handler)
        stack.callback(logging.getLogger("deviceshare").removeHandler, handler)
        system = System(wanted, run, notices, supervisor, bus, behind, directory)
        stack.push_async_callback(supervisor.stop, SERVICES)
        stack.push_async_callback(system._stop)
        system.beside(behind.run())
        system.beside(_keep_streams(bus))
        binder_options = ["--cluster", behind.spec]
        if local_server is not None:
            # What an API server has to be spared, the local cluster takes in its stride.
            binder_options += ["--reports-per-second", "5000"]
        await system.start_service("placement")
        await system.start_service("binder", *binder_options)
        await system.start_service("metrics", "--metrics-port", str(port))
        yield system


async def _connected(
    stack: AsyncExitStack, run: runfile.Run, wanted: Wanted, supervisor: Supervisor
) -> tuple[Connection, Backing]:
    """Connect to the bus and make its streams; reach the cluster. Raises CommandError."""
    failed = asyncio.ensure_future(supervisor.failed())
    connecting = asyncio.ensure_future(_connect(stack, run, wanted))
    try:
        async with asyncio.timeout(START_SECONDS):
            await asyncio.wait({failed, connecting}, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
            return await connecting
    except CannotLive as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(f"nats-server did not answer within {START_SECONDS:g} s") from None
    finally:
        await end(failed, connecting)


async def _connect(stack: AsyncExitStack, run: runfile.Run, wanted: Wanted) -> tuple[Connection, Backing]:
    await _listening(run.bus)
    bus = await connect(run.bus, "up")
    stack.push_async_callback(bus.close)
    await make_streams(bus)
    behind: Backing
    if run.cluster:
        await _listening(run.cluster)
        behind = await stack.enter_async_context(local_backing(run.cluster, wanted.directory))
    else:
        behind = await stack.enter_async_context(kube_backing(wanted.cluster))
    return bus, behind


async def _listening(url: str) -> None:
    """Wait until a server that was just started accepts connections."""
    host, _, port = url.removeprefix("nats://").partition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


async def _keep_streams(bus: Connection) -> None:
    """Make the streams again where a server came back without them: the services then fill them anew."""
    came_back = asyncio.Event()
    bus.on_reconnect(came_back.set)
    while True:
        await came_back.wait()
        came_back.clear()
        try:
            await make_streams(bus)
        except Exception as error:
            log.info("cannot make the streams yet: %r", error)
            await asyncio.sleep(0.5)
            came_back.set()


def _sweep() -> None:
    """Remove what was left by systems that were killed with SIGKILL."""
    for run in runfile.stale():
        directory = Path(run.directory)
        if directory.name.startswith("deviceshare-") and directory.parent == Path(tempfile.gettempdir()):
            shutil.rmtree(directory, ignore_errors=True)
