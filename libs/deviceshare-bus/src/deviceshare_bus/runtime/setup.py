"""The set-up step, a command that creates the streams (:mod:`deviceshare_bus.streams.creation`).

``python -m deviceshare_bus.runtime.setup --bus URL [--replicas N]`` creates the missing streams, and with ``--watch``
also those that vanish later. On a bus without users every service does the same when it finds that a stream is missing.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence

from deviceshare.model import ConfigError

from deviceshare_bus.runtime.logs import set_up_logs
from deviceshare_bus.runtime.options import replicas, seconds
from deviceshare_bus.streams.creation import HOLD_SECONDS, keep_streams, make_streams
from deviceshare_bus.wire.connection import connect
from deviceshare_bus.wire.credentials import ANONYMOUS, Credentials, add_options, of_options

log = logging.getLogger("deviceshare.setup")


def default_hold() -> float:
    """Return the seconds for which a new LEDGER is held: of the environment, else :data:`HOLD_SECONDS`."""
    return seconds(os.environ.get("DEVICESHARE_BUS_HOLD", f"{HOLD_SECONDS:g}"))


def parser() -> argparse.ArgumentParser:
    """Return the options of the set-up step."""
    options = argparse.ArgumentParser(prog="deviceshare-setup", description="Create the streams of the bus.")
    options.add_argument(
        "--bus", default=os.environ.get("DEVICESHARE_BUS", "nats://127.0.0.1:4222"), help="NATS URL of the bus"
    )
    options.add_argument(
        "--replicas", type=replicas, default=1, help="servers that hold each stream: 1, 3 or 5 (default: 1)"
    )
    options.add_argument(
        "--hold",
        type=seconds,
        default=os.environ.get("DEVICESHARE_BUS_HOLD", f"{HOLD_SECONDS:g}"),
        help="seconds before decisions begin on a new LEDGER, since bindings of a lost one may be in flight; "
        "0 where no service has run yet (default: %(default)s)",
    )
    options.add_argument(
        "--watch",
        action="store_true",
        default=os.environ.get("DEVICESHARE_BUS_SETUP_WATCH", "") in ("1", "true"),
        help="do not end, and create streams again that vanish: needed on a bus with users, whose services may not",
    )
    add_options(options)
    return options


async def set_up(
    url: str,
    replicas: int = 1,
    hold: float = 0.0,
    *,
    credentials: Credentials = ANONYMOUS,
    watch: bool = False,
) -> None:
    """Connect, wait for the server without a time limit, and create the streams; with ``watch`` keep them."""
    connection = await connect(url, "setup", credentials=credentials)
    try:
        if watch:
            await keep_streams(connection, replicas, hold)
        else:
            await make_streams(connection, replicas, hold)
    finally:
        await connection.close()


async def _run(options: argparse.Namespace) -> None:
    """Run the set-up step until it is done, or SIGTERM."""
    credentials = of_options(options, "setup")
    work = asyncio.ensure_future(
        set_up(options.bus, options.replicas, options.hold, credentials=credentials, watch=options.watch)
    )
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, work.cancel)
    await asyncio.wait({work})
    if not work.cancelled():
        work.result()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the set-up step as a command."""
    options = parser().parse_args(arguments)
    set_up_logs("setup", "setup", "info")
    try:
        asyncio.run(_run(options))
    except ConfigError as error:
        log.error("%s", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
