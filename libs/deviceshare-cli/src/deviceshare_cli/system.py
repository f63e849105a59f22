"""The system as processes of this machine: nats-server, the four services, and the local cluster.

``up`` and ``lab bench`` start it in the same order: servers and streams, then the services that only read the bus.
Inventory starts last, after the cluster has been loaded: the first decisions see all of its objects.
"""

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from deviceshare_bus.runtime.setup import default_hold
from deviceshare_bus.streams.creation import keep_streams, make_streams
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.tasks import end
from deviceshare_cluster import KUBE, signing

from deviceshare_cli import natsserver, runfile
from deviceshare_cli.backing import Backing, kube_backing, local_backing
from deviceshare_cli.credentials import files
from deviceshare_cli.errors import CommandError
from deviceshare_cli.leftovers import removed_after_death
from deviceshare_cli.notices import LogReader, NoticeHandler, Notices, read_logs
from deviceshare_cli.pods import SCHEDULERS
from deviceshare_cli.ports import LOOPBACK, metrics_port
from deviceshare_cli.settled import SERVICES
from deviceshare_cli.supervisor import Program, Supervisor

T = TypeVar("T")
log = logging.getLogger("deviceshare.up")
CREDENTIALS = "credentials"
"""The directory of the credentials that ``deviceshare credentials`` writes, in that of the system."""
START_SECONDS = 20.0
"""Timeout for the first answers of the nats-servers."""


@dataclass(frozen=True)
class Wanted:
    """The configuration of a system."""

    cluster: str = ""
    """``kube`` or ``kube:CONTEXT``; anything else is a local cluster."""
    directory: Path | None = None
    """The manifests of a local cluster."""
    conf: Path | None = None
    """A ``volcano-scheduler.conf``."""
    schedulers: tuple[str, ...] = SCHEDULERS
    metrics_port: int | None = None
    """0: any free port."""
    bus_servers: int = 1
    """The nats-servers of the bus; each holds all streams."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    """The processes of each service, 1 for a service without an entry."""
    dry_run: bool = False
    """Whether nothing is written to the cluster: another scheduler binds the pods."""

    @property
    def dry_run_options(self) -> list[str]:
        """The options of the services that write to the cluster."""
        return ["--dry-run"] if self.dry_run else []


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
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def start_service(self, service: str, *options: str) -> None:
        """Start the replicas of one of the four services."""
        bus = ("--bus", self.run.bus, "--bus-replicas", str(self.wanted.bus_servers))
        http = ("--http-access", "secret", "--http-secret-file", str(secret_file(self.directory)))
        credentials = self.run.credentials_of(service).arguments()
        command = (sys.executable, "-m", f"deviceshare_{service}", *bus, *credentials, *http, *options)
        for name in replica_names(service, self.wanted.replicas):
            path = self.directory / f"{name}.log"
            program = Program(name, (*command, "--instance", name), path, signing_environment(self.directory))
            await self.supervisor.start(program)
            self.beside(read_logs([LogReader(name, path, self.notices)]))

    async def start_inventory(self) -> None:
        """Start inventory, which reads the cluster: placement begins."""
        options = ["--cluster", self.backing.spec, *self.wanted.dry_run_options]
        if self.wanted.conf is not None:
            options += ["--conf", str(self.wanted.conf)]
        for name in self.wanted.schedulers:
            options += ["--scheduler-name", name]
        await self.start_service("inventory", *options)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; raise the error of a program or background task that fails meanwhile."""
        main = asyncio.ensure_future(work)
        failed = asyncio.ensure_future(self.supervisor.failed())
        try:
            done, _ = await asyncio.wait({main, failed, *self.tasks}, return_when=asyncio.FIRST_COMPLETED)
            if main not in done:
                for task in done:
                    task.result()  # raises: none of the tasks returns
                raise AssertionError("a background task returned")
            return main.result()
        finally:
            await end(main, failed)

    def beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a background task of the system; if it fails, :meth:`guard` fails."""
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task


def secret_file(directory: Path) -> Path:
    """Return the file with the secret of the HTTP ports."""
    return directory / CREDENTIALS / files.HTTP / files.HTTP_SECRET


def signing_environment(directory: Path) -> dict[str, str]:
    """Return the variables of services by which they sign: with the system's random key, unless keys are given."""
    if os.environ.get(signing.FILE) or os.environ.get(signing.KEY):
        return {}
    return {signing.FILE: str(directory / CREDENTIALS / files.SIGNING / files.SIGNING_KEYS)}


def replica_names(service: str, replicas: Mapping[str, int]) -> list[str]:
    """Return the names of the processes of a service: its own name for a single one, else with a number."""
    count = replicas.get(service, 1)
    return [service] if count == 1 else [f"{service}-{number}" for number in range(1, count + 1)]


@asynccontextmanager
async def running(wanted: Wanted, notices: Notices) -> AsyncIterator[System]:
    """Start the system without inventory, and stop it at the end.

    Raises CommandError if a binary is missing, a port is in use or a server does not start.
    """
    port = metrics_port(wanted.metrics_port)
    natsserver.find_binary()
    _sweep()
    async with AsyncExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="deviceshare-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        supervisor = Supervisor(notices.report)
        # Without TLS: only root can read the loopback interface, and clients check the user of the server's process.
        files.write(directory / CREDENTIALS, (), tls=False)
        users = f"{CREDENTIALS}/{files.SERVER}/{files.AUTHORIZATION}"
        bus_servers = natsserver.prepare_cluster("bus", directory, wanted.bus_servers, users)
        local_server = (
            None if wanted.cluster.startswith(KUBE) else natsserver.prepare("cluster", directory, synced=False)
        )
        run = runfile.Run(
            pid=os.getpid(),
            bus=",".join(server.url for server in bus_servers),
            cluster=local_server.url if local_server is not None else "",
            metrics=f"http://{LOOPBACK}:{port}",
            directory=str(directory),
            schedulers=wanted.schedulers,
            target=wanted.cluster,
            started_in=runfile.working_directory(),
            token=secret_file(directory).read_text(),
            credentials=str(directory / CREDENTIALS),
        )
        runfile.write(run)
        stack.callback(runfile.remove, run)
        await stack.enter_async_context(removed_after_death(directory, runfile.run_directory()))
        stack.push_async_callback(supervisor.stop)
        for server in bus_servers:
            await supervisor.start(server.program)
        if local_server is not None:
            await supervisor.start(local_server.program)
        bus, backing = await _connected(stack, run, wanted, supervisor)
        # Not during start and stop, when lost connections are expected.
        handler = NoticeHandler(notices)
        logging.getLogger("deviceshare").addHandler(handler)
        stack.callback(logging.getLogger("deviceshare").removeHandler, handler)
        system = System(wanted, run, notices, supervisor, bus, backing, directory)
        names = [name for service in SERVICES for name in replica_names(service, wanted.replicas)]
        stack.push_async_callback(supervisor.stop, names)
        stack.push_async_callback(lambda: end(*system.tasks))
        system.beside(backing.run())
        # The services may not create streams.
        system.beside(keep_streams(bus, wanted.bus_servers, default_hold()))
        for watched in (*bus_servers, local_server):
            if watched is not None:
                system.beside(natsserver.keep_writable(watched, supervisor, notices.report))
        binder_options = ["--cluster", backing.spec, *wanted.dry_run_options]
        if local_server is not None:
            # The default limit protects an API server; the local cluster needs no protection.
            binder_options += ["--reports-per-second", "5000"]
        await system.start_service("placement")
        await system.start_service("binder", *binder_options)
        await system.start_service("metrics", "--metrics-port", str(port))
        yield system


async def _connected(
    stack: AsyncExitStack, run: runfile.Run, wanted: Wanted, supervisor: Supervisor
) -> tuple[Connection, Backing]:
    """Connect to the bus and the cluster, and create the streams. Raises CommandError."""
    failed = asyncio.ensure_future(supervisor.failed())
    connecting = asyncio.ensure_future(_connect(stack, run, wanted))
    try:
        async with asyncio.timeout(START_SECONDS):
            await asyncio.wait({failed, connecting}, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
            return await connecting
    except TimeoutError:
        raise CommandError(f"nats-server did not answer within {START_SECONDS:g} s") from None
    finally:
        await end(failed, connecting)


async def _connect(stack: AsyncExitStack, run: runfile.Run, wanted: Wanted) -> tuple[Connection, Backing]:
    for url in run.bus.split(","):
        await _listening(url)
    bus = await connect(run.bus, "up", credentials=run.credentials_of("admin"))
    stack.push_async_callback(bus.close)
    # Servers of a cluster have to elect a leader first.
    await bus.repeat(partial(make_streams, bus, wanted.bus_servers), "cannot create the streams yet")
    backing: Backing
    if run.cluster:
        await _listening(run.cluster)
        backing = await stack.enter_async_context(local_backing(run.cluster, wanted.directory))
    else:
        backing = await stack.enter_async_context(kube_backing(wanted.cluster))
    return bus, backing


async def _listening(url: str) -> None:
    """Wait until a server accepts connections."""
    host, _, port = url.removeprefix("nats://").partition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


def _sweep() -> None:
    """Remove the run files and directories of systems that were killed with SIGKILL."""
    for run in runfile.stale():
        directory = Path(run.directory)
        if directory.name.startswith("deviceshare-") and directory.parent == Path(tempfile.gettempdir()):
            shutil.rmtree(directory, ignore_errors=True)
