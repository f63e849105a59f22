"""A real nats-server of one test."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

BINARY = Path(sys.executable).parent / "nats-server"


class NatsServer:
    """A nats-server with JetStream that can be killed, suspended and restarted on the same port and store."""

    def __init__(self, directory: Path, *, options: str = "", **jetstream: str) -> None:
        """Take the directory of configuration, log and store, and further options of the server and of JetStream."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self.directory = directory
        self._config = directory / "nats-server.conf"
        self.store = directory / "store"
        stored = {"store_dir": f'"{self.store}"', **jetstream}
        settings = "\n".join(f"  {key}: {value}" for key, value in stored.items())
        self._config.write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            + (options or "max_payload: 8388608\n")
            + f"jetstream {{\n{settings}\n}}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        with (self.directory / "nats-server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(BINARY), "--config", str(self._config)], stdout=log, stderr=subprocess.STDOUT
            )
        until = time.monotonic() + 60
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
