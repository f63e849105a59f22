"""The whole system as the manifests deploy it: each service a process with its own account and user of the bus.

What dies is started again, as kubelet would.
"""

import asyncio
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from deviceshare.model import Backoff
from deviceshare_cli.supervisor import Program, RestartPolicy, Supervisor
from support import deploy
from support.apiserver import ApiServer
from support.kube_proxy import KubeProxy
from support.mounted import Installation

SYSTEM = "deviceshare-system"
SERVICES = ("setup", "placement", "binder", "metrics", "inventory")
BUS = "bus"
NUMBERS = tuple(f"deviceshare_{name}" for name in ("service_ready", "service_open", "service_counts", "bus_"))
"""Beginnings of the metrics that show whether a service is stuck, and where."""


class Deployed:
    """The services at work on an API server where everything is installed. Use as an async context manager.

    ``options`` are further arguments of services. Inventory, which alone watches, sees the server through ``proxy``.
    """

    proxy: KubeProxy

    def __init__(self, server: ApiServer, directory: Path, options: Mapping[str, Sequence[str]]) -> None:
        self._server, self._directory, self._options = server, directory, options
        self._said: list[str] = []

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.proxy = await stack.enter_async_context(KubeProxy(self._server))
            self._supervisor = Supervisor(self._said.append, RestartPolicy(Backoff(0.2, 1.0)))
            stack.push_async_callback(self._supervisor.stop)
            self.installation = Installation(self._directory)
            bus = self.installation.bus(BUS)
            await self._supervisor.start(bus.program)
            for name in SERVICES:
                await self._supervisor.start(self._program(name, bus.url))
            self._failed = asyncio.ensure_future(self._supervisor.failed())
            self._bus_name = bus.program.name
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._failed.cancel()
        await self._stack.aclose()

    @property
    def has_ended(self) -> bool:
        """Whether something of it dies again and again."""
        return self._failed.done()

    @property
    def log(self) -> str:
        """What was said of processes that died, and of each the numbers of its work and the end of what it said."""
        texts = {name: (self._directory / f"{name}.log").read_text() for name in SERVICES}
        ends = [
            f"== {name}\n{self._numbers(text)}\n{_without_rare_kinds(text)[-4000:]}" for name, text in texts.items()
        ]
        return "\n".join([*self._said, *ends])

    def kill(self, name: str) -> None:
        """Kill a service, or the bus, as a power cut would."""
        os.kill(self._supervisor.pids[self._bus_name if name == BUS else name], signal.SIGKILL)

    def _program(self, name: str, bus: str) -> Program:
        service = deploy.service(name, self.installation.of(name))
        variables = service.variables | {"DEVICESHARE_BUS": bus.replace("nats://", "tls://")}
        # A bus on which no service has run: nothing may be in flight.
        if name == "setup":
            variables["DEVICESHARE_BUS_HOLD"] = "0"
        if service.has_token:
            token = deploy.token(self._server, SYSTEM, name)
            direct = str(self._server.kubeconfig(name, token))
            through = self.proxy.kubeconfig(self._directory, name, token) if name == "inventory" else direct
            variables["KUBECONFIG"] = through
        command = (sys.executable, "-m", *service.arguments, *self._options.get(name, ()))
        return Program(name, command, self._directory / f"{name}.log", variables)

    def _numbers(self, text: str) -> str:
        """Return the metrics about the work of a service, from the address that its log names last."""
        addresses = re.findall(r'"serving health and metrics","addresses":\["([^"]+)"', text)
        if not addresses:
            return ""
        secret = (self._directory / "credentials" / "http" / "secret").read_text().strip()
        request = urllib.request.Request(f"{addresses[-1]}/metrics", headers={"Authorization": f"Bearer {secret}"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError as error:
            return f"no metrics: {error}"
        return "\n".join(line for line in lines if line.startswith(NUMBERS))


def _without_rare_kinds(text: str) -> str:
    """Return a log without what inventory says of silent watches, except that of pods."""
    silent = '"the watch of /'
    return "\n".join(line for line in text.splitlines() if silent not in line or f"{silent}api/v1/pods " in line)
