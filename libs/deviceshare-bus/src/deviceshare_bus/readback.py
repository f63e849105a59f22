"""Reading the last message of a subject, for writers with a write of unknown outcome."""

from nats.js.errors import NotFoundError

from deviceshare_bus.connection import Connection
from deviceshare_bus.follower import Message


async def read_back(connection: Connection, stream: str, subject: str) -> Message | None:
    """Return the last message under a subject, None if there is none.

    The stream's leader answers, so the result includes every write that was acknowledged before. Requests are repeated
    without end, with a back-off: a writer that cannot read back cannot write either.
    """

    async def last() -> Message | None:
        try:
            found = await connection.jetstream.get_last_msg(stream, subject)
        except NotFoundError:
            return None
        return Message(subject, found.seq or 0, found.data or b"")

    return await connection.repeat(last, f"cannot read {subject} back")
