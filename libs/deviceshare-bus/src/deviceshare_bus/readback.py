"""Reading what stands under one subject now, for a writer that does not know what became of its write."""

import asyncio
import logging

from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from deviceshare_bus.connection import Connection
from deviceshare_bus.follower import Message

log = logging.getLogger("deviceshare.readback")

RETRY = 0.2
"""Seconds between two tries while the bus does not answer."""


async def read_back(connection: Connection, stream: str, subject: str) -> Message | None:
    """Return the last message under a subject, None where there is none; asks for as long as it takes."""
    while True:
        try:
            found = await connection.jetstream.get_last_msg(stream, subject)
        except NotFoundError:
            return None
        except (NatsError, TimeoutError, OSError) as error:
            log.debug("cannot read %s back yet: %r", subject, error)
            await asyncio.sleep(RETRY)
        else:
            return Message(subject, found.seq or 0, found.data or b"")
