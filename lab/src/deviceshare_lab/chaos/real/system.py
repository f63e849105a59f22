"""The processes of a run: two nats-servers and the replicas of the services, each behind proxies of its own."""

import asyncio
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from deviceshare.model import Backoff
from deviceshare_bus.runtime.setup import default_hold
from deviceshare_bus.streams.creation import keep_streams, make_streams
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.credentials import Credentials, of_directory
from deviceshare_bus.wire.tasks import end
from deviceshare_cli import natsserver, runfile
from deviceshare_cli.pods import SCHEDULERS
from deviceshare_cli.ports import LOOPBACK, free_port
from deviceshare_cli.supervisor import Program, RestartPolicy, Supervisor
from deviceshare_cluster import LOCAL
from deviceshare_localcluster import Controller, LocalCluster

from deviceshare_lab.chaos.real import users
from deviceshare_lab.chaos.real.options import Options
from deviceshare_lab.chaos.real.proxy import Link

log = logging.getLogger("deviceshare.chaos")

DENIED = "nats-server denies"
"""Begins what a service logs when it has no right to what it tried on the bus."""
START_SECONDS = 30.0
QUOTA = 320 << 20
"""Bytes of the bus's store. EVENT reserves 256 MiB of it."""
POLICY = RestartPolicy(Backoff(0.2, 2.0), early_deaths=1_000_000)
BUS, CLUSTER = "bus", "cluster"
CREDENTIALS = "credentials"
"""The directory of the credentials of a bus with users, in that of the run."""
ON_CLUSTER = ("inventory", "binder")
"""The services that connect to the cluster."""


class NoEffect(Exception):
    """A fault has no effect at this moment; the text says why."""


@dataclass
class System:
    """The running processes. ``crashes`` gets a line for each process that ended by itself."""

    directory: Path
    supervisor: Supervisor
    bus_program: Program
    bus_url: str
    cluster_program: Program
    cluster_url: str
    links: dict[str, dict[str, Link]] = field(default_factory=dict)
    """The proxies of each replica, by ``bus`` and ``cluster``."""
    crashes: list[str] = field(default_factory=list)
    ending: bool = False
    _paused: set[str] = field(default_factory=set)

    @property
    def replicas(self) -> list[str]:
        """Names of the services' processes, such as ``binder-2``."""
        return list(self.links)

    @property
    def store(self) -> Path:
        """The directory of the bus's messages."""
        return self.directory / BUS / "store"

    def credentials_of(self, user: str) -> Credentials:
        """Return the credentials of a user of the bus; none on a bus without users."""
        return of_directory(self.directory / CREDENTIALS, user)

    async def connect(self, name: str, user: str) -> Connection:
        """Connect to the bus as a user, under a name."""
        return await connect(self.bus_url, name, credentials=self.credentials_of(user))

    def log(self, name: str) -> Path:
        """Return the log of a replica."""
        return self.directory / f"{name}.log"

    @property
    def denials(self) -> list[str]:
        """What nats-server has denied to services, as their logs say."""
        logs = ((name, self.log(name).read_text(errors="replace")) for name in self.replicas)
        return [f"{name}: {line}" for name, text in logs for line in text.splitlines() if DENIED in line]

    def exited(self, line: str) -> None:
        """Hear from the supervisor that a process ended."""
        if "was killed by" not in line and not line.startswith("nats-server") and not self.ending:
            self.crashes.append(line)

    def pid(self, name: str) -> int | None:
        """Return the process id of a replica, ``bus`` or ``cluster``, None while it does not run."""
        programs = {BUS: self.bus_program.name, CLUSTER: self.cluster_program.name}
        return self.supervisor.pids.get(programs.get(name, name))

    def signal(self, name: str, number: int) -> int | None:
        """Send a signal to a process, and return its id, None if it does not run."""
        pid = self.pid(name)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid

    def runs(self, name: str) -> bool:
        """Whether a process runs and is not suspended."""
        return self.pid(name) is not None and name not in self._paused

    @asynccontextmanager
    async def paused(self, name: str) -> AsyncIterator[None]:
        """Suspend a process, once its system calls have ended. It may be killed meanwhile. Raises NoEffect.

        NoEffect: it does not run.
        """
        if not self.runs(name) or (pid := self.signal(name, signal.SIGSTOP)) is None:
            raise NoEffect(f"{name} does not run")
        self._paused.add(name)
        try:
            await asyncio.to_thread(_wait_stopped, pid)
            yield
        finally:
            self._paused.discard(name)
            if pid == self.pid(name):
                self.signal(name, signal.SIGCONT)

    async def pause(self, name: str, seconds: float, began: Callable[[], None]) -> None:
        """Suspend a process for some time. Raises NoEffect if it does not run."""
        async with self.paused(name):
            began()
            await asyncio.sleep(seconds)

    async def restart_bus(self, change: Callable[[Path], None] | None = None, seconds: float = 0.0) -> None:
        """Kill the bus, change its store, and start it again after some time."""
        self.signal(BUS, signal.SIGSTOP)  # so that it cannot end in an orderly way
        await self.supervisor.stop([self.bus_program.name], patience=0.0)
        try:
            if change is not None:
                await asyncio.to_thread(change, self.store)
            await asyncio.sleep(seconds)
        finally:
            await self.supervisor.start(self.bus_program)

    def dump_core_logs(self) -> None:
        """Have every service write its core log to the directory."""
        for name in self.replicas:
            self.signal(name, signal.SIGUSR1)


def _wait_stopped(pid: int) -> None:
    """Wait until all threads of a child have stopped, or it has ended; its state can be waited for again."""
    if hasattr(os, "waitid"):  # not before Python 3.13 on macOS
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


@asynccontextmanager
async def running(options: Options, chance: random.Random, keep: Callable[[], bool]) -> AsyncIterator[System]:
    """Start the processes; at the end stop them, and remove their directory unless ``keep`` says to keep it.

    Raises CommandError if a binary is missing, TimeoutError if a server does not answer.
    """
    natsserver.find_binary()
    async with AsyncExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="deviceshare-chaos-"))
        stack.callback(lambda: None if keep() else shutil.rmtree(directory, ignore_errors=True))
        supervisor = Supervisor(lambda line: system.exited(line), POLICY)
        authorization = ""
        if options.users:
            users.write(directory / CREDENTIALS)
            authorization = f"{CREDENTIALS}/{users.AUTHORIZATION}"
        (bus,) = natsserver.prepare_cluster(BUS, directory, 1, authorization)
        cluster = natsserver.prepare(CLUSTER, directory, synced=False)
        _limit_store(directory / BUS / "nats-server.conf")
        system = System(directory, supervisor, bus.program, bus.url, cluster.program, cluster.url)
        port = free_port()
        run = runfile.Run(
            pid=os.getpid(),
            bus=bus.url,
            cluster=cluster.url,
            metrics=f"http://{LOOPBACK}:{port}",
            directory=str(directory),
            schedulers=SCHEDULERS,
            credentials=str(directory / CREDENTIALS),
        )
        runfile.write(run)
        stack.callback(runfile.remove, run)
        stack.push_async_callback(supervisor.stop)
        await supervisor.start(bus.program)
        await supervisor.start(cluster.program)
        tasks = await _prepared(stack, system)
        tasks.append(asyncio.create_task(natsserver.keep_writable(bus, supervisor, log.info)))
        await _start_services(stack, system, options.replicas, chance, port)
        try:
            yield system
        finally:
            system.ending = True
            for name in system.replicas:  # a suspended process cannot end
                system.signal(name, signal.SIGCONT)
            await supervisor.stop(system.replicas)  # before the proxies and the servers
            await end(*tasks)


async def _prepared(stack: AsyncExitStack, system: System) -> list[asyncio.Task[None]]:
    """Create the streams and set up the cluster; return the tasks that keep them: as in ``up``."""
    async with asyncio.timeout(START_SECONDS):
        bus = await system.connect("chaos", "setup")
        stack.push_async_callback(bus.close)
        await bus.repeat(lambda: make_streams(bus), "the streams cannot be created yet")
        cluster = await stack.enter_async_context(LocalCluster(system.cluster_url, name="chaos-controllers"))
        await cluster.setup()
    works = keep_streams(bus, 1, default_hold()), Controller(cluster).run()
    return [asyncio.create_task(work) for work in works]


async def _start_services(
    stack: AsyncExitStack, system: System, replicas: Mapping[str, int], chance: random.Random, port: int
) -> None:
    for service, count in replicas.items():
        for number in range(1, count + 1):
            name = f"{service}-{number}"
            links = system.links[name] = {}
            links[BUS] = await stack.enter_async_context(Link(system.bus_url, random.Random(chance.random())))
            command = [sys.executable, "-m", f"deviceshare_{service}", "--bus", links[BUS].url]
            command += system.credentials_of(service).arguments()
            if service in ON_CLUSTER:
                link = Link(system.cluster_url, random.Random(chance.random()))
                links[CLUSTER] = await stack.enter_async_context(link)
                command += ["--cluster", f"{LOCAL}{links[CLUSTER].url}"]
            if service == "binder":
                command += ["--reports-per-second", "5000"]
            if service == "metrics":
                command += ["--metrics-port", str(port if number == 1 else 0)]
            environment = {"DEVICESHARE_CORE_LOG_DIR": str(system.directory)}
            program = Program(name, tuple(command), system.log(name), environment)
            await system.supervisor.start(program)


def _limit_store(config: Path) -> None:
    """Limit the size of a server's store, so that a fault can fill it."""
    text = config.read_text()
    assert "jetstream { " in text
    config.write_text(text.replace("jetstream { ", f"jetstream {{ max_file_store: {QUOTA}, "))
