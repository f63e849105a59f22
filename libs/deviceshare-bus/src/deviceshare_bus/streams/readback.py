"""Reading the last message of a subject, for writers with a write of unknown outcome."""

from deviceshare_bus.messages.codec import Message
from deviceshare_bus.streams.streamstate import stored_message
from deviceshare_bus.wire.connection import Connection


async def read_back(connection: Connection, stream: str, subject: str) -> Message | None:
    """Return the last message under a subject, None if there is none.

    The stream's leader answers, so the result includes every write that was acknowledged before. Requests are repeated
    without end, with a back-off: a writer that cannot read back cannot write either.
    """

    async def last() -> Message | None:
        found = await stored_message(connection, stream, subject=subject)
        return Message(subject, found[0].sequence, found[1]) if found is not None else None

    return await connection.repeat(last, f"cannot read {subject} back")
