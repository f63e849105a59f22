"""Three nats-servers that replicate their streams."""

import asyncio
from pathlib import Path

import msgspec
from deviceshare_bus.wire.connection import Connection
from deviceshare_cli.ports import free_port
from nats.errors import Error as NatsError
from support.natsserver import NatsServer


class NatsCluster:
    """The servers ``n0``, ``n1`` and ``n2``."""

    def __init__(self, directory: Path, **jetstream: str) -> None:
        ports = [free_port() for _ in range(3)]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.servers: dict[str, NatsServer] = {}
        for number, port in enumerate(ports):
            name = f"n{number}"
            home = directory / name
            home.mkdir()
            options = (
                f"server_name: {name}\nmax_payload: 8388608\n"
                f'cluster {{ name: test, listen: "127.0.0.1:{port}", routes: [{routes}] }}\n'
            )
            self.servers[name] = NatsServer(home, options=options, **jetstream)

    @property
    def url(self) -> str:
        """All servers, as the option ``--bus`` takes them."""
        return ",".join(server.url for server in self.servers.values())

    def start(self) -> None:
        """Start all servers."""
        for server in self.servers.values():
            server.start()

    def kill(self) -> None:
        """Kill all servers."""
        for server in self.servers.values():
            server.kill()

    async def leader(self, connection: Connection, stream: str, seconds: float = 60.0) -> str:
        """Return the leader of a stream, when all of its replicas are current."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    found = (await connection.jetstream.stream_info(stream)).cluster
                except (NatsError, OSError):
                    found = None
                replicas = found.replicas or [] if found else []
                if found and found.leader and len(replicas) == 2 and all(one.current for one in replicas):
                    return str(found.leader)
                await asyncio.sleep(0.2)

    async def lead(self, connection: Connection, stream: str, name: str) -> None:
        """Let a server lead a stream, if it takes the request."""
        request = msgspec.json.encode({"placement": {"preferred": name}})
        try:
            await connection.requests.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", request, 5.0)
        except (NatsError, OSError):
            return
