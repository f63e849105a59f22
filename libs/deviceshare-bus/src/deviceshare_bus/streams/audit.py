"""Comparing what a reader remembers of a stream with what the stream holds, after the server may have lost messages."""

import asyncio
from contextlib import suppress

from nats.errors import Error as NatsError
from nats.js.api import DeliverPolicy

from deviceshare_bus.cores.position import Position, Stored
from deviceshare_bus.streams.consumers import delivers_nothing, ephemeral
from deviceshare_bus.streams.streamstate import ANSWER, StreamState, stored_message
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.framing import Received
from deviceshare_bus.wire.requests import Unanswered

HEARTBEAT = 1.0
DELIVERED = "$JS.ACK."
"""The beginning of the reply subjects of delivered messages; others are flow control and heartbeats."""
EXPIRES = b"\r\nNats-TTL:"
"""In the headers of a message that the server deletes after a time to live."""


async def find_difference(
    connection: Connection, stream: str, state: StreamState, position: Position, *, subject: str, history: bool
) -> str:
    """Return how the stream differs from what was read, '' if it does not.

    ``subject``: the filter of the reader. ``history``: the stream keeps all messages, and only the message at the
    position is compared. Otherwise the last messages of all subjects of the filter are, without their bodies. Raises
    ``nats.errors.Error`` if the server does not answer.
    """
    if state.last < position.sequence:
        return f"it ends at {state.last}, before the position {position.sequence}"
    if history:
        return await _position_differs(connection, stream, state, position)
    if not position.sequence:
        return ""
    present = await _last_messages(connection, stream, subject)
    for different in position.differences(present):
        # The consumer may run on a replica that is behind: the leader decides.
        found = await stored_message(connection, stream, subject=different)
        if not position.confirms(different, found[0] if found is not None else None):
            return f"the last message of {different} is another one"
    return ""


async def _position_differs(connection: Connection, stream: str, state: StreamState, position: Position) -> str:
    if position.last is None:
        return ""
    found = await stored_message(connection, stream, sequence=position.last.sequence)
    stored, data = found if found is not None else (None, b"")
    if position.misses_last(stored, data, state.first):
        return f"the message at {position.last.sequence} is another one"
    return ""


async def _last_messages(connection: Connection, stream: str, subject: str) -> dict[str, Stored]:
    """Return the last message of every subject that the filter ``subject`` matches."""
    present: dict[str, Stored] = {}
    complete = asyncio.Event()
    expected = 1

    def received(message: Received) -> None:
        nonlocal expected
        if not message.reply.startswith(DELIVERED):
            if reply := message.reply or message.field(b"Nats-Consumer-Stalled").decode():
                with suppress(NatsError):  # the connection is lost
                    connection.client.send(reply)
            return
        sequence, time, delivery, pending = message.delivery()
        if delivery != expected:  # one is missing: the caller gets no complete answer, and asks again
            return
        expected += 1
        present[message.subject] = Stored(sequence, time, EXPIRES in message.head)
        if not pending:
            complete.set()

    inbox = connection.client.new_inbox()
    listening = connection.listen(inbox, received)
    try:
        async with asyncio.timeout(2 * ANSWER):
            start = DeliverPolicy.LAST_PER_SUBJECT
            config = ephemeral(inbox, subject, HEARTBEAT, deliver_policy=start, headers_only=True)
            consumer = await connection.jetstream.add_consumer(stream, config)
        if delivers_nothing(consumer):
            return {}
        while not complete.is_set():
            before = expected
            try:
                async with asyncio.timeout(ANSWER):
                    await complete.wait()
            except TimeoutError:
                if expected == before:
                    raise Unanswered(f"{stream} was not delivered within {ANSWER} s") from None
    finally:
        listening.end()
    return present
