"""Writing to a stream: many publishes in flight, each with its own answer, with compare-and-set on request."""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg

from deviceshare_bus.connection import Connection

log = logging.getLogger("deviceshare.publisher")

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
TTL = "Nats-TTL"
BATCH_LIMIT = 1000
"""Messages in one atomic batch, at most: the server's limit."""
_WRONG_LAST_SEQUENCE = (10071, 10164)
_OVERLOADED = (408, 429, 503)
_NO_ROOM = (10023, 10028, 10047, 10077)
"""Errors of a server that has no room for a message: resources, store of the server or the account, and a failed write
of the store."""
UNVERIFIED_PAUSE = 0.1
"""Seconds after which a write fails that cannot be sent yet: the writer tries it again at this pace."""
FAILURE_SECONDS = 10.0
"""Seconds for which a failed write counts as the last one: a writer that still has to write has tried it again."""


class PublishError(Exception):
    """A message was not, or may not have been, written."""


class Conflict(PublishError):
    """The subject is not at the expected sequence; nothing was written."""


class Unknown(PublishError):
    """The message may or may not have been written: read back before deciding anything."""


class Refused(PublishError):
    """The server will never take the message; nothing was written."""


class NoRoom(Unknown):
    """The server has no room for the message now: its disk or its store is full."""


_RESULTS: dict[type[BaseException | None], str] = {
    type(None): "written",
    Conflict: "conflict",
    Refused: "refused",
    NoRoom: "no_room",
}


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


class _Failure(NamedTuple):
    at: float
    reason: str
    error: Unknown


class Publisher:
    """Publishes over one connection. One instance serves a whole service.

    Nothing is sent twice: every write ends once, with one of

    * the sequence of the message in its stream;
    * :class:`Conflict`, final: the subject is not at the expected sequence, nothing was written;
    * :class:`Refused`, final: the server will never take the message, nothing was written. A message that is larger
      than the server's ``max_payload`` is refused without being sent: the server would close the connection;
    * :class:`Unknown`: the connection is down or was lost, the server is overloaded or has no room
      (:class:`NoRoom`), no stream takes the subject, or no answer came within ``timeout`` seconds. The message may be
      in the stream. Read back, then write again. A write with an expected sequence is not sent while the stream may be
      another one than its follower has read (:meth:`.Connection.may_write`).

    The caller bounds the number of writes in flight. Each ends within ``timeout`` and half a second.
    """

    def __init__(self, connection: Connection, timeout: float = 5.0) -> None:
        self._connection = connection
        self._requests = connection.requests
        self._timeout = timeout
        self._failures: dict[str, _Failure] = {}
        """The last failed write of each stream without an acknowledged write since."""
        self.results: Counter[tuple[str, str]] = Counter()
        """The number of writes by stream and result: written, conflict, refused, no_room, unknown or cancelled."""
        self.no_room = 0
        """How many writes failed because the server had no room."""

    async def send(self, write: Write, *, ttl: float | None = None) -> asyncio.Future[int]:
        """Send a message and return the future of its sequence; await it, or fail on it, later.

        ``ttl``: seconds after which the server deletes the message, rounded down to whole seconds, 1 at least.
        """
        headers: dict[str, str] = {}
        if write.expected is not None:
            headers[EXPECTED] = str(write.expected)
        if ttl is not None:
            headers[TTL] = str(max(1, int(ttl)))
        if (refused := self._refuses([(write, headers)])) is not None:
            return refused
        reply, future = self._expect(write.subject)
        if not future.done():
            await self._requests.publish(write.subject, write.data, reply, headers or None)
        return future

    @property
    def obstacle(self) -> str:
        """Why the last writes were not acknowledged, '' if they were."""
        oldest = asyncio.get_running_loop().time() - FAILURE_SECONDS
        return next((reason for at, reason, _ in self._failures.values() if at > oldest), "")

    def _expect(self, subject: str) -> tuple[str, asyncio.Future[int]]:
        reply, future = self._requests.expect(_sequence, Unknown, self._timeout)
        future.add_done_callback(partial(self._done, _stream(subject)))
        return reply, future

    def _refuses(self, messages: Sequence[tuple[Write, Mapping[str, str]]]) -> asyncio.Future[int] | None:
        """Return the failed future of messages that must not be sent, None if they may be."""
        loop = asyncio.get_running_loop()
        limit = self._connection.max_payload
        for write, headers in messages:
            if len(write.data) < limit // 2:  # the usual case; headers are short
                continue
            size = len(write.data) + _size(headers)
            if size > limit:
                refused: asyncio.Future[int] = loop.create_future()
                refused.add_done_callback(asyncio.Future.exception)  # marks it as retrieved
                text = f"{write.subject}: {size} bytes are more than max_payload of nats-server, {limit}"
                refused.set_exception(Refused(text))
                return refused
        write, _ = messages[0]
        if write.expected is None or self._connection.may_write(write.subject):
            return None
        late: asyncio.Future[int] = loop.create_future()
        late.add_done_callback(lambda done: done.cancelled() or done.exception())
        error = Unknown(f"stream {_stream(write.subject)} has not been verified since the connection was lost")
        loop.call_later(UNVERIFIED_PAUSE, _fail, late, error)
        return late

    def _done(self, stream: str, future: asyncio.Future[int]) -> None:
        """Note whether a write was acknowledged, and report the first failures for want of room."""
        error = None if future.cancelled() else future.exception()
        self.results[stream, "cancelled" if future.cancelled() else _RESULTS.get(type(error), "unknown")] += 1
        before = self._failures.get(stream)
        if not isinstance(error, Unknown):
            if before is not None:
                del self._failures[stream]
                if not future.cancelled() and isinstance(before.error, NoRoom):
                    log.info("nats-server has room for messages of %s again", stream)
            return
        self._failures[stream] = _Failure(
            asyncio.get_running_loop().time(), f"a write to {stream} was not acknowledged: {error}", error
        )
        if isinstance(error, NoRoom):
            self.no_room += 1
            if before is None or not isinstance(before.error, NoRoom):
                log.error("nats-server has no room for messages of %s: %s", stream, error)

    async def send_atomic(self, writes: Sequence[Write]) -> asyncio.Future[int]:
        """Send messages of one stream as one batch: all are written or none; the future is the sequence of the last.

        The messages of a batch have consecutive sequences, in this order.

        Raises:
            ValueError: there are none, or more than :data:`BATCH_LIMIT`.
        """
        if not 0 < len(writes) <= BATCH_LIMIT:
            raise ValueError(f"an atomic batch has 1 to {BATCH_LIMIT} messages, not {len(writes)}")
        batch = secrets.token_hex(16)
        messages = [
            (write, _batch_headers(batch, number, write, len(writes))) for number, write in enumerate(writes, 1)
        ]
        if (refused := self._refuses(messages)) is not None:
            return refused
        reply, future = self._expect(writes[0].subject)
        if future.done():
            return future
        for number, (write, headers) in enumerate(messages, 1):
            # Only the answer to the commit contains the result of the batch.
            await self._requests.publish(write.subject, write.data, reply if number == len(writes) else "", headers)
        return future

    async def write(self, write: Write, *, ttl: float | None = None) -> int:
        """Send a message and wait for its sequence. Raises PublishError."""
        return await (await self.send(write, ttl=ttl))


def _fail(future: asyncio.Future[int], error: PublishError) -> None:
    if not future.done():
        future.set_exception(error)


def _stream(subject: str) -> str:
    return subject.partition(".")[0].upper()


def _size(headers: Mapping[str, str]) -> int:
    """Return the bytes of headers in a message."""
    if not headers:
        return 0
    return len("NATS/1.0\r\n\r\n") + sum(len(key) + len(value) + len(": \r\n") for key, value in headers.items())


def _batch_headers(batch: str, number: int, write: Write, last: int) -> dict[str, str]:
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
    if write.expected is not None:
        headers[EXPECTED] = str(write.expected)
    if number == last:
        headers["Nats-Batch-Commit"] = "1"
    return headers


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
    if ack.error.err_code in _NO_ROOM:
        raise NoRoom(ack.error.description)
    if ack.error.code in _OVERLOADED:
        raise Unknown(ack.error.description)
    raise Refused(ack.error.description)
