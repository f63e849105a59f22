"""Reading a stream of the bus from its beginning, whatever happens to the server."""

import asyncio
import logging
from collections.abc import Callable

from deviceshare_bus.streams.audit import DELIVERED
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.framing import Received
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

log = logging.getLogger("deviceshare.chaos")

WAITING = 1 << 20
"""Messages that may wait; further ones count as missed."""
SILENCE = 2.5
"""Seconds without a message or heartbeat after which the consumer is replaced."""


class StreamReader:
    """Hands the messages of a stream to ``take`` (subject, data) in order, superseded ones too if they still exist.

    ``anew`` is called when it begins from the start of the stream: at first, and after :meth:`restart`.
    """

    def __init__(
        self, connection: Connection, stream: str, take: Callable[[str, bytes], None], anew: Callable[[], None]
    ) -> None:
        self._connection, self._stream, self._take, self._anew = connection, stream, take, anew
        self._position = 0
        self._restart = True
        self.count = 0
        """Messages that were read."""
        self.missed = 0
        """Messages that were superseded before they were read, but for those before it began anew."""
        self._began_at = 0
        self._queue: asyncio.Queue[Received] = asyncio.Queue(WAITING)

    def restart(self) -> None:
        """Begin anew: a fault changed the stream."""
        self._restart = True

    async def behind(self) -> str:
        """Return why the reader has not read the stream to its end, '' if it has."""
        try:
            info = await self._connection.jetstream.stream_info(self._stream)
        except (NatsError, OSError, TimeoutError) as error:
            return f"stream {self._stream} does not answer: {error!r}"
        if self._restart or self._position < info.state.last_seq:
            return f"{self._stream} has been read up to {self._position} of {info.state.last_seq}"
        return ""

    async def run(self) -> None:
        """Read without end."""
        while True:
            try:
                await self._connection.wait_connected()
                await self._read()
            except (NatsError, OSError, TimeoutError) as error:
                log.info("cannot read %s yet: %r", self._stream, error)
                await asyncio.sleep(0.1)

    async def _read(self) -> None:
        jetstream = self._connection.jetstream
        self._queue = asyncio.Queue(WAITING)
        info = await jetstream.stream_info(self._stream)
        if self._restart or info.state.last_seq < self._position:
            self._restart = False
            self._position = 0
            self._began_at = info.state.last_seq
            self._anew()
        if info.state.messages == 0:
            self._position = info.state.last_seq
        inbox = self._connection.client.new_inbox()
        listening = self._connection.listen(inbox, self._queue.put_nowait)
        config = ConsumerConfig(
            deliver_subject=inbox,
            ack_policy=AckPolicy.NONE,
            max_deliver=1,
            idle_heartbeat=1.0,
            inactive_threshold=10.0,
            num_replicas=1,
            mem_storage=True,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._position + 1,
        )
        try:
            await jetstream.add_consumer(self._stream, config)
            while not self._restart:
                async with asyncio.timeout(SILENCE):
                    message = await self._queue.get()
                self._received(message)
        finally:
            listening.end()

    def _received(self, message: Received) -> None:
        if not message.reply.startswith(DELIVERED):
            return
        position = message.delivery()[0]
        self.count += 1
        self.missed += max(0, position - max(self._position, self._began_at) - 1)
        self._position = position
        self._take(message.subject, message.data)
