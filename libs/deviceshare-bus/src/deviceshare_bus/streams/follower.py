"""Following a stream: the last message of every subject, then every new message, without a gap.

nats-py's ordered consumer can stay blind for many seconds after a restart of the server. This one is a plain
ephemeral push consumer. It is replaced by a new one, from the sequence after the last message received, when the
connection comes back, a delivery is missing, or the server has been silent for longer than its heartbeat. Nothing is
acknowledged and nothing is durable: the reader holds the position.

A reader must not go on if the stream is not the one that it has read. Every second it compares the stream's epoch, its
first and last sequence and the number of its messages. When another server answers for the stream, or a restarted one,
which may have lost messages, it compares the last message of every subject (:mod:`.audit`). Until then the process does
not write to the stream with compare-and-set (:meth:`.Connection.may_write`): sequences may mean other messages now.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

from deviceshare.model import Backoff
from nats.errors import Error as NatsError
from nats.js.api import DeliverPolicy
from nats.js.errors import NotFoundError

from deviceshare_bus.cores.position import Known, Position, Stored
from deviceshare_bus.messages.codec import Message
from deviceshare_bus.streams.audit import DELIVERED, EXPIRES, find_difference
from deviceshare_bus.streams.consumers import delivers_nothing, ephemeral
from deviceshare_bus.streams.inbox import Inbox
from deviceshare_bus.streams.streamstate import ANSWER, CopiedStream, StreamState, stream_state
from deviceshare_bus.wire.client import Listening
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.framing import Received
from deviceshare_bus.wire.requests import Unanswered
from deviceshare_bus.wire.tasks import Alarm, Rounds, end

log = logging.getLogger("deviceshare.follower")

HEARTBEAT = 1.0
"""Seconds between two heartbeats of a server that has nothing to deliver."""
CONSUMER = 2.0
"""Seconds that making a consumer may take before it is tried again."""
PATIENCE = Backoff(first=1.0, most=16.0)
"""How many times as long a server may take to answer a reader that begins, by the number of its attempts.

A dying server takes the request with it, so the first attempts are short; a busy one answers in the end."""
CHECK = 1.0
"""Seconds between two checks of the stream's state."""
RECHECK = 30.0
"""Seconds after which the consumer is replaced if the stream holds more than it delivers."""
CONFIRM = 3.0
"""Seconds for which a stream of several servers must seem to have lost messages: one that was suspended does not know
for a moment that another one leads."""
LAG = 5.0
"""Seconds after which a message must have been delivered to the reader, for it to count as up to date."""
SILENCE = 3.0
"""Seconds without a message or heartbeat after which the consumer is replaced."""


class BusWiped(Exception):
    """The stream is not the one that was being read: drop what was read from it and start again."""


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
    delivered once and in order, also after a loss of the connection. ``hold``: seconds before which it does not count
    as caught up.

    * Retried without end, with a back-off: an unreachable server, a stream that does not exist yet, a lost consumer.
    * Final: :class:`BusWiped` if the stream was deleted, created again, emptied or rolled back, and
      :attr:`~deviceshare_bus.wire.connection.Connection.failure` of the connection.
    * Bounded: a reader that is slower than the stream holds delivery back by flow control. At most
      :data:`.inbox.INBOX_MESSAGES` or :data:`.inbox.INBOX_BYTES` wait for it, and what the server's window of 32 MiB
      holds.
      :attr:`stalls` counts how often delivery was held back.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        *,
        subject: str = ">",
        history: bool = False,
        hold: float = 0.0,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._subject = subject
        self._first = DeliverPolicy.ALL if history else DeliverPolicy.LAST_PER_SUBJECT
        self._history = history
        self._state: StreamState | None = None
        """The state of the stream when it was last found to be the one that is read."""
        self._doubted_since: float | None = None
        """Since when the stream seems to be another one."""
        self._clock = asyncio.get_running_loop().time
        """Looked up once: it is asked for every message."""
        self._held_until = self._clock() + hold
        self._attempts = 0
        """Attempts to begin since the last one that succeeded."""
        self._generation = 0
        self._expected = 1
        self._target = 0
        self._inbox: Inbox[Message] = Inbox(connection, stream)
        self._wake = Alarm()
        self._stale = True
        self._heard = 0.0
        self._received = Position()
        self._behind: tuple[int, float] | None = None
        """A last sequence of the stream that has not been delivered yet, and when it was seen."""
        self._slow = False
        """Whether the log says that the reader is slow."""
        self._unanswered_since: float | None = None
        self._read_to_end = False
        self._copied = ""
        """Why the stream is not read although it can be, see :class:`.streamstate.CopiedStream`."""
        self.position = 0
        """Sequence up to which the stream has been delivered, and the reader has asked for the next batch."""

    @property
    def stalls(self) -> int:
        """How often delivery was held back because the reader was slower than the stream."""
        return self._inbox.stalls

    @property
    def caught_up(self) -> bool:
        """Whether the stream has been read to its end once, and is not held back: see :data:`.streamstate.HOLD`."""
        return self._read_to_end and self._clock() >= self._held_until

    @property
    def obstacle(self) -> str:
        """Why the reader does not know what the stream holds right now, '' if it does."""
        now = self._clock()
        if self._copied:
            return self._copied
        if not self._read_to_end:
            return f"stream {self._stream} has not been read to its end yet"
        if now < self._held_until:
            return f"stream {self._stream} is new: decisions wait for {self._held_until - now:.0f} s"
        if self._stale:
            return f"stream {self._stream} is not delivered"
        if self._unanswered_since is not None and now - self._unanswered_since > SILENCE:
            return f"the bus does not answer about stream {self._stream}"
        if self._behind is not None and self._lags(now):
            return f"stream {self._stream} is read to {self.position} of {self._behind[0]}"
        return ""

    def _lags(self, now: float) -> bool:
        """Return whether a message has not been delivered for longer than :data:`LAG`."""
        return self._behind is not None and self.position < self._behind[0] and now - self._behind[1] > LAG

    def _report_lag(self, now: float) -> None:
        """Log that the reader of a whole stream is slow, once, and that it has caught up."""
        if self._subject == ">" and self._read_to_end and self._lags(now) != self._slow:
            self._slow = not self._slow
            details = {"position": self.position, "last": self._behind[0] if self._behind is not None else 0}
            if self._slow:
                log.warning("%s: the reader is more than %g s behind", self._stream, LAG, extra=details)
            else:
                log.info("%s: the reader has caught up", self._stream, extra=details)

    async def __aiter__(self) -> AsyncGenerator[Batch, None]:
        """Deliver batches as they arrive; the first that is caught up may be empty."""
        remove_hook = self._connection.on_reconnect(self._lost)
        listening: Listening | None = None
        reported = False
        rounds = Rounds()
        checks = asyncio.create_task(self._check())
        guard = object()
        self._connection.guards[self._stream] = guard
        self._connection.unverified(self._stream)
        wiped = False
        try:
            while True:
                while self._stale:  # the connection may get lost again meanwhile
                    if listening is not None:
                        listening.end()
                    failure = f"cannot read {self._stream} yet"
                    listening = await self._connection.repeat(self._begin, failure, logging.WARNING)
                    self._heard = self._clock()
                self._wake.clear()
                if not self._inbox:
                    self.position = self._received.sequence
                caught_up = self.caught_up
                if checks.done():
                    checks.result()  # raises: only a defect ends it
                if not self._inbox and (reported or not caught_up):
                    await self._wake.wait(HEARTBEAT)
                    self._stale |= self._clock() - self._heard > SILENCE and self._connection.connected
                if self._inbox:
                    await rounds.begin()
                    rounds.took(len(self._inbox))
                messages, caught_up = self._inbox.take(), self.caught_up
                if messages or (caught_up and not reported):
                    reported |= caught_up
                    position = self._received.sequence
                    yield Batch(messages, caught_up, position)
                    # After the batch: the status reports the position that the service has processed.
                    self.position = position
        except BusWiped:
            wiped = True
            self._connection.unverified(self._stream)
            raise
        finally:
            remove_hook()
            await end(checks)
            # Otherwise nothing is written until the stream has been read anew.
            if not wiped and self._connection.guards.get(self._stream) is guard:
                del self._connection.guards[self._stream]
            if listening is not None:
                listening.end()

    async def read_to_end(self) -> list[Message]:
        """Read to the end once, and return the messages. Raises BusWiped."""
        found: list[Message] = []
        async with aclosing(aiter(self)) as batches:
            async for batch in batches:
                found += batch.messages
                if batch.caught_up:
                    break
        return found

    async def _check(self) -> None:
        """Check the state of the stream without end, also while the reader is busy."""
        while True:
            await asyncio.sleep(CHECK)
            known, before = self._state, self._clock()
            received = self._received.known
            if self._stale or known is None or not self._connection.connected:
                continue
            try:
                state = await stream_state(self._connection, self._stream)
            except (NotFoundError, CopiedStream):
                self._lost()
                continue
            except (NatsError, TimeoutError, OSError):  # the connection reports its failures itself
                self._unanswered_since = self._unanswered_since or before
                continue
            self._unanswered_since = None
            self._report_lag(self._clock())
            if self._behind is None or self.position >= self._behind[0]:
                self._behind = (state.last, before)
            changed = (state.epoch, state.server) != (known.epoch, known.server)
            if state.led_since < known.led_since:
                continue  # another server leads by now
            if changed or state.last < received.sequence or self._lacks(state, received):
                self._connection.unverified(self._stream)
                self._lost()
            elif self._received.sequence < self._behind[0] and self._clock() - self._behind[1] > RECHECK:
                if not (self._inbox or self._inbox.held_back):
                    self._lost()  # a delivery is missing
                self._behind = None

    def _lacks(self, state: StreamState, received: Known) -> bool:
        """Return whether messages have vanished from the stream that were received."""
        return not self._history and received.lacks(state.messages, state.first, state.last)

    def _lost(self) -> None:
        self._generation += 1
        self._stale = True
        self._wake.set()

    async def _begin(self) -> Listening:
        """Make a consumer that starts after the last message delivered. Raises BusWiped."""
        self._stale = False
        losses = self._connection.losses
        patience = PATIENCE.delay(self._attempts)
        self._attempts += 1
        try:
            state = await stream_state(self._connection, self._stream, ANSWER * patience)
            self._copied = ""
            loss = await self._find_loss(state)
            if not loss:
                self._state, self._doubted_since = state, None
                # A request that a dying server took with it is not worth its own, longer timeout.
                async with asyncio.timeout(CONSUMER * patience):
                    listening = await self._make_consumer(state)
                self._attempts = 0
                self._connection.verified(self._stream, losses)
                return listening
        except NotFoundError:
            if self._state is None:
                raise
            loss = "is gone"
        except (NatsError, OSError) as error:
            self._copied = str(error) if isinstance(error, CopiedStream) else ""
            self._doubted_since = None  # who did not answer has not confirmed the loss
            raise
        self._confirm(loss)
        raise Unanswered(f"stream {self._stream} {loss}, as one server says")

    async def _find_loss(self, state: StreamState) -> str:
        """Return how the stream is not the one that was read, '' if it is."""
        known, received = self._state, self._received
        if known is None:
            self._held_until = max(self._held_until, self._clock() + state.hold)
            return ""
        if known.epoch != state.epoch:
            return "was created again"
        if state.led_since < known.led_since:
            raise Unanswered(f"stream {self._stream} has another leader by now")
        if state.last < received.sequence or self._lacks(state, received.known):
            return f"has lost messages: {state.messages} are left, up to {state.last}"
        if known.server != state.server:
            difference = await find_difference(
                self._connection, self._stream, state, received, subject=self._subject, history=self._history
            )
            return f"was rolled back: {difference}" if difference else ""
        return ""

    def _confirm(self, loss: str) -> None:
        """Raise BusWiped for a loss that is certain."""
        now = self._clock()
        if self._doubted_since is None:
            self._doubted_since = now
        replicated = self._state is not None and self._state.led_since
        if not replicated or now >= self._doubted_since + CONFIRM:
            raise BusWiped(f"stream {self._stream} {loss}")

    async def _make_consumer(self, state: StreamState) -> Listening:
        if not self._read_to_end:
            self._target = state.last
        self._expected = 1
        self._inbox.renew()
        self._generation += 1
        generation = self._generation

        def received(message: Received) -> None:
            if generation == self._generation:  # an older consumer may still deliver
                self._deliver(message)

        inbox = self._connection.client.new_inbox()
        listening = self._connection.listen(inbox, received)
        start: dict[str, Any] = {"deliver_policy": self._first}
        if after := self._received.sequence:
            start = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": after + 1}
        try:
            config = ephemeral(inbox, self._subject, HEARTBEAT, **start)
            consumer = await self._connection.jetstream.add_consumer(self._stream, config)
        except BaseException:
            listening.end()
            raise
        if delivers_nothing(consumer):
            # Nothing between here and the end: what has been deleted cannot be delivered.
            self._received.sequence = max(self._received.sequence, state.last)
            self._read_to_end = True
            self._wake.set()
        return listening

    def _deliver(self, message: Received) -> None:
        if not message.reply.startswith(DELIVERED):
            self._controlled(message)
            return
        sequence, time, delivery, pending = message.delivery()
        if delivery != self._expected:
            log.warning("%s: delivery %d came where %d was due", self._stream, delivery, self._expected)
            self._lost()
            return
        self._expected += 1
        self._heard = self._clock()
        stored = Stored(sequence, time, EXPIRES in message.head)
        self._received.received(message.subject, stored, message.data)
        self._inbox.put(Message(message.subject, sequence, message.data), len(message.data))
        if not self._read_to_end and (sequence >= self._target or pending == 0):
            self._received.sequence = max(sequence, self._target)
            self._read_to_end = True
        self._wake.set()

    def _controlled(self, message: Received) -> None:
        """Answer flow control unless the inbox is full, and see by the heartbeat whether a delivery is missing."""
        self._heard = self._clock()
        if reply := message.reply or message.field(b"Nats-Consumer-Stalled").decode():
            self._inbox.control(reply)
        last = message.field(b"Nats-Last-Consumer")
        if last and int(last) != self._expected - 1:
            self._lost()
