"""A nats-server with the users that ``deviceshare credentials`` makes."""

import asyncio
from pathlib import Path

import nats
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.credentials import Credentials, of_directory
from deviceshare_cli.credentials import files
from support.natsserver import NatsServer

LOOPBACK = ("localhost", "127.0.0.1")


def tls_section(server: Path) -> str:
    """Return the ``tls`` section of a server whose files are in a directory."""
    return (
        f'tls {{ cert_file: "{server}/tls.crt", key_file: "{server}/tls.key", ca_file: "{server}/ca.crt", '
        "verify: true }\n"
    )


class Users:
    """New credentials in a directory beside a server; the server wants them after it was started (again)."""

    def __init__(self, server: NatsServer, *, tls: bool = False, hosts: tuple[str, ...] = LOOPBACK) -> None:
        self.directory = server.directory / "credentials"
        self.server = server
        self._tls = tls
        files.write(self.directory, hosts, tls=tls)
        config = server.directory / "nats-server.conf"
        own = self.directory / files.SERVER
        with config.open("a") as file:
            file.write(f'include "credentials/{files.SERVER}/{files.AUTHORIZATION}"\n')
            if tls:
                file.write(tls_section(own))

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self.server.url.replace("nats://", "tls://") if self._tls else self.server.url

    def of(self, user: str) -> Credentials:
        """Return the credentials of a user."""
        return of_directory(self.directory, user)

    async def connect(self, user: str) -> Connection:
        """Connect as a user."""
        return await connect(self.url, user, credentials=self.of(user))


async def connect_to_run(run: dict[str, str], user: str) -> Connection:
    """Connect to the bus of ``deviceshare up`` as a user; ``run``: its run file."""
    return await connect(run["bus"], "test", credentials=of_directory(Path(run["credentials"]), user))


class Client:
    """A client of a user, without deviceshare's own: what is denied to it."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.heard = asyncio.Event()

    async def failed(self, error: Exception) -> None:
        self.errors.append(str(error))
        self.heard.set()

    async def open(self, users: Users, user: str) -> "nats.NATS":
        return await nats.connect(
            users.url, nkeys_seed=users.of(user).seed, inbox_prefix=f"_INBOX.{user}", error_cb=self.failed
        )
