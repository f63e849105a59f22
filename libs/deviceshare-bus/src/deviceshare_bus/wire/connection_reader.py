"""What arrives on one connection to nats-server: to the parser at once, without a task.

Messages of subscriptions with a listener go to it from the parser. Everything else waits until nats-py has taken it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import nats.errors

from deviceshare_bus.wire.framing import Listener, Malformed, Other, Parser
from deviceshare_bus.wire.transport import NatsTransport

CHUNK = 1 << 20
"""Bytes that are read at once before the protocol is replaced."""
MAX_OTHERS = 10_000
"""Lines and messages for nats-py that may wait; then nothing is read from the connection until it has taken them."""
READ_AT_ONCE_BYTES = 1 << 14
"""Bytes after which the next read does not wait (:attr:`ReadingClient.read_interval`)."""


class ReadingClient(Protocol):
    """What a client does with what is read."""

    read_interval: float
    """Seconds for which what arrives is left in the socket after a read of little."""

    async def take(self, other: Other) -> None:
        """Handle a line, or a message without a listener."""
        ...

    def failed(self, error: Exception) -> None:
        """Report what a listener has raised."""
        ...

    def hold_back(self, behind: bool) -> None:
        """Hear that the server does not read, or reads again."""
        ...


class ConnectionReader(asyncio.Protocol):
    """Reads one connection in place of nats-py's protocol, which still hears of everything but the data.

    ``listeners``: by the number of the subscription; the client adds and removes them meanwhile.
    """

    def __init__(self, client: ReadingClient, listeners: Mapping[int, Listener], transport: NatsTransport) -> None:
        self._client = client
        self._transport = transport
        self._parser = Parser(listeners, client.failed)
        self._others: deque[Other] = deque()
        self._error: Exception | None = None
        self._wake = asyncio.Event()
        self._paused = False
        """Whether too much waits for nats-py to read more."""
        self._read_delayed = False
        """Whether the next read waits for :attr:`ReadingClient.read_interval`."""
        self.ended = False

    async def run(self) -> None:
        """Read until cancelled. Raises Malformed, OSError or UnexpectedEOF when the connection has ended."""
        data = b" " * CHUNK
        while len(data) == CHUNK:  # what nats-py has read beyond the answer to CONNECT
            data = await self._transport.read(CHUNK)
            if not data:
                raise nats.errors.UnexpectedEOF
            self._others.extend(self._parser.feed(data))
        stream = self._transport.stream
        if self._transport.ended:
            raise nats.errors.UnexpectedEOF
        self._inner: Any = stream.get_protocol()
        stream.set_protocol(self)
        while True:
            while self._others:
                await self._client.take(self._others.popleft())
            if self._error is not None:
                raise self._error
            if self._paused:
                self._paused = False
                self._read_on()
            self._wake.clear()
            await self._wake.wait()

    def data_received(self, data: bytes) -> None:
        """Parse."""
        if self.ended or self._error is not None:
            return
        try:
            others = self._parser.feed(data if type(data) is bytes else bytes(data))
        except Malformed as error:
            self._end(error)
            return
        if others:
            self._others.extend(others)
            self._wake.set()
            if len(self._others) > MAX_OTHERS and not self._paused:
                self._paused = True
        interval = self._client.read_interval
        if interval and len(data) < READ_AT_ONCE_BYTES and not self._read_delayed:
            self._read_delayed = True
            asyncio.get_running_loop().call_later(interval, self._resume_after_delay)
        if self._paused or self._read_delayed:
            self._transport.stream.pause_reading()

    def _resume_after_delay(self) -> None:
        self._read_delayed = False
        self._read_on()

    def _read_on(self) -> None:
        stream = self._transport.stream
        if not (self._paused or self._read_delayed or self.ended or stream.is_closing()):
            stream.resume_reading()

    def eof_received(self) -> None:
        """End with an error; the transport closes itself."""
        self._inner.eof_received()
        self._end(nats.errors.UnexpectedEOF())

    def connection_lost(self, error: Exception | None) -> None:
        """End with an error."""
        self._end(error if isinstance(error, OSError) else nats.errors.UnexpectedEOF())
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Hear that the server does not read as fast as it is sent to."""
        self._inner.pause_writing()
        if not self.ended:
            self._client.hold_back(True)

    def resume_writing(self) -> None:
        """Hear that it has caught up."""
        self._inner.resume_writing()
        if not self.ended:
            self._client.hold_back(False)

    def _end(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
            self._wake.set()
