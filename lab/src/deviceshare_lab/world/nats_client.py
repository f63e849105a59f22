"""The connection of a simulated service: :class:`deviceshare_bus.wire.connection.Connection` without a socket.

The requests, the publisher, the follower and everything above them are those of the product.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import nats.errors
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.framing import Listener, Received
from deviceshare_bus.wire.requests import Requests, Unanswered
from nats.js.api import ConsumerConfig, ConsumerInfo, RawStreamMsg, SequenceInfo, StreamConfig, StreamInfo, StreamState
from nats.js.errors import NotFoundError

from deviceshare_lab.world.jetstream import Stored, Stream
from deviceshare_lab.world.link import Link, resolve

if TYPE_CHECKING:
    from deviceshare_lab.world.nats_server import Server

LATENCY = (0.0002, 0.003)
"""Seconds from a client to the server, and back."""
TIMEOUT = 5.0
"""Seconds after which a request of JetStream's API is given up, as nats-py does."""


RECONNECT = 0.2
"""Seconds until a lost connection is tried again."""


class Listening:
    """A subscription of a client."""

    def __init__(self, client: "Client", subject: str) -> None:
        self._client, self._subject = client, subject

    def end(self) -> None:
        """End it."""
        self._client.listeners.pop(self._subject, None)


class Client:
    """The part of nats-py's client that the product uses.

    ``killed``: its process is dead. What it has sent still arrives.
    """

    def __init__(self, server: "Server", name: str, chance: random.Random) -> None:
        self.name = name
        self.is_connected = False
        self.last_error: Exception | None = None
        self.listeners: dict[str, Listener] = {}
        self.requests: Requests
        self.server = server
        self.killed = False
        self.lags: dict[str, float] = {}
        """Seconds by which the replicas lag from which it reads a stream, by stream."""
        self.sent: dict[str, int] = {}
        """The sequence of the last message that the server has sent to it of each stream."""
        self.up_link, self._down_link = Link(chance, *LATENCY), Link(chance, *LATENCY)
        self._chance = chance
        self._inboxes = 0
        self._loop = asyncio.get_running_loop()
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._lost: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.server_id = ""

    @property
    def max_payload(self) -> int:
        """The largest message that the server takes, in bytes."""
        return self.server.max_payload

    def connect(self, lost: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Connect; ``lost`` is called when the connection is lost."""
        self._lost = lost
        self.is_connected = True
        self.server_id = self.server.id
        self.server.connect(self)

    def lose(self) -> None:
        """Lose the connection. What is under way to the server arrives or not."""
        if not self.is_connected:
            return
        self.is_connected = False
        if self._chance.random() < 0.5:
            self.up_link.cut()
        self._down_link.cut()
        self.server.disconnect(self)
        calls, self._calls = self._calls, {}
        for call in calls:
            if not call.done():
                call.set_exception(Unanswered("the connection was lost"))
        if self._lost is not None and not self.killed:
            run_now(self._lost())

    def kill(self) -> None:
        """The process is dead: nothing is sent or received any more."""
        self.killed = True
        self.is_connected = False
        self._down_link.cut()
        self.server.disconnect(self)
        self._calls.clear()

    def listens(self, subject: str) -> bool:
        """Return whether there is a subscription."""
        return self.is_connected and subject in self.listeners

    def new_inbox(self) -> str:
        """Return a new subject for answers."""
        self._inboxes += 1
        return f"_INBOX.{self.name}.{self._inboxes}"

    def send(self, subject: str, data: bytes = b"", reply: str = "", head: bytes = b"") -> None:
        """Send a message. Raises MaxPayloadError or ConnectionReconnectingError."""
        if not self.is_connected:
            raise nats.errors.ConnectionReconnectingError
        if len(head) + len(data) > self.server.max_payload:
            raise nats.errors.MaxPayloadError
        headers = Received(subject, reply, data, head).headers
        self.up_link.send(self.server.publish, self, subject, data, reply, headers)

    def listen(self, subject: str, listener: Listener) -> Listening:
        """Subscribe."""
        self.listeners[subject] = listener
        return Listening(self, subject)

    def drop_pending(self) -> None:
        """Forget what was not sent: nothing waits here."""

    def send_down(self, inbox: str, message: Received) -> None:
        """Let the server send a message to a subscription, or with '' an answer to a request."""
        if self.is_connected:
            self._down_link.send(self._receive, inbox, message)

    def _receive(self, inbox: str, message: Received) -> None:
        listener = self.listeners.get(inbox) if inbox else self.requests.answered
        if listener is not None and self.is_connected:
            listener(message)

    async def call(self, execute: Callable[[], Any]) -> Any:
        """Have the server execute a request of JetStream's API, and return its result or raise its error."""
        if not self.is_connected:
            raise Unanswered("not connected")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._calls[answer] = None
        self.up_link.send(self._execute, execute, answer)
        try:
            async with asyncio.timeout(TIMEOUT):
                return await answer
        except Unanswered:
            raise
        except TimeoutError:
            raise Unanswered(f"no answer within {TIMEOUT} s") from None
        finally:
            self._calls.pop(answer, None)

    def _execute(self, execute: Callable[[], Any], answer: "asyncio.Future[Any]") -> None:
        if not self.server.up or not self.is_connected or self.server.happens(self.server.faults.lost_requests):
            return
        try:
            result, error = execute(), None
        except Exception as raised:
            result, error = None, raised
        if not self.server.happens(self.server.faults.lost_acks):
            self._down_link.send(resolve, answer, result, error)


def run_now(work: Any) -> None:
    """Run a coroutine that does not wait for anything."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise RuntimeError(f"{work} waits")


class JetStream:
    """The part of nats-py's JetStream context that the product uses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._server = client.server

    async def stream_info(self, name: str, subjects_filter: str | None = None) -> StreamInfo:
        """Return the state of a stream, with its subjects if there is a filter. Raises NotFoundError."""
        info: StreamInfo = await self._client.call(lambda: _info(self._server.stream(name)))
        return info

    async def add_stream(self, config: StreamConfig) -> StreamInfo:
        """Create a stream. Raises BadRequestError."""
        info: StreamInfo = await self._client.call(lambda: _info(self._server.add_stream(config)))
        return info

    async def add_consumer(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Create a consumer. Raises NotFoundError."""

        def add() -> ConsumerInfo:
            consumer = self._server.add_consumer(self._client, stream, config)
            return ConsumerInfo(
                name="c",
                stream_name=str(stream),
                config=config,
                created=datetime.fromtimestamp(self._server.now(), UTC),
                delivered=SequenceInfo(0, 0),
                num_pending=consumer.pending,
            )

        info: ConsumerInfo = await self._client.call(add)
        return info

    async def get_last_msg(self, stream: str, subject: str, direct: bool | None = None) -> RawStreamMsg:
        """Return the last message of a subject. Raises NotFoundError."""
        message: RawStreamMsg = await self._client.call(lambda: _raw(self._server.stream(stream).last(subject)))
        return message

    async def get_msg(
        self,
        stream_name: str,
        seq: int | None = None,
        subject: str | None = None,
        direct: bool | None = None,
        next: bool | None = False,  # noqa: A002 - nats-py's name
    ) -> RawStreamMsg:
        """Return the message with a sequence, or the last of a subject. Raises NotFoundError."""

        def get() -> RawStreamMsg:
            stream = self._server.stream(stream_name)
            return _raw(stream.get(seq) if seq else stream.last(str(subject)))

        message: RawStreamMsg = await self._client.call(get)
        return message


def _info(stream: Stream) -> StreamInfo:
    state = StreamState(
        messages=len(stream),
        bytes=0,
        first_seq=stream.first_sequence,
        last_seq=stream.last_sequence,
        consumer_count=0,
        subjects=dict.fromkeys((stored.subject for stored in stream.last_per_subject()), 1),
    )
    return StreamInfo(config=stream.config, state=state)


def _raw(found: Stored | None) -> RawStreamMsg:
    if found is None:
        raise NotFoundError(code=404, err_code=10037, description="no message found")
    at = datetime.fromtimestamp(found.at, UTC)
    return RawStreamMsg(found.subject, found.sequence, found.data, None, dict(found.headers or {}), None, at)


class SimulatedConnection(Connection):
    """A connection to the simulated server. It connects at once, and again ``reconnect_after`` a loss."""

    def __init__(self, server: "Server", name: str, chance: random.Random) -> None:
        super().__init__("nats://simulated")
        self._simulated = client = Client(server, name, chance)
        self.client = client  # type: ignore[assignment]
        self.requests = client.requests = Requests(client)
        self.jetstream = JetStream(client)  # type: ignore[assignment]
        self._opening = False
        self.reconnect_after = RECONNECT
        if server.up:
            client.connect(self._was_lost)
            self._up.set()
        else:
            self._try_again()

    async def _was_lost(self) -> None:
        await super()._was_lost()
        asyncio.get_running_loop().call_later(self.reconnect_after, self._try_again)

    def _try_again(self) -> None:
        client = self._simulated
        if client.killed or client.is_connected:
            return
        if not client.server.up:
            asyncio.get_running_loop().call_later(0.1, self._try_again)
            return
        client.connect(self._was_lost)
        run_now(self._came_back())

    def cut(self, seconds: float) -> None:
        """Lose the connection for some seconds."""
        self.reconnect_after = seconds
        self._simulated.lose()
        self.reconnect_after = RECONNECT

    def lag(self, stream: str, seconds: float) -> None:
        """Read a stream from a replica that lags by some seconds, 0 for the leader."""
        self._simulated.lags[stream] = seconds

    def kill(self) -> None:
        """End the process that has this connection."""
        self._simulated.kill()

    async def close(self) -> None:
        """Close the connection."""
        self.kill()
