"""TCP proxies between the services and their servers: they delay, drop and half-open connections."""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deviceshare_bus.wire.tasks import end
from deviceshare_cli.ports import LOOPBACK

CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)
"""The value of ``SO_LINGER`` with which closing sends RST."""


class _Pair:
    """A client's connection and the connection to the server that belongs to it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._writers = client, server
        self.silent = False

    def abort(self) -> None:
        for writer in self._writers:
            _reset(writer)


class Link:
    """One address that leads to a server. Use as an async context manager."""

    def __init__(self, target: str, chance: random.Random) -> None:
        """Take the server's URL, ``nats://HOST:PORT``."""
        host, _, port = target.rpartition("//")[2].partition(":")
        self._target = host, int(port)
        self._chance = chance
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._delays: list[float] = []
        self._refusals = 0

    async def __aenter__(self) -> "Link":
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accepted, LOOPBACK, 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"nats://{LOOPBACK}:{port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close everything."""
        self._server.close()
        self.cut()
        await end(*self._tasks)

    @asynccontextmanager
    async def delayed(self, seconds: float) -> AsyncIterator[None]:
        """Let each chunk of bytes wait for a random time up to so many seconds, in order."""
        self._delays.append(seconds)
        try:
            yield
        finally:
            self._delays.remove(seconds)

    @asynccontextmanager
    async def refused(self) -> AsyncIterator[None]:
        """Reset all connections, and new ones at once."""
        self._refusals += 1
        self.cut()
        try:
            yield
        finally:
            self._refusals -= 1

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return len(self._pairs)

    def cut(self) -> None:
        """Reset all connections."""
        for pair in self._pairs:
            pair.abort()

    def silence(self) -> None:
        """Half-open the present connections: they stay open, and what is sent on them is lost from now on."""
        for pair in self._pairs:
            pair.silent = True

    def cut_silent(self) -> None:
        """Reset the connections that are half-open."""
        for pair in self._pairs:
            if pair.silent:
                pair.abort()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusals:
            _reset(writer)
            return
        try:
            from_server, to_server = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        pair = _Pair(writer, to_server)
        self._pairs.add(pair)
        try:
            # A direction that ends aborts both connections, which ends the other direction.
            await asyncio.gather(self._pump(pair, reader, to_server), self._pump(pair, from_server, writer))
        finally:
            self._pairs.discard(pair)
            pair.abort()

    async def _pump(self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self._delays:
                    await asyncio.sleep(self._chance.random() * max(self._delays))
                if not pair.silent:
                    writer.write(data)
                    await writer.drain()
        pair.abort()


def _reset(writer: asyncio.StreamWriter) -> None:
    # A connection that is closed already has no socket: uvloop raises ValueError then.
    with contextlib.suppress(OSError, ValueError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
