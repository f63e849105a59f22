"""Fixtures: a real nats-server, on a free port and with its own store, and a kube-apiserver."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support import apiserver as kube
from support.apiserver import ApiServer

# No deadline: the machine may be busy. In CI the inputs are the same in every run.
settings.register_profile(
    "deviceshare",
    deadline=None,
    derandomize=os.environ.get("CI", "").lower() in ("1", "true"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deviceshare")

_BINARY = Path(sys.executable).parent / "nats-server"


class NatsServer:
    """A nats-server with JetStream that can be killed, suspended and restarted on the same port and store."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self.directory = directory
        self._config = directory / "nats-server.conf"
        self._config.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_payload: 8388608\njetstream {{ store_dir: "{directory}/store" }}\n'
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        with (self.directory / "nats-server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(_BINARY), "--config", str(self._config)], stdout=log, stderr=subprocess.STDOUT
            )
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError((self.directory / "nats-server.log").read_text())

    def kill(self) -> None:
        """Kill the server, as a power failure would."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    async def restart(self, pause: float = 0.0) -> None:
        """Kill the server and start it again after ``pause`` seconds, while the event loop runs."""
        self.kill()
        await asyncio.sleep(pause)
        await asyncio.to_thread(self.start)

    def freeze(self) -> None:
        """Suspend the server: connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)
        if self._process is not None:
            os.waitpid(self._process.pid, os.WUNTRACED)  # until the signal has taken effect

    def thaw(self) -> None:
        """Resume a suspended server."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """Give a running nats-server for one test."""
    directory = tmp_path / "nats"
    directory.mkdir()
    server = NatsServer(directory)
    server.start()
    yield server
    server.thaw()
    server.kill()


@pytest.fixture
def nats_url(nats_server: NatsServer) -> str:
    """Give the URL of a running nats-server for one test."""
    return nats_server.url


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give a running kube-apiserver; tests delete the objects that they create."""
    server = ApiServer(kube.binaries(), tmp_path_factory.mktemp("kube"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
