"""Following a stream: the last message of every subject, then every new message, without a gap.

nats-py's ordered consumer can stay blind for many seconds after a restart of the server. This one is a plain
ephemeral push consumer. It is replaced by a new one, from the sequence after the last message received, when the
connection comes back, a delivery is missing, or the server has been silent for longer than its heartbeat. Nothing is
acknowledged and nothing is durable: the reader holds the position.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from deviceshare_bus.connection import Connection
from deviceshare_bus.setup import EPOCH
from deviceshare_bus.tasks import Pace

log = logging.getLogger("deviceshare.follower")

FOLD = 0.002
"""Seconds in which messages are collected for a batch."""
INBOX_MESSAGES = 1 << 16
INBOX_BYTES = 1 << 26
"""Messages and bytes that may wait for the reader. Beyond either, the follower withholds its flow-control replies, and
the server stops at the end of its window: 32 MiB (nats-server ``JsFlowControlMaxPending``)."""
HEARTBEAT = 1.0
"""Seconds between two heartbeats of a server that has nothing to deliver."""
ANSWER = 2.0
"""Seconds that making a consumer may take before it is tried again."""
RECHECK = 30.0
"""Seconds without a message after which the last sequence of the stream is compared: a delivery may be lost."""
SILENCE = 3.0
"""Seconds without a message or heartbeat after which the consumer is replaced."""


class BusWiped(Exception):
    """The stream is not the one that was being read: drop what was read from it and start again."""


class Message(NamedTuple):
    """One message of a stream."""

    subject: str
    sequence: int
    data: bytes


class Batch(NamedTuple):
    """Messages in order.

    ``caught_up``: everything that stood in the stream when reading began has now been delivered. ``position`` is the
    sequence up to which the stream has been delivered with this batch.
    """

    messages: list[Message]
    caught_up: bool
    position: int = 0


class Follower:
    """Reads one stream until closed: ``async for batch in follower``.

    It begins with the last message of every subject, or with all messages if ``history`` is set. Each message is
    delivered once and in order, also after a loss of the connection.

    * Retried without end, with a back-off: an unreachable server, a stream that does not exist yet, a lost consumer.
    * Final: :class:`BusWiped` if the stream was deleted, created again or lost its end, and
      :attr:`~deviceshare_bus.connection.Connection.failure` of the connection.
    * Bounded: a reader that is slower than the stream holds delivery back by flow control. At most
      :data:`INBOX_MESSAGES` or :data:`INBOX_BYTES` wait for it, and what the server's window of 32 MiB holds.
      :attr:`stalls` counts how often delivery was held back.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        *,
        subject: str = ">",
        history: bool = False,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._subject = subject
        self._first = DeliverPolicy.ALL if history else DeliverPolicy.LAST_PER_SUBJECT
        self._epoch: str | None = None
        self._generation = 0
        self._expected = 1
        self._target = 0
        self._inbox: list[Message] = []
        self._inbox_bytes = 0
        self._withheld = ""
        """The subject of the flow-control reply that waits until the reader has taken the inbox."""
        self._wake = asyncio.Event()
        self._stale = True
        self._heard = 0.0
        self._received_up_to = 0
        self.position = 0
        """Sequence up to which the stream has been delivered, and the reader has asked for the next batch."""
        self.caught_up = False
        self.stalls = 0
        """How often delivery was held back because the reader was slower than the stream."""

    async def __aiter__(self) -> AsyncGenerator[Batch, None]:
        """Deliver batches as they arrive; the first that is caught up may be empty."""
        loop = asyncio.get_running_loop()
        remove_hook = self._connection.on_reconnect(self._lost)
        subscription = None
        reported = False
        checked = loop.time()
        pace = Pace(FOLD)
        try:
            while True:
                while self._stale:  # the connection may get lost again meanwhile
                    if subscription is not None:
                        await _quietly_unsubscribe(subscription)
                    failure = f"cannot read {self._stream} yet"
                    subscription = await self._connection.repeat(self._begin, failure, logging.WARNING)
                    self._heard = loop.time()
                self._wake.clear()
                if not self._inbox:
                    self.position = self._received_up_to
                if not self._inbox and (reported or not self.caught_up):
                    try:
                        # Not wait_for: on Python 3.11 it can swallow a cancellation that arrives with the wake-up.
                        async with asyncio.timeout(HEARTBEAT):
                            await self._wake.wait()
                    except TimeoutError:
                        self._stale |= loop.time() - self._heard > SILENCE and self._connection.connected
                        if loop.time() - checked > RECHECK:
                            checked = loop.time()
                            self._stale |= await self._missed_something()
                if self._inbox:
                    await pace.turn()
                messages = await self._take()
                if messages or (self.caught_up and not reported):
                    reported |= self.caught_up
                    position = self._received_up_to
                    yield Batch(messages, self.caught_up, position)
                    # After the batch: the status reports the position that the service has processed.
                    self.position = position
        finally:
            remove_hook()
            if subscription is not None:
                await _quietly_unsubscribe(subscription)

    async def _take(self) -> list[Message]:
        """Return what has arrived, and let the server go on."""
        messages, self._inbox, self._inbox_bytes = self._inbox, [], 0
        if reply := self._withheld:
            self._withheld = ""
            with suppress(NatsError):  # the connection is lost: the next consumer has a window of its own
                await self._connection.client.publish(reply)
        return messages

    async def read_to_end(self) -> list[Message]:
        """Read to the end once, and return the messages. Raises BusWiped."""
        found: list[Message] = []
        async with aclosing(aiter(self)) as batches:
            async for batch in batches:
                found += batch.messages
                if batch.caught_up:
                    break
        return found

    async def _missed_something(self) -> bool:
        """Ask whether the stream holds more than was delivered, or is another one by now."""
        try:
            async with asyncio.timeout(ANSWER):
                info = await self._connection.jetstream.stream_info(self._stream)
        except NotFoundError:
            return True
        except (NatsError, TimeoutError, OSError):
            return False  # the connection reports its failures itself
        epoch = (info.config.metadata or {}).get(EPOCH, "")
        return bool(epoch != self._epoch or info.state.last_seq != self._received_up_to)

    def _lost(self) -> None:
        self._generation += 1
        self._stale = True
        self._wake.set()

    async def _begin(self) -> Subscription:
        """Make a consumer that starts after the last message delivered. Raises BusWiped."""
        self._stale = False
        try:
            # A request that a dying server took with it is not worth its own, longer timeout.
            async with asyncio.timeout(ANSWER):
                return await self._make_consumer()
        except NotFoundError:
            if self._epoch is not None:
                raise BusWiped(f"stream {self._stream} is gone") from None
            raise

    async def _make_consumer(self) -> Subscription:
        jetstream = self._connection.jetstream
        info = await jetstream.stream_info(self._stream)
        epoch = (info.config.metadata or {}).get(EPOCH, "")
        if self._epoch is None:
            self._epoch = epoch
        elif self._epoch != epoch or info.state.last_seq < self._received_up_to:
            raise BusWiped(f"stream {self._stream} was created again")
        if not self.caught_up:
            self._target = info.state.last_seq
        self._expected = 1
        self._withheld = ""
        self._generation += 1
        generation = self._generation

        async def received(message: Msg) -> None:
            # An older subscription may still have messages in its queue.
            if generation == self._generation:
                await self._received(message)

        inbox = self._connection.client.new_inbox()
        subscription = await self._connection.subscribe(inbox, received)
        start: dict[str, Any] = {"deliver_policy": self._first}
        if after := self._received_up_to:
            start = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": after + 1}
        try:
            consumer = await jetstream.add_consumer(
                self._stream,
                ConsumerConfig(
                    deliver_subject=inbox,
                    filter_subject=self._subject,
                    ack_policy=AckPolicy.NONE,
                    max_deliver=1,
                    idle_heartbeat=HEARTBEAT,
                    flow_control=True,
                    inactive_threshold=10.0,
                    num_replicas=1,
                    mem_storage=True,
                    **start,
                ),
            )
        except BaseException:
            await _quietly_unsubscribe(subscription)
            raise
        if consumer.num_pending == 0 and (consumer.delivered is None or consumer.delivered.consumer_seq == 0):
            # Nothing between here and the end: what has been deleted cannot be delivered.
            self._received_up_to = max(self._received_up_to, info.state.last_seq)
            self.caught_up = True
            self._wake.set()
        return subscription

    async def _received(self, message: Msg) -> None:
        if not message.data and message.headers and "Status" in message.headers:
            await self._controlled(message)
            return
        tokens = message.reply.split(".")
        # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>, with more around it on
        # newer servers
        at = 5 if len(tokens) == 9 else 7
        sequence, delivery, pending = int(tokens[at]), int(tokens[at + 1]), int(tokens[at + 3])
        if delivery != self._expected:
            log.warning("%s: delivery %d came where %d was due", self._stream, delivery, self._expected)
            self._lost()
            return
        self._expected += 1
        self._heard = asyncio.get_running_loop().time()
        self._received_up_to = sequence
        self._inbox.append(Message(message.subject, sequence, message.data))
        self._inbox_bytes += len(message.data)
        if not self.caught_up and (sequence >= self._target or pending == 0):
            self._received_up_to = max(sequence, self._target)
            self.caught_up = True
        self._wake.set()

    async def _controlled(self, message: Msg) -> None:
        """Answer flow control unless the inbox is full, and see by the heartbeat whether a delivery is missing."""
        self._heard = asyncio.get_running_loop().time()
        headers = message.headers or {}
        if reply := message.reply or headers.get("Nats-Consumer-Stalled", ""):
            if len(self._inbox) < INBOX_MESSAGES and self._inbox_bytes < INBOX_BYTES:
                await self._connection.client.publish(reply)
            else:
                if not self._withheld:
                    self.stalls += 1
                    log.info("%s: the reader is behind, delivery waits", self._stream, extra={"stalls": self.stalls})
                self._withheld = reply
        last = headers.get("Nats-Last-Consumer")
        if last is not None and int(last) != self._expected - 1:
            self._lost()


async def _quietly_unsubscribe(subscription: Subscription) -> None:
    """Unsubscribe; a lost connection has already done so."""
    try:
        await subscription.unsubscribe()
    except NatsError:
        log.debug("unsubscribed from a lost connection")
