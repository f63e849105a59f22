"""Creating the streams, each with an epoch: a random id in its metadata, by which readers detect a wiped bus.

``python -m deviceshare_bus.setup --bus URL [--replicas N]`` creates the missing streams.
"""

import argparse
import asyncio
import logging
import os
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from deviceshare.model import ConfigError
from nats.js.api import StorageType, StreamConfig
from nats.js.errors import BadRequestError, NotFoundError

from deviceshare_bus.connection import Connection, connect
from deviceshare_bus.logs import set_up_logs
from deviceshare_bus.subjects import Stream

log = logging.getLogger("deviceshare.setup")

EPOCH = "epoch"
_NAME_IN_USE = 10058
DAY = 24 * 3600.0

_OPTIONS: dict[Stream, dict[str, Any]] = {
    Stream.CLUSTER: {"subjects": ["cluster.>"], "max_msgs_per_subject": 1},
    # No limits of age or size: only services remove claims from the ledger.
    Stream.LEDGER: {"subjects": ["ledger.>"], "max_msgs_per_subject": 1, "allow_atomic": True},
    Stream.OUTCOME: {"subjects": ["outcome.>"], "max_msgs_per_subject": 1},
    Stream.EXPLAIN: {"subjects": ["explain.>"], "max_msgs_per_subject": 1},
    Stream.EVENT: {"subjects": ["event.>"], "max_age": DAY, "max_bytes": 1 << 28},
}


async def make_streams(connection: Connection, replicas: int = 1) -> None:
    """Create the missing streams; existing ones are not changed."""
    for stream, options in _OPTIONS.items():
        await make_stream(connection, stream, num_replicas=replicas, **options)


async def make_stream(connection: Connection, name: str, **options: Any) -> None:
    """Create a stream with a new epoch, unless a stream with this name exists, which is not changed."""
    try:
        await connection.jetstream.stream_info(name)
        return
    except NotFoundError:
        pass
    config = StreamConfig(
        name=name,
        storage=StorageType.FILE,
        allow_direct=True,
        allow_msg_ttl=True,
        metadata={EPOCH: secrets.token_hex(8)},
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


def parser() -> argparse.ArgumentParser:
    """Return the options of the set-up step."""
    options = argparse.ArgumentParser(prog="deviceshare-setup", description="Create the streams of the bus.")
    options.add_argument(
        "--bus", default=os.environ.get("DEVICESHARE_BUS", "nats://127.0.0.1:4222"), help="NATS URL of the bus"
    )
    options.add_argument(
        "--replicas", type=int, default=1, choices=(1, 3, 5), help="servers that hold each stream (default: 1)"
    )
    return options


async def set_up(url: str, replicas: int = 1) -> None:
    """Connect, wait for the server without a time limit, and create the streams."""
    connection = await connect(url, "setup")
    try:
        await make_streams(connection, replicas)
    finally:
        await connection.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the set-up step as a command."""
    options = parser().parse_args(arguments)
    set_up_logs("setup", "setup", "info")
    try:
        asyncio.run(set_up(options.bus, options.replicas))
    except ConfigError as error:
        log.error("%s", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
