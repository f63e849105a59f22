"""Keeping a stream of latest messages within a bound, without losing those of objects that exist.

nats-server's own limits delete the oldest messages, of whatever object. The writer gives the messages of objects that
are gone a time to live; the oldest of these are deleted here.
"""

import asyncio
import logging
from collections.abc import Callable

from deviceshare.model import Backoff
from nats.errors import Error as NatsError

from deviceshare_bus.streams.streamstate import StreamState, delete_message, stored_message, stream_state
from deviceshare_bus.wire.connection import Connection

log = logging.getLogger("deviceshare.bounded")

CHECK = 5.0
"""Seconds between two checks."""
CHECK_FAILED = Backoff(CHECK, 60.0)
"""Seconds until the next check, by the number of checks that failed one after another."""


class BoundedStream:
    """Deletes the oldest messages with a time to live while a stream holds more than its bound.

    Messages without one stay, also if they alone exceed the bound. Between two checks the bound may be exceeded, too.

    Args:
        connection: the bus.
        stream: a stream of which each subject has one message at most.
        most: messages.
        most_bytes: bytes of the messages in nats-server's store.
        count: called for each message that was deleted.
    """

    def __init__(
        self, connection: Connection, stream: str, most: int, most_bytes: int, count: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._most = most
        self._most_bytes = most_bytes
        self._count = count
        self._from = 1
        """No message before this sequence has a time to live: one that gets it is written again, behind."""

    async def run(self, owns: Callable[[], bool]) -> None:
        """Check until cancelled, whenever this replica ``owns`` the task; two that do are no harm."""
        failures = 0
        while True:
            await asyncio.sleep(CHECK_FAILED.delay(failures))
            if not owns():
                continue
            try:
                await self.enforce()
                failures = 0
            except (NatsError, OSError) as error:
                log.warning("cannot delete the oldest messages of %s: %r", self._stream, error)
                failures += 1

    async def enforce(self) -> None:
        """Delete messages until the stream is within its bound or no message is left that expires.

        Raises:
            nats.errors.Error: there was no answer, the request was denied, or the message to delete was replaced.
        """
        state, deleted = await stream_state(self._connection, self._stream), 0
        while self._exceeded(state):
            answer = await stored_message(self._connection, self._stream, sequence=self._from, subject=">")
            if answer is None:
                break
            message, _ = answer
            if message.expires:
                await delete_message(self._connection, self._stream, message.sequence)
                self._count()
                deleted += 1
                state = await stream_state(self._connection, self._stream)
            self._from = message.sequence + 1
        if deleted:
            log.info("%s: deleted the oldest messages of deleted objects", self._stream, extra={"messages": deleted})

    def _exceeded(self, state: StreamState) -> bool:
        return state.messages > self._most or state.size > self._most_bytes
