"""The simulated nats-server: publishes with compare-and-set and atomic batches, consumers, and its faults."""

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from deviceshare_bus.streams.publisher import EXPECTED, EXPECTED_OF
from deviceshare_bus.wire.connection import MAX_PAYLOAD
from deviceshare_bus.wire.framing import Received, encode_headers
from nats.js.api import ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import BadRequestError, NotFoundError, ServiceUnavailableError

from deviceshare_lab.world.jetstream import TTL, Stored, Stream
from deviceshare_lab.world.jetstream_api import answer_of
from deviceshare_lab.world.link import Link
from deviceshare_lab.world.nats_client import Client
from deviceshare_lab.world.virtual_time import WALL

_CONFLICT, _FULL, _NAME_IN_USE = 10071, 10077, 10058
Written = Callable[[Stream, Sequence[Stored], str], None]
"""Hears of messages that were written together: the stream, the messages, and who wrote them."""
STRANGER = "a stranger"
"""The writer of messages that are not of the product."""


class _Staged(NamedTuple):
    subject: str
    data: bytes
    headers: Mapping[str, str]


class Faults:
    """What the server does wrong at present; shares are from 0 to 1."""

    def __init__(self) -> None:
        self.lost_acks = 0.0
        self.late_acks = 0.0
        self.lost_requests = 0.0
        self.lost_deliveries = 0.0
        self.repeated_deliveries = 0.0
        self.disk_full = False


class Consumer:
    """A push consumer of one client. It ends with its client's connection, its stream, or its subscription."""

    def __init__(self, server: "Server", client: Client, stream: Stream, config: ConsumerConfig) -> None:
        self._server, self._client, self._stream, self._inbox = server, client, stream, str(config.deliver_subject)
        self._delivered = 0
        self._late = Link(server.chance, 0.0, 0.0)
        """What a lagging replica of the stream has not passed on yet."""
        self._headers_only = bool(config.headers_only)
        self._idle = float(config.idle_heartbeat or 0.0)
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self.silent = False
        """A fault: nothing is sent any more, not even heartbeats."""
        if config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT:
            first = stream.last_per_subject()
        else:
            first = [stored for stored in stream if stored.sequence >= (config.opt_start_seq or 0)]
        self.pending = len(first)
        for number, stored in enumerate(first, 1):
            self.deliver(stored, len(first) - number)
        if self._idle:
            self._timer = self._loop.call_later(self._idle, self._beat)

    @property
    def lives(self) -> bool:
        """Whether the client still listens on this connection."""
        return self in self._server.consumers and self._client.listens(self._inbox)

    def written(self, stored: Stored) -> None:
        """Send a new message to the client, or later if the replica of the stream lags that the client reads from."""
        lag = self._client.lags.get(self._stream.name, 0.0)
        if lag or self._late.busy:
            self._late.delay = lag
            self._late.send(self.deliver, stored)
        else:
            self.deliver(stored)

    def deliver(self, stored: Stored, pending: int = 0) -> None:
        """Send a message to the client."""
        if self.silent:
            return
        self._delivered += 1
        self._heard = self._loop.time()
        if self._server.happens(self._server.faults.lost_deliveries):
            return
        numbers = f"1.{stored.sequence}.{self._delivered}.{stored.nanoseconds}.{pending}"
        reply = f"$JS.ACK.{self._stream.name}.c.{numbers}"
        times = 2 if self._server.happens(self._server.faults.repeated_deliveries) else 1
        self._client.sent[self._stream.name] = stored.sequence
        data = b"" if self._headers_only else stored.data
        head = encode_headers({TTL: str(stored.ttl)}) if stored.ttl is not None else b""
        for _ in range(times):
            self._client.send_down(self._inbox, Received(stored.subject, reply, data, head))

    def _beat(self) -> None:
        if not self.lives:
            self._server.consumers.pop(self, None)
            return
        now = self._loop.time()
        if now - self._heard >= self._idle and not self.silent:
            self._heard = now
            head = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\n\r\n" % self._delivered
            self._client.send_down(self._inbox, Received(self._inbox, "", b"", head))
        self._timer = self._loop.call_at(max(now, self._heard) + self._idle, self._beat)

    def end(self) -> None:
        """Send nothing any more."""
        self.silent = True
        self._late.cut()
        if self._idle:
            self._timer.cancel()


class Server:
    """One server with its streams and clients.

    ``on_written`` hears of every write.
    """

    def __init__(self, chance: random.Random, on_written: Written) -> None:
        self.chance = chance
        self._on_written = on_written
        self.streams: dict[str, Stream] = {}
        self.clients: dict[Client, None] = {}
        self.consumers: dict[Consumer, str] = {}
        """The name of the stream of each."""
        self.faults = Faults()
        self.max_payload = MAX_PAYLOAD
        self.up = True
        self._starts = 1
        self._batches: dict[tuple[Client, str], list[_Staged]] = {}
        self._loop = asyncio.get_running_loop()

    @property
    def id(self) -> str:
        """The server's id, a new one after each start."""
        return f"server-{self._starts}"

    def happens(self, share: float) -> bool:
        """Draw whether a fault happens."""
        return share > 0.0 and self.chance.random() < share

    def now(self) -> float:
        """Return the server's unix time."""
        return WALL + self._loop.time()

    def connect(self, client: Client) -> None:
        """Add a client."""
        self.clients[client] = None

    def disconnect(self, client: Client) -> None:
        """Forget what belongs to a connection."""
        self.clients.pop(client, None)
        for consumer in [consumer for consumer in self.consumers if consumer._client is client]:
            self._end(consumer)
        for key in [key for key in self._batches if key[0] is client]:
            del self._batches[key]

    def _end(self, consumer: Consumer) -> None:
        del self.consumers[consumer]
        consumer.end()

    # Messages of clients

    def publish(self, client: Client, subject: str, data: bytes, reply: str, headers: Mapping[str, str]) -> None:
        """Store a message that has arrived, and answer it."""
        if self.happens(self.faults.lost_requests):
            return
        if (answer := answer_of(self.streams, subject, data, self.now())) is not None:
            self._answer(client, reply, answer)
            return
        stream = self._stream_of(subject)
        if stream is None:
            if reply:
                self._answer(client, reply, b"", b"NATS/1.0 503\r\n\r\n")
            return
        staged = _Staged(subject, data, headers)
        if batch := headers.get("Nats-Batch-Id"):
            waiting = self._batches.setdefault((client, batch), [])
            waiting.append(staged)
            if "Nats-Batch-Commit" not in headers:
                return
            del self._batches[client, batch]
            if int(headers["Nats-Batch-Sequence"]) != len(waiting):
                self._answer(client, reply, _error(400, 10176, "atomic publish batch is incomplete"))
                return
            self._commit(client, stream, waiting, reply)
        else:
            self._commit(client, stream, [staged], reply)

    def _commit(self, client: Client, stream: Stream, messages: Sequence[_Staged], reply: str) -> None:
        """Write all messages or none, and answer."""
        if self.faults.disk_full:
            self._answer(client, reply, _error(503, _FULL, "insufficient storage resources available"))
            return
        for each in messages:
            expected = each.headers.get(EXPECTED)
            last = stream.last_sequence_of(each.headers.get(EXPECTED_OF, each.subject))
            if expected is not None and int(expected) != last:
                self._answer(client, reply, _error(400, _CONFLICT, f"wrong last sequence: {last}"))
                return
        written = self.write(stream, messages, client.name)
        if reply:
            self._answer(client, reply, b'{"stream":"%s","seq":%d}' % (stream.name.encode(), written[-1].sequence))

    def write(self, stream: Stream, messages: Sequence[_Staged], writer: str) -> list[Stored]:
        """Append messages and deliver them to consumers."""
        written = []
        for each in messages:
            stored = stream.write(each.subject, each.data, self.now(), each.headers or None)
            written.append(stored)
            self._expire_later(stream, stored)
        self._on_written(stream, written, writer)
        for consumer in [consumer for consumer, name in self.consumers.items() if name == stream.name]:
            for stored in written:
                consumer.written(stored)
        return written

    def _expire_later(self, stream: Stream, stored: Stored) -> None:
        if stored.ttl is not None:
            self._loop.call_later(max(0.0, stored.at + stored.ttl - self.now()), stream.remove, stored)

    def write_foreign(self, subject: str, data: bytes) -> bool:
        """Write a message as a stranger does; return whether there is a stream for it."""
        stream = self._stream_of(subject)
        if stream is None:
            return False
        self.write(stream, [_Staged(subject, data, {})], STRANGER)
        return True

    def _stream_of(self, subject: str) -> Stream | None:
        return self.streams.get(subject.partition(".")[0].upper())

    def _answer(self, client: Client, reply: str, data: bytes, head: bytes = b"") -> None:
        if not reply or self.happens(self.faults.lost_acks):
            return
        message = Received(reply, "", data, head)
        if self.happens(self.faults.late_acks):
            self._loop.call_later(self.chance.uniform(1.0, 8.0), client.send_down, "", message)
        else:
            client.send_down("", message)

    # JetStream's API

    def stream(self, name: str) -> Stream:
        """Return a stream. Raises NotFoundError."""
        found = self.streams.get(str(name))
        if found is None:
            raise NotFoundError(code=404, err_code=10059, description="stream not found")
        return found

    def add_stream(self, config: StreamConfig) -> Stream:
        """Create a stream. Raises BadRequestError."""
        name = str(config.name)
        if name in self.streams:
            raise BadRequestError(code=400, err_code=_NAME_IN_USE, description="stream name already in use")
        if self.faults.disk_full:
            raise ServiceUnavailableError(code=503, err_code=_FULL, description="insufficient storage resources")
        self.streams[name] = stream = Stream(config, self.now())
        return stream

    def add_consumer(self, client: Client, name: str, config: ConsumerConfig) -> Consumer:
        """Create a consumer of a stream. Raises NotFoundError."""
        stream = self.stream(name)
        consumer = Consumer(self, client, stream, config)
        self.consumers[consumer] = stream.name
        return consumer

    # Faults

    def restore_payload(self) -> None:
        """Take messages of the usual size again."""
        self.max_payload = MAX_PAYLOAD

    def delete(self, name: str) -> None:
        """Delete a stream and its consumers."""
        self.streams.pop(name, None)
        for consumer in [consumer for consumer, of in self.consumers.items() if of == name]:
            self._end(consumer)

    def roll_back(self, stream: Stream, writes: int) -> int:
        """Lose the latest writes of a stream; return how many. Only while the server is down."""
        undone = stream.roll_back(writes)
        for stored in stream:
            self._expire_later(stream, stored)
        return undone

    def silence(self, share: float) -> int:
        """Let consumers fall silent without ending them; return how many."""
        chosen = [consumer for consumer in self.consumers if self.happens(share)]
        for consumer in chosen:
            consumer.silent = True
        return len(chosen)

    def stop(self) -> None:
        """Crash: all connections and consumers are lost."""
        self.up = False
        for client in list(self.clients):
            client.lose()

    def start(self) -> None:
        """Come back; clients connect again."""
        self._starts += not self.up
        self.up = True


def _error(code: int, err_code: int, description: str) -> bytes:
    return json.dumps({"error": {"code": code, "err_code": err_code, "description": description}}).encode()
