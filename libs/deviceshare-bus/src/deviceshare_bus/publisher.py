"""Writing to a stream: many publishes in flight, each with its own answer, compare-and-set where the writer asks for
it.

A publish ends in one of three ways: the message's sequence, :class:`Conflict` (somebody else wrote the subject first:
nothing was written), or :class:`Unknown` (the answer did not come; the message may or may not have been written, read
back before deciding anything).
"""

import asyncio
import secrets
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from deviceshare_bus.connection import Connection

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
TTL = "Nats-TTL"
BATCH_LIMIT = 1000
"""Messages in one atomic batch, at most: the server's limit."""
_WRONG_LAST_SEQUENCE = (10071, 10164)


class PublishError(Exception):
    """A message was not, or may not have been, written."""


class Conflict(PublishError):
    """Another message stood under the subject than the writer expected; nothing was written."""


class Unknown(PublishError):
    """Nobody knows whether it was written."""


class Refused(PublishError):
    """The server did not take it, for a reason that trying again does not change."""


class Write(NamedTuple):
    """One message to be written.

    ``expected`` is the sequence that must be the subject's last, 0 for none, None for whatever it is.
    """

    subject: str
    data: bytes
    expected: int | None = None


class _AckError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Ack(msgspec.Struct):
    seq: int = 0
    error: _AckError | None = None


class Publisher:
    """Publishes over one connection. One instance serves a whole service."""

    def __init__(self, connection: Connection, timeout: float = 5.0) -> None:
        self._connection = connection
        self._timeout = timeout
        self._prefix = ""
        self._count = 0
        self._waiting: dict[str, tuple[asyncio.Future[int], float]] = {}
        self._decode = msgspec.json.Decoder(_Ack).decode
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen for answers."""
        self._prefix = self._connection.client.new_inbox() + "."
        await self._connection.subscribe(self._prefix + "*", self._answered)
        self._connection.on_disconnect(self._lost)
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        """Stop listening; what is in flight becomes unknown."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._lost()

    @property
    def in_flight(self) -> int:
        """How many answers are awaited."""
        return len(self._waiting)

    async def send(self, write: Write, *, ttl: float | None = None) -> asyncio.Future[int]:
        """Send a message and return the future of its sequence; await it, or fail on it, later."""
        headers: dict[str, str] | None = None
        if write.expected is not None:
            headers = {EXPECTED: str(write.expected)}
        if ttl is not None:
            headers = {**(headers or {}), TTL: str(max(1, int(ttl)))}
        token, future = self._expect()
        if not future.done():
            await self._publish(write, token, headers)
        return future

    async def send_atomic(self, writes: Sequence[Write]) -> asyncio.Future[int]:
        """Send messages of one stream as one batch: all are written or none; the future is the sequence of the last.

        The messages of a batch stand in the stream without a gap, in this order.
        """
        if not 0 < len(writes) <= BATCH_LIMIT:
            raise ValueError(f"an atomic batch has 1 to {BATCH_LIMIT} messages, not {len(writes)}")
        batch = secrets.token_hex(16)
        token, future = self._expect()
        if future.done():
            return future
        for number, write in enumerate(writes, 1):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            if write.expected is not None:
                headers[EXPECTED] = str(write.expected)
            if number == len(writes):
                headers["Nats-Batch-Commit"] = "1"
            # Only the commit is answered with what became of the batch.
            await self._publish(write, token if number == len(writes) else "", headers)
        return future

    async def write(self, write: Write, *, ttl: float | None = None) -> int:
        """Send a message and wait for its sequence."""
        return await (await self.send(write, ttl=ttl))

    def _expect(self) -> tuple[str, asyncio.Future[int]]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        # An error that nobody waits for any more is not worth a traceback.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._count += 1
        token = f"{self._prefix}{self._count}"
        if self._connection.connected:
            self._waiting[token] = (future, loop.time() + self._timeout)
        else:  # nothing may wait in the client's buffer, to be sent long after the writer has read back
            future.set_exception(Unknown("not connected"))
        return token, future

    async def _publish(self, write: Write, token: str, headers: dict[str, str] | None) -> None:
        try:
            await self._connection.client.publish(write.subject, write.data, reply=token, headers=headers)
        except (NatsError, OSError) as error:
            waiting = self._waiting.pop(token, None)
            if waiting is not None and not waiting[0].done():
                waiting[0].set_exception(Unknown(repr(error)))

    async def _answered(self, message: Msg) -> None:
        waiting = self._waiting.pop(message.subject, None)
        if waiting is None or waiting[0].done():
            return
        future = waiting[0]
        if not message.data:  # nobody listens on the subject: the stream is not there (yet)
            future.set_exception(Unknown("no stream takes this subject"))
            return
        ack = self._decode(message.data)
        if ack.error is None:
            future.set_result(ack.seq)
        elif ack.error.err_code in _WRONG_LAST_SEQUENCE:
            future.set_exception(Conflict(ack.error.description))
        elif ack.error.code in (503, 408, 429):
            future.set_exception(Unknown(ack.error.description))
        else:
            future.set_exception(Refused(ack.error.description))

    def _lost(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            if not future.done():
                future.set_exception(Unknown("the connection was lost"))

    async def _sweep(self) -> None:
        """Give up on answers that do not come."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0.5)
            now = loop.time()
            late = [token for token, (_, until) in self._waiting.items() if until < now]
            for token in late:
                future, _ = self._waiting.pop(token)
                if not future.done():
                    future.set_exception(Unknown(f"no answer within {self._timeout} s"))
