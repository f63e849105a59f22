"""The writes of a core: its commands become writes of the publisher, whose results become events."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from deviceshare.model import NodeLedger

from deviceshare_bus.cores.core import Event, Guard, Now, Write, WriteConflict, WriteRefused, WriteUnknown, Written
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.streams.publisher import Conflict, Publisher, PublishError, Refused
from deviceshare_bus.streams.publisher import Write as BusWrite


class CoreWrites:
    """The writes in flight of one core.

    Args:
        publisher: sends the messages.
        clock: stamps new claims, None if no traces are exported.
        post: takes the events that answer the writes.
        fail: takes an error that is no result of a write: a defect.
    """

    def __init__(
        self,
        publisher: Publisher,
        clock: Callable[[], Now] | None,
        post: Callable[[Event], None],
        fail: Callable[[BaseException], object],
    ) -> None:
        self._publisher = publisher
        self._clock = clock
        self._post = post
        self._fail = fail
        self.in_flight: set[asyncio.Future[int]] = set()
        self._guard: tuple[Guard, BusWrite] | None = None
        """The last guard, and its message."""

    async def send(self, command: Write) -> None:
        """Send a write; wait only while too many wait to be sent."""
        sent_at = 0.0 if self._clock is None else self._clock().wall
        writes = [BusWrite(each.subject, _encoded(each.message, sent_at), each.expected) for each in command.writes]
        if command.guard is not None:
            future = await self._publisher.send_atomic(writes, self._encoded_guard(command.guard))
        elif len(writes) == 1:
            future = await self._publisher.send(writes[0], ttl=command.writes[0].ttl)
        else:
            future = await self._publisher.send_atomic(writes)
        self.in_flight.add(future)
        future.add_done_callback(partial(self._answered, command.token, sent_at))

    def _encoded_guard(self, guard: Guard) -> BusWrite:
        """Return a guard as a message: it is the same one for all writes until the lease is renewed."""
        if self._guard is None or self._guard[0] is not guard:
            self._guard = (guard, BusWrite(guard.subject, encode(guard.message), unless=guard.unless))
        return self._guard[1]

    def _answered(self, token: int, sent_at: float, done: asyncio.Future[int]) -> None:
        self.in_flight.discard(done)
        if done.cancelled():
            self._post(WriteUnknown(token))
            return
        match done.exception():
            case None:
                self._post(Written(token, done.result(), sent_at))
            case Conflict():
                self._post(WriteConflict(token))
            case Refused() as refused:
                self._post(WriteRefused(token, str(refused)))
            case PublishError():
                self._post(WriteUnknown(token))
            case error:
                self._fail(error)


def _encoded(message: Any, sent_at: float) -> bytes:
    """Return a message as bytes; new claims in ledgers get the time ``sent_at``, unless it is 0."""
    if isinstance(message, bytes):
        return message
    return encode(message.sent(sent_at) if sent_at and isinstance(message, NodeLedger) else message)
