"""What a consumer has delivered and the reader has not taken yet, bounded by flow control."""

import logging
from contextlib import suppress
from typing import Generic, TypeVar

from nats.errors import Error as NatsError

from deviceshare_bus.wire.connection import Connection

log = logging.getLogger("deviceshare.follower")

INBOX_MESSAGES = 1 << 16
INBOX_BYTES = 1 << 26
"""Messages and bytes that may wait for the reader. Beyond either, flow-control replies are withheld, and the server
stops at the end of its window: 32 MiB (nats-server ``JsFlowControlMaxPending``)."""

T = TypeVar("T")


class Inbox(Generic[T]):
    """The messages that wait for the reader of a stream."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._stream = stream
        self._messages: list[T] = []
        self._bytes = 0
        self._withheld = ""
        """The subject of the flow-control reply that waits until the reader has taken the messages."""
        self.stalls = 0
        """How often delivery was held back because the reader was slower than the stream."""

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def size(self) -> int:
        """The bytes of the messages."""
        return self._bytes

    @property
    def held_back(self) -> bool:
        """Whether the server waits for the reader."""
        return bool(self._withheld)

    def put(self, message: T, size: int) -> None:
        """Add a message of ``size`` bytes."""
        self._messages.append(message)
        self._bytes += size

    def take(self) -> list[T]:
        """Return what has arrived, and let the server go on."""
        messages, self._messages, self._bytes = self._messages, [], 0
        if reply := self._withheld:
            self._withheld = ""
            with suppress(NatsError):  # the connection is lost: the next consumer has a window of its own
                self._connection.client.send(reply)
        return messages

    def control(self, reply: str) -> None:
        """Let the server go on, at once or after the next :meth:`take`."""
        if len(self._messages) < INBOX_MESSAGES and self._bytes < INBOX_BYTES:
            with suppress(NatsError):
                self._connection.client.send(reply)
            return
        if not self._withheld:
            self.stalls += 1
            log.info("%s: the reader is behind, delivery waits", self._stream, extra={"stalls": self.stalls})
        self._withheld = reply

    def renew(self) -> None:
        """Forget the flow control of an earlier consumer."""
        self._withheld = ""
