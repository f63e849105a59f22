"""Comparing what a reader remembers of a stream with what the stream holds, after the server may have lost messages."""

import asyncio

from nats.aio.msg import Msg
from nats.js.api import DeliverPolicy

from deviceshare_bus.connection import Connection
from deviceshare_bus.consumers import delivers_nothing, ephemeral
from deviceshare_bus.position import Position, Stored
from deviceshare_bus.requests import Unanswered
from deviceshare_bus.streamstate import ANSWER, StreamState, stored_message

HEARTBEAT = 1.0


def delivered(message: Msg) -> tuple[Stored, int, int]:
    """Return a delivered message as it is stored, the number of its delivery, and how many are pending.

    The reply subject is ``$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>``, with
    more around it on newer servers.
    """
    tokens = message.reply.split(".")
    at = 5 if len(tokens) == 9 else 7
    expires = message.headers is not None and "Nats-TTL" in message.headers
    return Stored(int(tokens[at]), int(tokens[at + 2]), expires), int(tokens[at + 1]), int(tokens[at + 3])


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

    async def received(message: Msg) -> None:
        nonlocal expected
        headers = message.headers or {}
        if "Status" in headers:
            if reply := message.reply or headers.get("Nats-Consumer-Stalled", ""):
                await connection.client.publish(reply)
            return
        stored, delivery, pending = delivered(message)
        if delivery != expected:  # one is missing: the caller gets no complete answer, and asks again
            return
        expected += 1
        present[message.subject] = stored
        if not pending:
            complete.set()

    inbox = connection.client.new_inbox()
    subscription = await connection.subscribe(inbox, received)
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
        if connection.connected:
            await subscription.unsubscribe()
    return present
