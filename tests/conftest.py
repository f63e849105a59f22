"""A real nats-server for every test that wants one, on a free port, with a store of its own."""

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

# How long an example takes says nothing on a machine that does other things; where CI runs, it finds what it found.
settings.register_profile(
    "deviceshare",
    deadline=None,
    derandomize=os.environ.get("CI", "").lower() in ("1", "true"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deviceshare")

_BINARY = Path(sys.executable).parent / "nats-server"


class NatsServer:
    """A nats-server with JetStream that can be killed, frozen and started again on the same port and store."""

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
        """Start the server and wait until it takes connections."""
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
        """End the server as a power cut would."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    async def restart(self, pause: float = 0.0) -> None:
        """Kill the server and start it again after ``pause`` seconds, the event loop running meanwhile."""
        self.kill()
        await asyncio.sleep(pause)
        await asyncio.to_thread(self.start)

    def freeze(self) -> None:
        """Make the server silent: connections stay, nothing is answered."""
        self._signal(signal.SIGSTOP)
        if self._process is not None:
            os.waitpid(self._process.pid, os.WUNTRACED)  # until the signal has taken effect

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """Give a running nats-server of the test's own."""
    directory = tmp_path / "nats"
    directory.mkdir()
    server = NatsServer(directory)
    server.start()
    yield server
    server.thaw()
    server.kill()


@pytest.fixture
def nats_url(nats_server: NatsServer) -> str:
    """Give the URL of a running nats-server of the test's own."""
    return nats_server.url


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give a running kube-apiserver; tests leave it as empty as they found it."""
    server = ApiServer(kube.binaries(), tmp_path_factory.mktemp("kube"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
