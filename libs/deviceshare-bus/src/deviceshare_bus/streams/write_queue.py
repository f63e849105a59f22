"""Grouping the writes of one stream: what waits while others are being stored is sent as one atomic batch.

A server that syncs always needs an fsync for each single message, but only one for a batch, and some further work to
stage it. So few writes are sent alone, at once; many are sent together. Nothing waits for others to come: a write waits
only while the server stores earlier ones of the same writer.

A batch is stored as a whole or not at all. If the server rejects it, because of one of its writes, it is divided until
each write has its own answer.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Generic, NamedTuple, TypeVar

BATCH_LIMIT = 1000
"""Messages in one atomic batch, at most: the server's limit."""
BATCH_BYTES = 1 << 20
"""Bytes of messages that are sent together, at most: below ``max_payload``, and no long pause for other writers."""
MIN_BATCH = 16
"""Messages from which a batch takes the server less time than the single messages. Staging a batch takes nats-server
2.15 four times fsync and a dozen changes of directories, a single message one fsync."""
PATIENCE = 0.25
"""Seconds for which writes wait for the answers to earlier ones. Later the answers may never come: the server restarts,
or another one is elected. At most 20 batches are in flight before the first ends without an answer; the server takes
50 of a stream."""
ALONE_SECONDS = 60.0
"""Seconds for which writes are sent alone to a stream that takes no batches."""
MAX_WAITING = 10_000
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


Result = int | BaseException
"""Of writes that were sent together: the sequence of the last one, or why they may not have been stored."""


def _ignore(cancelled: bool, error: BaseException | None) -> None:
    pass


class WriteQueue(Generic[W]):
    """The writes of one process to one stream that wait to be sent.

    ``transmit`` sends messages, several of them as one batch, and calls the function that it is given once, with their
    result. ``rejection`` classifies the exceptions among the results. ``ended`` hears of the end of each unit: whether
    its future was cancelled before, and the error, None for none.
    """

    def __init__(
        self,
        transmit: Callable[[Sequence[W], Callable[[Result], None]], None],
        rejection: Callable[[BaseException], Rejection],
        ended: Callable[[bool, BaseException | None], None] = _ignore,
    ) -> None:
        self._transmit = transmit
        self._rejection = rejection
        self._ended = ended
        self._waiting: deque[Unit[W]] = deque()
        self._divided: deque[list[Unit[W]]] = deque()
        """Parts of rejected batches, which are sent first."""
        self._alone = 0
        """Units in flight that were sent alone."""
        self._batches = 0
        """Batches in flight."""
        self._sent_at = 0.0
        self._alone_until = 0.0
        self._room = asyncio.Event()
        self._sent = asyncio.Event()
        """Nothing waits."""
        self._sent.set()
        self._scheduled = False
        """Whether sending goes on in this turn of the event loop."""
        self._impatient: asyncio.TimerHandle | None = None

    async def put(self, unit: Unit[W]) -> None:
        """Send a unit as soon as the server has stored what was sent before; wait while too many wait."""
        self._waiting.append(unit)
        self._sent.clear()
        self._start()
        while len(self._waiting) > MAX_WAITING:
            self._room.clear()
            await self._room.wait()

    def _start(self) -> None:
        # Not at once: a burst of writes from one task becomes one batch.
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._send)

    async def drain(self) -> None:
        """Wait until everything has been sent."""
        await self._sent.wait()

    def _send(self) -> None:
        """Send what need not wait."""
        loop = asyncio.get_running_loop()
        self._scheduled = False
        if self._impatient is not None:
            self._impatient.cancel()
            self._impatient = None
        units: list[Unit[W]] = []
        try:
            while self._divided or self._waiting:
                now = loop.time()
                if (found := self._next(now)) is None:
                    self._impatient = loop.call_at(self._sent_at + PATIENCE, self._send)
                    break
                units = found
                self._sent_at = now
                if len(units) == 1 or _guard(units) is not None or _count(units) >= MIN_BATCH:
                    self._send_together(units)
                else:
                    for unit in units:
                        self._send_together([unit])
        except Exception as error:  # a defect
            for unit in [*units, *(unit for part in self._divided for unit in part), *self._waiting]:
                self._end(unit, error)
            self._divided.clear()
            self._waiting.clear()
        if len(self._waiting) <= MAX_WAITING:
            self._room.set()
        if not (self._divided or self._waiting):
            self._sent.set()

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
        if batches and _count(self._waiting, MIN_BATCH) >= MIN_BATCH:
            return self._take(BATCH_LIMIT)
        room = MIN_BATCH - self._alone if patient else MIN_BATCH
        if batches and len(self._waiting) > room:
            return None
        return self._take(MIN_BATCH - 1 if batches else 1)

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

    def _send_together(self, units: list[Unit[W]]) -> None:
        guard = _guard(units)
        alone = len(units) == 1 and guard is None
        self._alone += alone
        self._batches += not alone
        messages = units[0].messages if alone else [message for unit in units for message in unit.messages]
        self._transmit(messages if guard is None else [guard, *messages], partial(self._answer, units, alone))

    def _answer(self, units: list[Unit[W]], alone: bool, result: Result) -> None:
        self._alone -= alone
        self._batches -= not alone
        if self._divided or self._waiting:
            self._start()
        if isinstance(result, int):
            last = result - _count(units)
            for unit in units:
                last += len(unit.messages)
                cancelled = unit.done.done()
                if not cancelled:
                    unit.done.set_result(last)
                self._ended(cancelled, None)
            return
        error = result
        rejection = Rejection.NONE if len(units) == 1 else self._rejection(error)
        if rejection is Rejection.NONE:
            for unit in units:
                self._end(unit, error)
            return
        if rejection is Rejection.BATCHES:
            self._alone_until = asyncio.get_running_loop().time() + ALONE_SECONDS
        if _guard(units) is None and (rejection is Rejection.BATCHES or len(units) < MIN_BATCH):
            self._divided.extend([unit] for unit in units)
        else:
            middle = len(units) // 2
            self._divided.extend((units[:middle], units[middle:]))
        self._sent.clear()
        self._start()

    def _end(self, unit: Unit[W], error: BaseException) -> None:
        """Let the answer fail."""
        cancelled = unit.done.done()
        if not cancelled:
            unit.done.set_exception(error)
            unit.done.exception()  # marks the error as retrieved: the caller may have been cancelled
        self._ended(cancelled, error)


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
