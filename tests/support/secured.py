"""The whole system as processes on nats-servers that are configured as in a cluster, with users and mutual TLS."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Self

import msgspec
from deviceshare.model import Backoff
from deviceshare_bus.runtime.setup import set_up
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.credentials import of_directory
from deviceshare_bus.wire.tasks import end
from deviceshare_cli import natsserver
from deviceshare_cli.credentials import files
from deviceshare_cli.ports import LOOPBACK, free_port
from deviceshare_cli.settled import SERVICES
from deviceshare_cli.supervisor import Program, RestartPolicy, Supervisor
from deviceshare_cluster.interface import Change
from deviceshare_localcluster import LocalCluster
from support.charts import FILES
from support.waiting import until

CONFIGURATION = FILES / "nats-cluster.conf"
HOSTS = ("localhost", LOOPBACK)
SETUP, CLUSTER = "setup", "cluster"
RESTART = RestartPolicy(Backoff(0.2, 1.0), early_deaths=1000)


class SecuredSystem:
    """The four services and the set-up step, each with its own credentials; ``servers`` nats-servers.

    ``secured``: users and TLS; without, as a bus of an earlier version. ``environment``: of all services.
    """

    cluster: LocalCluster

    def __init__(
        self, directory: Path, servers: int = 3, *, secured: bool = True, environment: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.credentials = directory / "credentials"
        self.servers = [f"bus-{number}" for number in range(servers)]
        self._secured = secured
        self._environment = dict(environment or {})
        self._ports = {name: free_port() for name in self.servers}
        self._said: list[str] = []
        self.bindings: list[float] = []
        """When each pod was bound, in monotonic seconds."""

    @property
    def url(self) -> str:
        """All servers, as ``--bus`` takes them."""
        scheme = "tls" if self._secured else "nats"
        return ",".join(f"{scheme}://{LOOPBACK}:{port}" for port in self._ports.values())

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._supervisor = Supervisor(self._said.append, RESTART)
            stack.push_async_callback(self._supervisor.stop)
            if self._secured:
                files.write(self.credentials, HOSTS)
            routes = {name: free_port() for name in self.servers}
            for name in self.servers:
                await self._supervisor.start(self._server(name, routes))
            local = natsserver.prepare(CLUSTER, self.directory)
            await self._supervisor.start(local.program)
            self.cluster = await stack.enter_async_context(LocalCluster(local.url, name="test"))
            await self.cluster.setup()
            self._watching = asyncio.create_task(self._watch())
            stack.push_async_callback(end, self._watching)
            self._local = local.url
            if self._secured:
                await self.start(SETUP)
            else:
                await set_up(self.url, 1 if len(self.servers) == 1 else 3)
            for service in SERVICES:
                await self.start(service)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def log(self, name: str) -> str:
        """Return what a process has logged."""
        return (self.directory / f"{name}.log").read_text()

    @property
    def said(self) -> str:
        """What was said of processes that ended, and the end of the log of each service."""
        return "\n".join([*self._said, *(f"== {name}\n{self.log(name)[-2000:]}" for name in SERVICES)])

    def pid(self, name: str) -> int:
        """Return the process id of a service, or of a server."""
        return self._supervisor.pids[name]

    def kill(self, name: str) -> None:
        """Kill a process; it starts again."""
        os.kill(self.pid(name), signal.SIGKILL)

    async def stop(self, name: str) -> None:
        """Stop a process for good."""
        await self._supervisor.stop([name])

    async def start(self, name: str, *options: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a service, or the set-up step, with further options and variables."""
        replicas = "1" if len(self.servers) == 1 else "3"
        command = [sys.executable, "-m", "deviceshare_bus.runtime.setup" if name == SETUP else f"deviceshare_{name}"]
        command += ["--bus", self.url, *options]
        own = ["--replicas", replicas, "--hold", "0", "--watch"] if name == SETUP else ["--bus-replicas", replicas]
        command += own
        if self._secured:
            command += of_directory(self.credentials, name).arguments()
        if name in ("inventory", "binder"):
            command += ["--cluster", f"local:{self._local}"]
        if name == "binder":
            command += ["--reports-per-second", "5000"]
        if name == "metrics":
            command += ["--metrics-port", "0"]
        chosen = {**self._environment, **(environment or {})}
        await self._supervisor.start(Program(name, tuple(command), self.directory / f"{name}.log", chosen))

    async def reload(self) -> None:
        """Let every nats-server read its configuration and certificates again, and wait until all have."""
        text = "Reloaded server configuration"
        before = {name: self.log(name).count(text) for name in self.servers}
        for name in self.servers:
            os.kill(self.pid(name), signal.SIGHUP)
        await until(lambda: not any(self.log(name).count(text) <= count for name, count in before.items()))

    async def connect(self, user: str) -> Connection:
        """Connect to the bus as a user."""
        return await connect(self.url, "test", credentials=of_directory(self.credentials, user))

    async def bound(self, count: int, within: float) -> None:
        """Wait until so many pods have been bound."""
        until = time.monotonic() + within
        while len(self.bindings) < count:
            if self._watching.done():
                self._watching.result()
            assert time.monotonic() < until, f"{len(self.bindings)} of {count} pods are bound\n{self.said}"
            await asyncio.sleep(0.02)

    def longest_pause(self, since: float, until: float) -> float:
        """Return the longest time without a binding between two times."""
        times = [since, *(at for at in self.bindings if since < at < until), until]
        return max(after - before for before, after in pairwise(times))

    async def _watch(self) -> None:
        bound: set[str] = set()
        async for batch in self.cluster.watch(("Pod",)):
            for change in batch:
                if not isinstance(change, Change) or change.name in bound or not change.raw:
                    continue
                if msgspec.json.decode(change.raw)["spec"].get("nodeName"):
                    bound.add(change.name)
                    self.bindings.append(time.monotonic())

    def _server(self, name: str, routes: Mapping[str, int]) -> Program:
        home = self.directory / name
        home.mkdir()
        text = CONFIGURATION.read_text()
        if not self._secured:
            text = re.sub(r"(?ms)^include .*?$|^ *tls \{.*?\}$", "", text)
        if len(self.servers) == 1:
            text = text[: text.index("cluster {")]
        text = replaced(text, [
            ('"0.0.0.0:4222"', f'"{LOOPBACK}:{self._ports[name]}"'),
            ('"127.0.0.1:8222"', f'"{LOOPBACK}:{free_port()}"'),
            ('"/data"', f'"{home / "store"}"'),
            ('"secret/auth.conf"', f'"../credentials/{files.SERVER}/{files.AUTHORIZATION}"'),
            ('"/etc/nats/secret/', f'"{self.credentials / files.SERVER}/'),
            ('"0.0.0.0:6222"', f'"{LOOPBACK}:{routes[name]}"'),
            *((f'"nats://{each}.bus:6222"', f'"nats://{LOOPBACK}:{port}"') for each, port in routes.items()),
        ])  # fmt: skip
        (home / "nats-server.conf").write_text(text)
        command = (natsserver.find_binary(), "--config", str(home / "nats-server.conf"))
        settings = natsserver.runtime_settings(os.cpu_count() or 1, os.environ) | {"POD_NAME": name}
        return Program(name, command, self.directory / f"{name}.log", settings)


def replaced(text: str, changes: Sequence[tuple[str, str]]) -> str:
    """Return a configuration for this machine."""
    for old, new in changes:
        text = text.replace(old, new)
    return text
