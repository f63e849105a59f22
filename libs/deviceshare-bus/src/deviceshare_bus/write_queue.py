"""Grouping the writes of one stream: what waits while others are being stored is sent as one atomic batch.

A server that syncs always needs an fsync for each single message, but only one for a batch, and some further work to
stage it. So few writes are sent alone, at once; many are sent together. Nothing waits for others to come: a write waits
only while the server stores earlier ones of the same writer.

A batch is stored as a whole or not at all. If the server rejects it, because of one of its writes, it is divided until
each write has its own answer.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

from deviceshare_bus.tasks import set_within

BATCH_LIMIT = 1000
"""Messages in one atomic batch, at most: the server's limit."""
BATCH_BYTES = 1 << 20
"""Bytes of messages that are sent together, at most: below ``max_payload``, and no long pause for other writers."""
LEAST_BATCH = 16
"""Messages from which a batch takes the server less time than the single messages. Staging a batch takes nats-server
2.15 four times fsync and a dozen changes of directories, a single message one fsync."""
PATIENCE = 0.25
"""Seconds for which writes wait for the answers to earlier ones. Later the answers may never come: the server restarts,
or another one is elected. At most 20 batches are in flight before the first ends without an answer; the server takes
50 of a stream."""
ALONE_SECONDS = 60.0
"""Seconds for which writes are sent alone to a stream that takes no batches."""
MOST_WAITING = 10_000
"""Writes that may wait before :meth:`WriteQueue.put` waits."""

W = TypeVar("W")


class Rejection(Enum):
    """What an error says of the writes that were sent together."""

    NONE = auto()
    """Nothing, they may have been stored: all of them end with it."""
    ONE = auto()
    """One of them cannot be stored: none was."""
    BATCHES = auto()
    """The stream takes no batches: none was stored."""


class Unit(NamedTuple, Generic[W]):
    """Messages that are stored as a whole or not at all; ``done`` is the sequence of the last one.

    A ``guard`` is a message that is stored with them, before them, and whose condition is theirs as well; units that
    are sent together need one guard, that of the last one.
    """

    messages: Sequence[W]
    size: int
    done: asyncio.Future[int]
    guard: W | None = None


class WriteQueue(Generic[W]):
    """The writes of one process to one stream that wait to be sent.

    ``transmit`` sends messages, several of them as one batch, and returns the future of the sequence of the last one.
    ``rejection`` classifies the exceptions of this future.
    """

    def __init__(
        self,
        transmit: Callable[[Sequence[W]], Awaitable[asyncio.Future[int]]],
        rejection: Callable[[BaseException], Rejection],
    ) -> None:
        self._transmit = transmit
        self._rejection = rejection
        self._waiting: deque[Unit[W]] = deque()
        self._divided: deque[list[Unit[W]]] = deque()
        """Parts of rejected batches, which are sent first."""
        self._sending: list[Unit[W]] = []
        self._alone = 0
        """Units in flight that were sent alone."""
        self._batches = 0
        """Batches in flight."""
        self._sent_at = 0.0
        self._alone_until = 0.0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    async def put(self, unit: Unit[W]) -> None:
        """Send a unit as soon as the server has stored what was sent before; wait while too many wait."""
        self._waiting.append(unit)
        self._start()
        while len(self._waiting) > MOST_WAITING:
            self._room.clear()
            await self._room.wait()

    def _start(self) -> None:
        self._changed.set()
        if self._sender is None:
            # Not at once: a burst of writes from one task becomes one batch.
            self._sender = asyncio.create_task(self._send())
            self._sender.add_done_callback(self._ended)

    async def drain(self) -> None:
        """Wait until everything has been sent."""
        while self._sender is not None:
            await asyncio.wait({self._sender})

    def _ended(self, sender: asyncio.Task[None]) -> None:
        """Fail what waits if sending has failed, which is a defect, or was cancelled at the end of the process."""
        error = None if sender.cancelled() else sender.exception()
        if error is None and not sender.cancelled():
            return
        self._sender = None
        self._room.set()
        units = [*self._sending, *(unit for part in self._divided for unit in part), *self._waiting]
        self._divided.clear()
        self._waiting.clear()
        for unit in units:
            _end(unit, error)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while self._divided or self._waiting:
            self._changed.clear()
            if (units := self._next(loop.time())) is None:
                await set_within(self._changed, self._sent_at + PATIENCE - loop.time())
                continue
            self._sent_at = loop.time()
            self._sending = units
            self._room.set()
            if len(units) == 1 or _guard(units) is not None or _count(units) >= LEAST_BATCH:
                await self._send_together(units)
            else:
                for unit in units:
                    await self._send_together([unit])
        self._sender = None  # not in the callback: a write that comes before it needs another task

    def _next(self, now: float) -> list[Unit[W]] | None:
        """Take the units that are sent next, None if they have to wait."""
        patient = now < self._sent_at + PATIENCE
        if patient and self._batches:
            return None
        if self._divided:
            return self._divided.popleft()
        if self._waiting[0].guard is not None:
            return self._take(BATCH_LIMIT - 1)
        batches = now >= self._alone_until
        if batches and _count(self._waiting, LEAST_BATCH) >= LEAST_BATCH:
            return self._take(BATCH_LIMIT)
        room = LEAST_BATCH - self._alone if patient else LEAST_BATCH
        if batches and len(self._waiting) > room:
            return None
        return self._take(LEAST_BATCH - 1 if batches else 1)

    def _take(self, most: int) -> list[Unit[W]]:
        """Take waiting units with this many messages, at least one unit."""
        taken = [self._waiting.popleft()]
        count, size = len(taken[0].messages), taken[0].size
        while self._waiting:
            unit = self._waiting[0]
            if (unit.guard is None) != (taken[0].guard is None):
                break
            count, size = count + len(unit.messages), size + unit.size
            if count > most or size > BATCH_BYTES:
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _send_together(self, units: list[Unit[W]]) -> None:
        guard = _guard(units)
        alone = len(units) == 1 and guard is None
        self._alone += alone
        self._batches += not alone
        messages = [message for unit in units for message in unit.messages]
        future = await self._transmit(messages if guard is None else [guard, *messages])

        def answered(done: asyncio.Future[int]) -> None:
            self._alone -= alone
            self._batches -= not alone
            self._changed.set()
            self._answer(units, done)

        future.add_done_callback(answered)

    def _answer(self, units: list[Unit[W]], done: asyncio.Future[int]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is None and not done.cancelled():
            last = done.result() - _count(units)
            for unit in units:
                last += len(unit.messages)
                if not unit.done.done():
                    unit.done.set_result(last)
            return
        rejection = Rejection.NONE if error is None or len(units) == 1 else self._rejection(error)
        if rejection is Rejection.NONE:
            for unit in units:
                _end(unit, error)
            return
        if rejection is Rejection.BATCHES:
            self._alone_until = asyncio.get_running_loop().time() + ALONE_SECONDS
        if _guard(units) is None and (rejection is Rejection.BATCHES or len(units) < LEAST_BATCH):
            self._divided.extend([unit] for unit in units)
        else:
            middle = len(units) // 2
            self._divided.extend((units[:middle], units[middle:]))
        self._start()


def _count(units: Sequence[Unit[W]] | deque[Unit[W]], enough: int = BATCH_LIMIT) -> int:
    """Return the number of messages; it counts no further than ``enough``."""
    count = 0
    for unit in units:
        count += len(unit.messages)
        if count >= enough:
            break
    return count


def _guard(units: Sequence[Unit[W]]) -> W | None:
    """Return the guard under which units are sent together, None for none."""
    return units[-1].guard


def _end(unit: Unit[W], error: BaseException | None) -> None:
    """Let the answer fail, or cancel it."""
    if unit.done.done():
        return
    if error is None:
        unit.done.cancel()
    else:
        unit.done.set_exception(error)
