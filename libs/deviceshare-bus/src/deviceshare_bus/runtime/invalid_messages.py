"""Invalid messages of the streams that a service follows: quarantine, and whether they are still there."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from deviceshare_bus.cores.core import Event, ReadBack, Unreadable
from deviceshare_bus.messages.codec import Message
from deviceshare_bus.messages.validation import InvalidMessageError
from deviceshare_bus.runtime.service import Context
from deviceshare_bus.streams.readback import read_back

RECHECK = 30.0
"""Seconds after which invalid messages are read again: an operator may have deleted them."""
MAX_INVALID = 10_000
"""Subjects with invalid messages that are remembered for this, the latest."""


class InvalidMessages:
    """The subjects whose last message is invalid.

    Args:
        context: the service's connection.
        reads: bounds the subjects that are read back concurrently.
        handle: passes an event to the core.
    """

    def __init__(self, context: Context, reads: asyncio.Semaphore, handle: Callable[[Event], None]) -> None:
        self._context = context
        self._reads = reads
        self._handle = handle
        self._sequences: dict[tuple[str, str], int] = OrderedDict()
        """By stream and subject, the sequence of the invalid message."""

    def quarantine(self, stream: str, message: Message, error: msgspec.MsgspecError) -> Unreadable:
        """Put a message in quarantine, once, and return the event for the core."""
        place = (stream, message.subject)
        if self._sequences.pop(place, None) != message.sequence:
            self._context.events.quarantine(stream, message, error)
        self._sequences[place] = message.sequence
        if len(self._sequences) > MAX_INVALID:
            del self._sequences[next(iter(self._sequences))]
        newer = isinstance(error, InvalidMessageError) and error.newer
        return Unreadable(stream, message.subject, message.sequence, str(error)[:1000], newer)

    def replaced(self, stream: str, subject: str) -> None:
        """A subject has a valid message."""
        if self._sequences:
            self._sequences.pop((stream, subject), None)

    async def recheck(self) -> None:
        """Report subjects whose invalid message was deleted: no follower learns of a deletion."""
        while True:
            await asyncio.sleep(RECHECK)
            async with asyncio.TaskGroup() as group:
                for (stream, subject), sequence in self._sequences.items():
                    group.create_task(self._recheck(stream, subject, sequence))

    async def _recheck(self, stream: str, subject: str, sequence: int) -> None:
        async with self._reads:
            found = await read_back(self._context.connection, stream, subject)
        # Another message may have been delivered meanwhile: the answer is older.
        if found is None and self._sequences.get((stream, subject)) == sequence:
            del self._sequences[stream, subject]
            self._handle(ReadBack(subject, 0))
