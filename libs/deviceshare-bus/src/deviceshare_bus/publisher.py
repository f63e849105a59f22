"""Writing to a stream: many publishes in flight, each with its own answer, with compare-and-set on request."""

import asyncio
import secrets
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg

from deviceshare_bus.connection import Connection

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
TTL = "Nats-TTL"
BATCH_LIMIT = 1000
"""Messages in one atomic batch, at most: the server's limit."""
_WRONG_LAST_SEQUENCE = (10071, 10164)
_OVERLOADED = (408, 429, 503)


class PublishError(Exception):
    """A message was not, or may not have been, written."""


class Conflict(PublishError):
    """The subject is not at the expected sequence; nothing was written."""


class Unknown(PublishError):
    """The message may or may not have been written: read back before deciding anything."""


class Refused(PublishError):
    """The server will never take the message; nothing was written."""


class Write(NamedTuple):
    """One message to be written.

    ``expected``: sequence of the subject's last message, 0 if there must be none, None to write unconditionally.
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
    """Publishes over one connection. One instance serves a whole service.

    Nothing is sent twice: every write ends once, with one of

    * the sequence of the message in its stream;
    * :class:`Conflict`, final: the subject is not at the expected sequence, nothing was written;
    * :class:`Refused`, final: the server will never take the message, nothing was written;
    * :class:`Unknown`: the connection is down or was lost, the server is overloaded, no stream takes the subject, or no
      answer came within ``timeout`` seconds. The message may be in the stream. Read back, then write again.

    The caller bounds the number of writes in flight. Each ends within ``timeout`` and half a second.
    """

    def __init__(self, connection: Connection, timeout: float = 5.0) -> None:
        self._requests = connection.requests
        self._timeout = timeout

    async def send(self, write: Write, *, ttl: float | None = None) -> asyncio.Future[int]:
        """Send a message and return the future of its sequence; await it, or fail on it, later.

        ``ttl``: seconds after which the server deletes the message, rounded down to whole seconds, 1 at least.
        """
        headers: dict[str, str] | None = None
        if write.expected is not None:
            headers = {EXPECTED: str(write.expected)}
        if ttl is not None:
            headers = {**(headers or {}), TTL: str(max(1, int(ttl)))}
        reply, future = self._requests.expect(_sequence, Unknown, self._timeout)
        if not future.done():
            await self._requests.publish(write.subject, write.data, reply, headers)
        return future

    async def send_atomic(self, writes: Sequence[Write]) -> asyncio.Future[int]:
        """Send messages of one stream as one batch: all are written or none; the future is the sequence of the last.

        The messages of a batch have consecutive sequences, in this order.

        Raises:
            ValueError: there are none, or more than :data:`BATCH_LIMIT`.
        """
        if not 0 < len(writes) <= BATCH_LIMIT:
            raise ValueError(f"an atomic batch has 1 to {BATCH_LIMIT} messages, not {len(writes)}")
        batch = secrets.token_hex(16)
        reply, future = self._requests.expect(_sequence, Unknown, self._timeout)
        if future.done():
            return future
        for number, write in enumerate(writes, 1):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            if write.expected is not None:
                headers[EXPECTED] = str(write.expected)
            if number == len(writes):
                headers["Nats-Batch-Commit"] = "1"
            # Only the answer to the commit contains the result of the batch.
            await self._requests.publish(write.subject, write.data, reply if number == len(writes) else "", headers)
        return future

    async def write(self, write: Write, *, ttl: float | None = None) -> int:
        """Send a message and wait for its sequence. Raises PublishError."""
        return await (await self.send(write, ttl=ttl))


_decode = msgspec.json.Decoder(_Ack).decode


def _sequence(message: Msg) -> int:
    """Return the sequence that the server acknowledged. Raises PublishError."""
    if not message.data:  # no subscriber: the stream does not exist (yet)
        raise Unknown("no stream takes this subject")
    ack = _decode(message.data)
    if ack.error is None:
        return ack.seq
    if ack.error.err_code in _WRONG_LAST_SEQUENCE:
        raise Conflict(ack.error.description)
    if ack.error.code in _OVERLOADED:
        raise Unknown(ack.error.description)
    raise Refused(ack.error.description)
