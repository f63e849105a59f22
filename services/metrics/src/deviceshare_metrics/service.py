"""The running service: five streams into one core, an HTTP server over its state."""

import asyncio
import logging
from typing import Any

from deviceshare_bus.cores.core import Event
from deviceshare_bus.messages.codec import Message, decode_events, decode_explanation
from deviceshare_bus.messages.known_items import LEDGERS, OUTCOMES
from deviceshare_bus.messages.subjects import Address, Stream
from deviceshare_bus.messages.validation import Decoders, validated
from deviceshare_bus.runtime.service import Context, real_time
from deviceshare_bus.runtime.shell import Shell, Source
from deviceshare_bus.web import Access, Sessions, http_settings

from deviceshare_metrics.core import build_core
from deviceshare_metrics.core.events import (
    ExplanationReceived,
    FactReceived,
    LedgerReceived,
    OutcomesReceived,
    StepsReceived,
)
from deviceshare_metrics.core.facts import KINDS, decode_fact
from deviceshare_metrics.server import Server, serve

log = logging.getLogger("deviceshare.metrics")

READ_INTERVAL = 0.05
"""Seconds by which what is shown may be late, so that messages that arrive one at a time are read some at once."""

_DECODERS: Decoders = {
    **dict.fromkeys((*KINDS, "synced"), decode_fact),
    "ledger": LEDGERS,
    "outcome": OUTCOMES,
    "explain": decode_explanation,
    "event": decode_events,
}


def _event(message: Message, where: Address, content: Any) -> Event:
    match where.kind:
        case "ledger":
            return LedgerReceived(message.subject, content)
        case "outcome":
            return OutcomesReceived(message.subject, content)
        case "explain":
            return ExplanationReceived(message.subject, content)
        case "event":
            return StepsReceived(content)
    return FactReceived(message.subject, content)


decode = validated(_DECODERS, _event)
"""Returns the event of a message. Raises ``InvalidMessageError``."""

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
