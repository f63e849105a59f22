"""Running a service: connection, logs, traces, health endpoint and status, shutdown on SIGTERM, restart on a wiped bus.

A service is an async function that takes a :class:`Context` and runs until it is cancelled. It has no durable state:
after a failure the process ends and its supervisor restarts it; after the bus was wiped, the function is called again.
"""

import argparse
import asyncio
import gc
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web
from deviceshare.model import ConfigError
from nats.aio.msg import Msg

from deviceshare_bus.connection import Connection, connect
from deviceshare_bus.core import Now
from deviceshare_bus.eventlog import EventLog
from deviceshare_bus.follower import BusWiped, Follower
from deviceshare_bus.logs import set_up_logs
from deviceshare_bus.messages import Status, encode
from deviceshare_bus.plugins import load_families
from deviceshare_bus.publisher import Publisher
from deviceshare_bus.setup import wait_for_streams
from deviceshare_bus.subjects import status
from deviceshare_bus.tasks import end, find_error
from deviceshare_bus.tracing import Tracing

log = logging.getLogger("deviceshare.service")

GARBAGE = 50_000
"""Allocated objects between two runs of the garbage collector (generation 0)."""


def real_time() -> Now:
    """Return the time of both clocks."""
    return Now(time.monotonic(), time.time())


@dataclass
class Context:
    """The resources of a running service: its connection, and readers and writers on it."""

    service: str
    instance: str
    options: argparse.Namespace
    connection: Connection
    publisher: Publisher
    events: EventLog
    clock: Callable[[], Now] = real_time
    followers: dict[str, Follower] = field(default_factory=dict)
    open_work: Callable[[], int] = lambda: 0
    """How many decisions, writes or bindings are under way; the service sets it."""
    revision: Callable[[], int] = lambda: 0
    """Inventory: the cluster's revision up to which everything is on the bus."""
    detail: Callable[[], dict[str, int]] = dict
    """Further numbers in the status, for diagnosis."""
    dump_core_log: Callable[[], Path] | None = None
    """Writes the core log to a file and returns its path; the shell sets it."""

    def follow(self, stream: str, *, history: bool = False) -> Follower:
        """Return a follower of a whole stream, whose position the service's status shows."""
        self.followers[stream] = follower = Follower(self.connection, stream, history=history)
        return follower

    @property
    def ready(self) -> bool:
        """Whether every stream that the service reads has been read to its end once."""
        return bool(self.followers) and all(follower.caught_up for follower in self.followers.values())

    def status(self) -> Status:
        """The positions and the open work of the service."""
        return Status(
            service=self.service,
            instance=self.instance,
            positions={stream: follower.position for stream, follower in self.followers.items()},
            revision=self.revision(),
            # The open work is unknown until the service reads its streams.
            open=self.open_work() if self.followers else 1,
            detail=self.detail(),
        )


Main = Callable[[Context], Coroutine[Any, Any, None]]


def parser(service: str) -> argparse.ArgumentParser:
    """Return the options that every service has; each has an environment variable for containers."""
    options = argparse.ArgumentParser(prog=f"deviceshare-{service}")
    environment = os.environ.get
    options.add_argument(
        "--bus", default=environment("DEVICESHARE_BUS", "nats://127.0.0.1:4222"), help="NATS URL of the bus"
    )
    options.add_argument(
        "--health-address",
        default=environment("DEVICESHARE_HEALTH_ADDRESS", "127.0.0.1"),
        help="address of /healthz",
    )
    options.add_argument(
        "--health-port",
        type=int,
        default=int(environment("DEVICESHARE_HEALTH_PORT", "0")),
        help="port of /healthz, 0 for any",
    )
    options.add_argument(
        "--log-level",
        default=environment("DEVICESHARE_LOG_LEVEL", "info"),
        help="debug, info, warning or error",
    )
    return options


def run(service: str, main: Main, options: argparse.Namespace) -> None:
    """Run a service until SIGTERM or SIGINT; ends the process with status 1 after a failure.

    The device families of other packages are known from then on.
    """
    instance = f"{service}-{secrets.token_hex(3)}"
    set_up_logs(service, instance, options.log_level)
    try:
        load_families()
    except ConfigError as error:
        log.error("%s", error)
        sys.exit(1)
    # Imported objects are never freed. Decoded messages are many and rarely form reference cycles.
    gc.freeze()
    gc.set_threshold(GARBAGE)
    sys.exit(uvloop.run(_run(service, instance, main, options)))


async def _run(service: str, instance: str, main: Main, options: argparse.Namespace) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)
    state = _State()
    loop.add_signal_handler(signal.SIGUSR1, state.dump)
    work = asyncio.create_task(_serve(service, instance, main, options, state))
    stop = asyncio.create_task(stopping.wait())
    await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
    failed = work.done()
    await end(work, stop)
    if failed and (error := work.exception()) is not None:
        if (wrong := find_error(error, ConfigError)) is not None:
            log.error("%s", wrong)
            return 1
        log.error("the service failed: %r", error, exc_info=error)
        return 1
    log.info("stopped")
    return 0


class _State:
    """The context of the current epoch, None while there is none."""

    context: Context | None = None

    def dump(self) -> None:
        """Write the core log to a file and log its path."""
        context = self.context
        if context is not None and context.dump_core_log is not None:
            log.warning("the core log was written to %s", context.dump_core_log())


async def _serve(service: str, instance: str, main: Main, options: argparse.Namespace, state: _State) -> None:
    tracing = Tracing(service, instance)
    connection = await connect(options.bus, instance)
    publisher = Publisher(connection)

    async def answer(message: Msg) -> None:
        if state.context is not None:
            await message.respond(encode(state.context.status()))

    await connection.subscribe(status(service), answer)
    health = await _start_health(state, options)

    def begin() -> Context:
        events = EventLog(publisher, tracing, service, instance)
        state.context = Context(service, instance, options, connection, publisher, events)
        return state.context

    try:
        await run_epochs(connection, main, begin)
    finally:
        if state.context is not None:
            await state.context.events.flush()
        await connection.close()
        await health.cleanup()
        tracing.close()


async def run_epochs(connection: Connection, main: Main, begin: Callable[[], Context]) -> None:
    """Run a service, and again after the bus was wiped; ``begin`` makes the context of an epoch."""
    while True:
        await wait_for_streams(connection)
        context = begin()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(context.events.run())
                group.create_task(main(context))
        except* BusWiped as wiped:
            log.warning("the bus was wiped, starting again: %s", wiped.exceptions[0])
        else:
            return


async def _start_health(state: _State, options: argparse.Namespace) -> web.AppRunner:
    """Serve ``/healthz`` (the bus is reachable) and ``/readyz`` (all streams have been read to their end once)."""

    async def healthz(_: web.Request) -> web.Response:
        now = state.context
        alive = now is not None and now.connection.connected
        return web.Response(text="ok" if alive else "not connected to the bus", status=200 if alive else 503)

    async def readyz(_: web.Request) -> web.Response:
        now = state.context
        ready = now is not None and now.ready
        return web.Response(text="ok" if ready else "still reading the bus", status=200 if ready else 503)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, options.health_address, options.health_port).start()
    return runner
