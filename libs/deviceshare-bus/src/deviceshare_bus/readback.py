"""Reading the last message of a subject, for writers with a write of unknown outcome."""

import asyncio
import logging
from itertools import count

from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from deviceshare_bus.connection import RETRY, Connection
from deviceshare_bus.follower import Message

log = logging.getLogger("deviceshare.readback")


async def read_back(connection: Connection, stream: str, subject: str) -> Message | None:
    """Return the last message under a subject, None if there is none.

    The stream's leader answers, so the result includes every write that was acknowledged before. Requests are repeated
    without end, with a back-off: a writer that cannot read back cannot write either.
    """
    for failures in count():
        await connection.wait_connected()
        try:
            found = await connection.jetstream.get_last_msg(stream, subject)
        except NotFoundError:
            return None
        except (NatsError, OSError) as error:
            log.debug("cannot read %s back: %r", subject, error)
            await asyncio.sleep(RETRY.delay(failures))
        else:
            return Message(subject, found.seq or 0, found.data or b"")
    raise AssertionError("unreachable")
