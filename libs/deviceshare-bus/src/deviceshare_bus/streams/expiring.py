"""Letting the messages of objects expire that were deleted while their writer did not run."""

import logging
from collections.abc import Iterable

from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from deviceshare_bus.streams.publisher import TTL, Conflict, Publisher, PublishError, Write
from deviceshare_bus.wire.connection import Connection

log = logging.getLogger("deviceshare.expiring")


async def expire_others(
    connection: Connection, publisher: Publisher, stream: str, keep: Iterable[str], ttl: float
) -> None:
    """Write the last message of every subject but those to ``keep`` again, unchanged, so that it expires.

    Each write is conditional. Messages that have a TTL already, or that are newer than this call, stay as they are. At
    most 100,000 subjects, as many as the server lists; nothing is retried: what is left expires after the next start.
    """
    kept = set(keep)
    expired = 0
    try:
        info = await connection.jetstream.stream_info(stream, subjects_filter=">")
        for subject in (info.state.subjects or {}).keys() - kept:
            try:
                found = await connection.jetstream.get_last_msg(stream, subject)
            except NotFoundError:
                continue
            sequence = found.seq or 0
            if sequence > info.state.last_seq or TTL in (found.headers or {}):
                continue
            try:
                await publisher.write(Write(subject, found.data or b"", sequence), ttl=ttl)
            except Conflict:  # there is a newer message
                continue
            expired += 1
    except (NatsError, PublishError, OSError) as error:
        log.warning("cannot let the messages of deleted objects in %s expire: %s", stream, error)
    if expired:
        log.info("%s: messages of deleted objects expire", stream, extra={"messages": expired})
