"""Writing to a stream: many publishes in flight, each with its own answer, with compare-and-set on request."""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from nats.errors import Error as NatsError

from deviceshare_bus.streams.write_queue import BATCH_LIMIT, Rejection, Result, Unit, WriteQueue
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.framing import Received, encode_headers

log = logging.getLogger("deviceshare.publisher")

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_OF = "Nats-Expected-Last-Subject-Sequence-Subject"
TTL = "Nats-TTL"
_WRONG_LAST_SEQUENCE = (10071, 10164)
_OVERLOADED = (408, 429, 503)
_INCOMPLETE_BATCH = 10176
"""Some messages of a batch were lost, or the server lost them: nothing was written."""
_NO_BATCHES = 10174
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


class Unverified(Unknown):
    """The message was not sent: the stream may be another one than its follower has read."""


class Refused(PublishError):
    """The server will never take the message; nothing was written."""


class NoRoom(Unknown):
    """The server has no room for the message now: its disk or its store is full."""


class NoBatches(Refused):
    """The stream takes no atomic batches; nothing was written."""


_RESULTS: dict[type[BaseException | None], str] = {
    type(None): "written",
    Conflict: "conflict",
    Refused: "refused",
    NoRoom: "no_room",
}


class Write(NamedTuple):
    """One message to be written.

    ``expected``: sequence of the subject's last message, 0 if there must be none, None to write unconditionally.
    ``unless``: another subject, which must have no message.
    """

    subject: str
    data: bytes
    expected: int | None = None
    unless: str = ""


class _Message(NamedTuple):
    """A message with its time to live in seconds, None without a limit."""

    write: Write
    ttl: float | None


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

    Writes of one stream that come while others are being stored are sent together (:mod:`.write_queue`). The caller
    bounds the number of writes in flight. Each ends within ``timeout`` and half a second of being sent.
    """

    def __init__(self, connection: Connection, timeout: float = 5.0) -> None:
        self._connection = connection
        self._requests = connection.requests
        self._timeout = timeout
        self._queues: dict[str, WriteQueue[_Message]] = {}
        """By stream."""
        self._in_flight: dict[str, set[str]] = {}
        """By stream, the reply subjects of what was sent."""
        connection.on_doubt(self._doubt)
        self._failures: dict[str, _Failure] = {}
        """The last failed write of each stream without an acknowledged write since."""
        self.results: Counter[tuple[str, str]] = Counter()
        """The number of writes by stream and result: written, conflict, refused, no_room, unknown or cancelled."""
        self.no_room = 0
        """How many writes failed because the server had no room."""
        self.unacknowledged = 0
        """How many writes were sent and not acknowledged, for whatever reason."""

    async def send(self, write: Write, *, ttl: float | None = None) -> asyncio.Future[int]:
        """Send a message and return the future of its sequence; await it, or fail on it, later.

        ``ttl``: seconds after which the server deletes the message, rounded down to whole seconds, 1 at least.
        """
        return await self._enqueue([_Message(write, ttl)])

    async def send_atomic(self, writes: Sequence[Write], guard: Write | None = None) -> asyncio.Future[int]:
        """Send messages of one stream as one batch: all are written or none; the future is the sequence of the last.

        The messages of a batch have consecutive sequences, in this order. A ``guard`` is stored as well, before them,
        once for all messages that are sent together.

        Raises:
            ValueError: there are none, or more than :data:`BATCH_LIMIT`, the guard included.
        """
        if not 0 < len(writes) <= BATCH_LIMIT - (guard is not None):
            raise ValueError(f"an atomic batch has 1 to {BATCH_LIMIT} messages, not {len(writes)}")
        messages = [_Message(write, None) for write in writes]
        return await self._enqueue(messages, None if guard is None else _Message(guard, None))

    async def drain(self) -> None:
        """Wait until all writes have been passed to the connection."""
        for queue in self._queues.values():
            await queue.drain()

    async def _enqueue(self, messages: Sequence[_Message], guard: _Message | None = None) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if (refused := self._refusal(messages, guard)) is not None:
            future.set_exception(refused)
            future.exception()  # marks the error as retrieved: the caller may have been cancelled
            return future
        stream = _stream(messages[0].write.subject)
        queue = self._queues.get(stream)
        if queue is None:
            queue = self._queues[stream] = WriteQueue(self._transmit, _rejection, partial(self._ended, stream))
        await queue.put(Unit(messages, sum(len(message.write.data) for message in messages), future, guard))
        return future

    def _refusal(self, messages: Sequence[_Message], guard: _Message | None) -> Refused | None:
        """Return why messages cannot be sent: one is too large, or a subject in its headers would end its line."""
        limit = self._connection.max_payload
        batch = _BATCH_ID if guard is not None or len(messages) > 1 else ""
        for message in (*messages, guard) if guard is not None else messages:
            if message.write.unless:
                try:
                    encode_headers({EXPECTED_OF: message.write.unless})
                except ValueError as error:
                    return Refused(f"{message.write.subject}: {error}")
        for number, message in enumerate(messages, 1):
            write = message.write
            if len(write.data) < limit // 2:  # the usual case; headers are short
                continue
            size = len(write.data) + len(_headers(message, batch, number, len(messages)))
            if size > limit:
                return Refused(f"{write.subject}: {size} bytes are more than max_payload of nats-server, {limit}")
        return None

    def _transmit(self, messages: Sequence[_Message], done: Callable[[Result], None]) -> None:
        """Send messages, several of them as one batch, and have ``done`` hear of the sequence of the last one."""
        stream = _stream(messages[0].write.subject)
        client = self._connection.client
        if not client.is_connected:
            done(Unknown("not connected"))
            return
        conditional = any(message.write.expected is not None or message.write.unless for message in messages)
        if conditional and not self._connection.may_write(messages[0].write.subject):
            error = Unverified(f"stream {stream} has not been verified since the connection was lost")
            asyncio.get_running_loop().call_later(UNVERIFIED_PAUSE, done, error)
            return
        reply = self._requests.expect(partial(self._answered, stream, done), self._timeout)
        self._in_flight.setdefault(stream, set()).add(reply)
        batch, last = _batch_id(messages), len(messages)
        try:
            for number, message in enumerate(messages, 1):
                # Only the answer to the commit contains the result of a batch.
                to = reply if number == last else ""
                client.send(message.write.subject, message.write.data, to, _headers(message, batch, number, last))
        except (NatsError, OSError) as error:
            self._requests.fail(reply, repr(error))

    def _answered(self, stream: str, done: Callable[[Result], None], reply: str, answer: Received | str) -> None:
        self._in_flight[stream].discard(reply)
        done(Unknown(answer) if isinstance(answer, str) else _result(answer))

    def _doubt(self, stream: str) -> None:
        """End the writes in flight: a server that no longer leads the stream, or lost it, does not answer them."""
        for reply in list(self._in_flight.get(stream, ())):
            self._requests.fail(reply, f"stream {stream} has another leader, or was lost")

    @property
    def obstacle(self) -> str:
        """Why the last writes were not acknowledged, '' if they were."""
        oldest = asyncio.get_running_loop().time() - FAILURE_SECONDS
        return next((reason for at, reason, _ in self._failures.values() if at > oldest), "")

    def _ended(self, stream: str, cancelled: bool, error: BaseException | None) -> None:
        """Note whether a write was acknowledged; report the first of several that were not."""
        if isinstance(error, Unverified):
            return
        self.results[stream, "cancelled" if cancelled else _RESULTS.get(type(error), "unknown")] += 1
        before = self._failures.get(stream)
        if cancelled or not isinstance(error, Unknown):
            if before is not None and not cancelled:
                log.info("nats-server stores messages of %s again", stream)
            self._failures.pop(stream, None)
            return
        now = asyncio.get_running_loop().time()
        self._failures[stream] = _Failure(now, f"a write to {stream} was not acknowledged: {error}", error)
        self.unacknowledged += 1
        if isinstance(error, NoRoom):
            self.no_room += 1
            if before is None or not isinstance(before.error, NoRoom):
                log.error("nats-server has no room for messages of %s: %s", stream, error)
        elif before is None and self._connection.connected:  # the connection reports its losses itself
            log.warning("nats-server does not store messages of %s: %s", stream, error)

    async def write(self, write: Write, *, ttl: float | None = None) -> int:
        """Send a message and wait for its sequence. Raises PublishError."""
        return await (await self.send(write, ttl=ttl))


def _stream(subject: str) -> str:
    return subject.partition(".")[0].upper()


_BATCH_ID = "0" * 16
"""As long as the id of a batch."""


def _batch_id(messages: Sequence[_Message]) -> str:
    """Return the id of a batch, '' for a single message."""
    return secrets.token_hex(8) if len(messages) > 1 else ""


def _headers(message: _Message, batch: str, number: int, last: int) -> bytes:
    """Return the headers of a message, of the ``number``-th of ``last`` messages of a batch."""
    write, ttl = message
    fields = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)} if batch else {}
    if write.expected is not None:
        fields[EXPECTED] = str(write.expected)
    elif write.unless:
        fields |= {EXPECTED: "0", EXPECTED_OF: write.unless}
    if ttl is not None:
        fields[TTL] = str(max(1, int(ttl)))
    if batch and number == last:
        fields["Nats-Batch-Commit"] = "1"
    return encode_headers(fields)


_decode = msgspec.json.Decoder(_Ack).decode


def _result(answer: Received) -> Result:
    """Return the sequence that the server acknowledged, or why nothing was written."""
    if not answer.data:  # no subscriber: the stream does not exist (yet)
        return Unknown("no stream takes this subject")
    try:
        ack = _decode(answer.data)
    except msgspec.MsgspecError as error:
        return Unknown(f"the server's answer is not valid: {error}")
    if ack.error is None:
        return ack.seq
    if ack.error.err_code in _WRONG_LAST_SEQUENCE:
        return Conflict(ack.error.description)
    if ack.error.err_code in _NO_ROOM:
        return NoRoom(ack.error.description)
    if ack.error.code in _OVERLOADED or ack.error.err_code == _INCOMPLETE_BATCH:
        return Unknown(ack.error.description)
    if ack.error.err_code == _NO_BATCHES:
        return NoBatches(ack.error.description)
    return Refused(ack.error.description)


def _rejection(error: BaseException) -> Rejection:
    match error:
        case NoBatches():
            return Rejection.BATCHES
        case Conflict() | Refused():
            return Rejection.ONE
    return Rejection.NONE
