"""Running a service: connection, logs, traces, health endpoint and status, shutdown on SIGTERM, restart on a wiped bus.

A service is an async function that takes a :class:`Context` and runs until it is cancelled. It has no durable state:
after a failure the process ends and its supervisor restarts it; after the bus was wiped, the function is called again.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from deviceshare.model import ConfigError
from nats.errors import Error as NatsError

from deviceshare_bus.cores.core import Now
from deviceshare_bus.messages.codec import Status, encode
from deviceshare_bus.messages.permissions import FORWARDED, INBOXES
from deviceshare_bus.messages.subjects import Stream, status
from deviceshare_bus.runtime.eventlog import EventLog
from deviceshare_bus.runtime.garbage import collect_when_idle, rarely_collect
from deviceshare_bus.runtime.logs import set_up_logs
from deviceshare_bus.runtime.options import log_level, port, replicas, seconds
from deviceshare_bus.runtime.plugins import load_families
from deviceshare_bus.runtime.service_metrics import ServiceMetrics
from deviceshare_bus.runtime.tracing import NO_TRACING, Tracing
from deviceshare_bus.streams.creation import FIRST_SECONDS, HOLD_SECONDS, ensure_streams
from deviceshare_bus.streams.follower import BusWiped, Follower
from deviceshare_bus.streams.publisher import Publisher
from deviceshare_bus.streams.stream_watch import StreamWatch
from deviceshare_bus.web import (
    Access,
    HealthChecks,
    Reviewer,
    Reviews,
    Serving,
    add_http_options,
    health_app,
    http_settings,
    serve,
)
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.credentials import add_options, of_options
from deviceshare_bus.wire.framing import Received
from deviceshare_bus.wire.tasks import end, find_error

log = logging.getLogger("deviceshare.service")

COUNT_INTERVAL = 1.0
"""Seconds between two counts of failed writes."""


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
    tracing: Tracing = NO_TRACING
    metrics: ServiceMetrics = field(default_factory=lambda: ServiceMetrics("", ""))
    followers: dict[str, Follower] = field(default_factory=dict)
    open_work: Callable[[], int] = lambda: 0
    """How many decisions, writes or bindings are under way; the service sets it."""
    revision: Callable[[], int] = lambda: 0
    """Inventory: the cluster's revision up to which everything is on the bus."""
    hindrance: Callable[[], str] = str
    """Why another process keeps the service from its work, '' if none does."""
    detail: Callable[[], dict[str, int]] = dict
    """Further numbers in the status, for diagnosis."""
    reviews: Reviews | None = None
    """Asks the API server about users of the HTTP ports, if ``--http-access kubernetes`` is given."""
    dump_core_log: Callable[[], Path | None] | None = None
    """Writes the core log to a file and returns its path; the shell sets it."""

    hold: float = 0.0
    """Seconds before LEDGER counts as read to its end: bindings of claims that were lost may be in flight."""
    watch: StreamWatch | None = None
    """Watches the streams that the service does not follow."""

    def follow(self, stream: str, *, history: bool = False) -> Follower:
        """Return a follower of a whole stream, whose position the service's status shows."""
        hold = self.hold if stream == Stream.LEDGER else 0.0
        self.followers[stream] = follower = Follower(self.connection, stream, history=history, hold=hold)
        return follower

    @property
    def obstacle(self) -> str:
        """Why the service cannot do its work right now, '' if it can.

        It can if the bus is connected, all streams exist, those that it follows have been read to their ends and no
        further behind than :data:`deviceshare_bus.streams.follower.LAG`, its last writes were acknowledged, and no
        other replica holds it up.
        """
        if not self.connection.connected:
            return "not connected to the bus"
        if not self.followers:
            return "the bus has not been read yet"
        found = [follower.obstacle for follower in self.followers.values()]
        found.append(self.watch.obstacle if self.watch is not None else "")
        found += (self.publisher.obstacle, self.hindrance())
        return next((obstacle for obstacle in found if obstacle), "")

    @property
    def ready(self) -> bool:
        """Whether the service can do its work right now."""
        return not self.obstacle

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
OpenReviewer = Callable[[], AbstractAsyncContextManager[Reviewer]]
"""Opens a connection to the API server, to ask it about users of the HTTP ports."""


def parser(service: str) -> argparse.ArgumentParser:
    """Return the options that every service has; each has an environment variable for containers."""
    options = argparse.ArgumentParser(prog=f"deviceshare-{service}")
    environment = os.environ.get
    options.add_argument(
        "--bus", default=environment("DEVICESHARE_BUS", "nats://127.0.0.1:4222"), help="NATS URL of the bus"
    )
    add_options(options)
    options.add_argument(
        "--instance",
        default=environment("DEVICESHARE_INSTANCE", ""),
        help="name of this replica, one of its own for each that runs; with the same name after a restart it takes "
        f"over at once (default: {service}- and a random number)",
    )
    options.add_argument(
        "--bus-replicas",
        type=replicas,
        default=environment("DEVICESHARE_BUS_REPLICAS", "1"),
        help="servers that hold each stream (1, 3 or 5), for streams that are missing and are created (default: 1)",
    )
    options.add_argument(
        "--bus-hold",
        type=seconds,
        default=environment("DEVICESHARE_BUS_HOLD", f"{HOLD_SECONDS:g}"),
        help="seconds before decisions begin after a loss of the bus's data, since bindings may be in flight "
        "(default: %(default)s)",
    )
    options.add_argument(
        "--bus-storage",
        type=int,
        default=int(environment("DEVICESHARE_BUS_STORAGE", "0")),
        metavar="BYTES",
        help="what nats-server may store (max_file_store), for the metrics (default: 0, the limit of its account)",
    )
    options.add_argument(
        "--health-address",
        default=environment("DEVICESHARE_HEALTH_ADDRESS", "127.0.0.1"),
        help="address of /healthz, /readyz and /metrics",
    )
    options.add_argument(
        "--health-port",
        type=port,
        default=environment("DEVICESHARE_HEALTH_PORT", "0"),
        help="port of /healthz, /readyz and /metrics, 0 for any",
    )
    add_http_options(options)
    options.add_argument(
        "--log-level",
        type=log_level,
        default=environment("DEVICESHARE_LOG_LEVEL", "info"),
        help="debug, info, warning or error",
    )
    return options


def run(service: str, main: Main, options: argparse.Namespace, reviewer: OpenReviewer | None = None) -> None:
    """Run a service until SIGTERM or SIGINT; ends the process with status 1 after a failure.

    The device families of other packages are known from then on. ``reviewer``: for ``--http-access kubernetes``; None
    if the service has no access to an API server.
    """
    instance = options.instance or f"{service}-{secrets.token_hex(3)}"
    set_up_logs(service, instance, options.log_level)
    try:
        load_families()
    except ConfigError as error:
        log.error("%s", error)
        sys.exit(1)
    rarely_collect()
    sys.exit(uvloop.run(_run(service, instance, main, options, reviewer)))


async def _run(
    service: str, instance: str, main: Main, options: argparse.Namespace, reviewer: OpenReviewer | None
) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)
    state = ServiceState(options.bus_replicas, options.bus_hold)
    loop.add_signal_handler(signal.SIGUSR1, state.dump)
    work = asyncio.create_task(_with_reviews(service, instance, main, options, state, reviewer))
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


class ServiceState:
    """The context of the current epoch, None while there is none.

    ``replicas``: servers that hold each stream that is created. ``hold``: seconds for which a ledger that replaces a
    lost one is held.
    """

    def __init__(self, replicas: int = 1, hold: float = HOLD_SECONDS) -> None:
        self.replicas = replicas
        self.hold = hold
        self.context: Context | None = None
        self.reviews: Reviews | None = None

    @property
    def ready_context(self) -> Context | None:
        """The context once its state has been read, None before."""
        return self.context if self.context is not None and self.context.ready else None

    def dump(self) -> None:
        """Write the core log to a file; :meth:`.shell.Shell.dump` logs its path."""
        context = self.context
        if context is not None and context.dump_core_log is not None:
            context.dump_core_log()


async def _with_reviews(
    service: str,
    instance: str,
    main: Main,
    options: argparse.Namespace,
    state: ServiceState,
    reviewer: OpenReviewer | None,
) -> None:
    """Serve with a connection to the API server if the HTTP ports need one. Raises ConfigError."""
    async with AsyncExitStack() as stack:
        if options.http_access == "kubernetes":
            if reviewer is None:
                raise ConfigError(
                    service, "--http-access", "kubernetes", "secret or open: there is no API server to ask"
                )
            state.reviews = Reviews(await stack.enter_async_context(reviewer()))
        await _serve(service, instance, main, options, state)


async def _serve(service: str, instance: str, main: Main, options: argparse.Namespace, state: ServiceState) -> None:
    tracing = Tracing(service, instance)
    metrics = ServiceMetrics(service, instance, options.bus_storage)
    # Before the connection, which waits for the bus without a time limit.
    health = await _start_health(state, options, metrics)
    measuring = asyncio.create_task(metrics.measure_lag())
    collecting = asyncio.create_task(collect_when_idle(lambda: state.ready_context))
    connection = await connect(options.bus, instance, credentials=of_options(options, service))
    connection.on_reconnect(metrics.reconnected)
    publisher = Publisher(connection)

    def answer(message: Received) -> None:
        # A request must not choose what this user writes to a stream.
        if state.context is not None and message.reply.startswith((f"{INBOXES}.", f"{FORWARDED}.")):
            with contextlib.suppress(NatsError):  # the connection is lost
                connection.client.send(message.reply, encode(state.context.status()))

    connection.listen(status(service), answer)

    def begin(watch: StreamWatch, hold: float) -> Context:
        events = EventLog(publisher, service, instance, metrics)
        return Context(
            service,
            instance,
            options,
            connection,
            publisher,
            events,
            tracing=tracing,
            metrics=metrics,
            hold=hold,
            watch=watch,
            reviews=state.reviews,
        )

    try:
        await run_epochs(connection, main, begin, state)
    finally:
        if state.context is not None:
            await state.context.events.flush()
            await publisher.drain()
        await connection.close()
        await health.cleanup()
        await end(measuring, collecting)
        tracing.close()


async def run_epochs(
    connection: Connection, main: Main, begin: Callable[[StreamWatch, float], Context], state: ServiceState
) -> None:
    """Run a service, and again after the bus was wiped.

    ``begin`` returns the context of an epoch from its watch of the streams and the seconds for which LEDGER is held.
    """
    patience, hold = FIRST_SECONDS, 0.0
    while True:
        await ensure_streams(connection, state.replicas, state.hold, patience)
        watch = StreamWatch(connection, state.replicas, state.hold)
        context = state.context = begin(watch, hold)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(context.events.run())
                group.create_task(watch.run(context.followers))
                group.create_task(_count_failures(context))
                group.create_task(main(context))
        except* BusWiped as wiped:
            state.context = None
            log.warning("the bus was wiped, starting again: %s", find_error(wiped, BusWiped))
            patience, hold = 0.0, state.hold
        else:
            return


async def _count_failures(context: Context) -> None:
    """Count the writes that nats-server did not acknowledge, and those for which it had no room."""
    publisher = context.publisher
    no_room, unacknowledged = publisher.no_room, publisher.unacknowledged
    while True:
        await asyncio.sleep(COUNT_INTERVAL)
        if (failed := publisher.no_room) > no_room:
            context.events.count("bus_writes_without_room", failed - no_room)
            no_room = failed
        if (failed := publisher.unacknowledged) > unacknowledged:
            context.events.count("bus_writes_unacknowledged", failed - unacknowledged)
            unacknowledged = failed


async def _start_health(state: ServiceState, options: argparse.Namespace, metrics: ServiceMetrics) -> Serving:
    def obstacle() -> str:
        now = state.context
        return now.obstacle if now is not None else "waiting for the bus and its streams"

    settings = http_settings(options, options.health_address, "--health-address")
    checks = HealthChecks(
        alive=lambda: (now := state.context) is not None and now.connection.connected,
        obstacle=obstacle,
    )
    app = health_app(checks, lambda accept: metrics.expose(state.context, accept), Access(settings, state.reviews))
    serving = await serve(app, options.health_address, options.health_port, "--health-port")
    log.info("serving health and metrics", extra={"addresses": [f"http://{at}:{on}" for at, on in serving.addresses]})
    return serving
