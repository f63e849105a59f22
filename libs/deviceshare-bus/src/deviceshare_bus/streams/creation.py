"""Creating the streams, each with an epoch: a random id in its metadata, by which readers detect a wiped bus.

When LEDGER is lost, bindings of its claims may be in flight, of unknown claims. A ledger that replaces a lost
one is therefore *held*: nothing is decided by it before every service has noticed the loss, the bindings in flight have
been answered, and their pods are seen as bound.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

from deviceshare.model import Backoff
from nats.errors import Error as NatsError
from nats.js.api import StorageType, StreamConfig, StreamConsumerLimits
from nats.js.errors import BadRequestError, NotFoundError

from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.streamstate import EPOCH, HOLD
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.tasks import end

log = logging.getLogger("deviceshare.setup")

HOLD_SECONDS = 15.0
"""Seconds for which a new LEDGER is held, where bindings may be in flight: three until the binder has noticed the loss,
ten until its requests have been answered (:data:`deviceshare_bus.runtime.shell.DRAIN`), two until inventory has
published the bound pods."""
FIRST_SECONDS = 5.0
"""Seconds for which a service that starts leaves the creation of the streams to the set-up step."""
WAITING_INTERVAL = 10.0
"""Seconds between two warnings of a service that waits for the streams."""
CHECK = 1.0
"""Seconds between two checks of the set-up step that keeps the streams."""
CHECK_FAILED = Backoff(CHECK, WAITING_INTERVAL)
"""Seconds until the next check after one that failed."""
CONSUMER_SECONDS = 60.0
"""Seconds without a reader after which nats-server deletes a consumer, of any user. The number of consumers has no
bound: a user that reached it would stop the services from reading."""
_NAME_IN_USE = 10058
DAY = 24 * 3600.0

_OPTIONS: dict[Stream, dict[str, Any]] = {
    Stream.CLUSTER: {"subjects": ["cluster.>"], "max_msgs_per_subject": 1},
    # No limits of age or size: only services remove claims from the ledger.
    Stream.LEDGER: {"subjects": ["ledger.>"], "max_msgs_per_subject": 1},
    Stream.OUTCOME: {"subjects": ["outcome.>"], "max_msgs_per_subject": 1},
    Stream.EXPLAIN: {"subjects": ["explain.>"], "max_msgs_per_subject": 1},
    Stream.EVENT: {"subjects": ["event.>"], "max_age": DAY, "max_bytes": 1 << 28},
}


async def make_streams(connection: Connection, replicas: int = 1, hold: float = 0.0) -> None:
    """Create the missing streams; existing ones are not changed.

    ``hold``: seconds for which a new LEDGER is held; 0 where no service has ever run.
    """
    for stream, options in _OPTIONS.items():
        metadata = {HOLD: str(hold)} if hold and stream is Stream.LEDGER else None
        await make_stream(connection, stream, metadata, num_replicas=replicas, **options)


async def make_stream(
    connection: Connection, name: str, metadata: Mapping[str, str] | None = None, **options: Any
) -> None:
    """Create a stream with a new epoch, unless a stream with this name exists, which is not changed."""
    try:
        await connection.jetstream.stream_info(name)
        return
    except NotFoundError:
        pass
    log.info("creating stream %s", name)
    config = StreamConfig(
        name=name,
        storage=StorageType.FILE,
        allow_direct=True,
        allow_atomic=True,
        allow_msg_ttl=True,
        consumer_limits=StreamConsumerLimits(inactive_threshold=CONSUMER_SECONDS),
        metadata={EPOCH: secrets.token_hex(8), **(metadata or {})},
        **options,
    )
    try:
        await connection.jetstream.add_stream(config)
    except BadRequestError as error:
        # Another process created it at the same time, with another epoch.
        if error.err_code != _NAME_IN_USE:
            raise


async def wait_for_streams(connection: Connection) -> None:
    """Wait until every stream exists."""
    for stream in Stream:
        await connection.repeat(
            partial(connection.jetstream.stream_info, stream), f"stream {stream} does not exist yet"
        )


async def ensure_streams(connection: Connection, replicas: int, hold: float, patience: float = 0.0) -> None:
    """Wait until every stream exists; create the streams that are missing after ``patience`` seconds.

    Repeated without end, with a back-off, while the server does not create them. On a bus with users the set-up step
    alone creates streams: this waits for it.
    """
    if not connection.creates_streams:
        await _wait_for_setup(connection)
        return
    try:
        async with asyncio.timeout(patience):
            await wait_for_streams(connection)
            return
    except TimeoutError:
        pass
    create = partial(make_streams, connection, replicas, hold)
    await connection.repeat(create, "cannot create the streams", logging.WARNING)


async def _wait_for_setup(connection: Connection) -> None:
    waiting = asyncio.ensure_future(wait_for_streams(connection))
    try:
        await asyncio.wait({waiting}, timeout=FIRST_SECONDS)
        while not waiting.done():
            log.warning("streams do not exist: waiting for the set-up step, which alone may create them")
            await asyncio.wait({waiting}, timeout=WAITING_INTERVAL)
        await waiting
    finally:
        await end(waiting)


async def keep_streams(connection: Connection, replicas: int, hold: float) -> None:
    """Create streams that are missing, also those that vanish later, until cancelled."""
    failures = 0
    while True:
        try:
            await make_streams(connection, replicas, hold)
            failures = 0
        except (NatsError, OSError) as error:
            log.warning("cannot create the streams: %r", error)
            failures += 1
        await asyncio.sleep(CHECK_FAILED.delay(failures - 1) if failures else CHECK)
        await connection.wait_connected()
