"""The running service: five streams into one core, an HTTP server over its state."""

import asyncio
import logging
from typing import Any

from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.runtime.service import Context, real_time
from deviceshare_bus.runtime.shell import Shell, Source
from deviceshare_bus.web import Access, Sessions, http_settings

from deviceshare_metrics.core import build_core
from deviceshare_metrics.core.events import StepsReceived
from deviceshare_metrics.decoding import decode
from deviceshare_metrics.server import Server, serve

log = logging.getLogger("deviceshare.metrics")

READ_INTERVAL = 0.05
"""Seconds by which what is shown may be late, so that messages that arrive one at a time are read some at once."""

SOURCES = tuple(Source(stream, decode, history=stream is Stream.EVENT) for stream in Stream)


async def main(context: Context) -> None:
    """Follow the streams and serve until cancelled."""
    arguments: dict[str, Any] = {}
    core, options = build_core(arguments), context.options
    store = core.store
    context.detail = lambda: {"nodes": len(store.nodes), "pods": len(store.pods)}
    tracing = context.tracing
    # Not the method itself: a copy of the tallies would copy its object.
    core.tallies.sampled = lambda uid: tracing.sampled(uid)
    settings = http_settings(options, options.metrics_address, "--metrics-address")
    server = Server(
        core,
        lambda: context.connection.connected,
        lambda: context.metrics.own_families(context),
        options.metrics_detail,
        Access(settings, context.reviews, Sessions()),
        lambda: context.obstacle,
    )
    recording = asyncio.create_task(server.dashboard.record(lambda: real_time().wall))
    runner = await serve(server.app(), options.metrics_address, options.metrics_port)
    log.info("serving", extra={"addresses": [f"http://{host}:{port}" for host, port, *_ in runner.addresses]})
    shell = Shell(context, core, SOURCES, arguments=arguments, read_interval=READ_INTERVAL)
    # Metrics writes nothing on the bus: it alone shows what it finds invalid.
    context.events.keep = lambda events: shell.post(StepsReceived(events))
    try:
        await shell.run()
    finally:
        recording.cancel()
        await runner.cleanup()
