"""The running service: five streams into one core, an HTTP server over its state."""

import asyncio
import logging
from typing import Any

from deviceshare_bus.core import Event
from deviceshare_bus.follower import Message
from deviceshare_bus.messages import decode_events, decode_explanation, decode_ledger, decode_outcomes
from deviceshare_bus.service import Context, real_time
from deviceshare_bus.shell import Shell, Source
from deviceshare_bus.subjects import FACT_KINDS, Address, Stream
from deviceshare_bus.validation import validated

from deviceshare_metrics.core import build_core
from deviceshare_metrics.core.events import (
    ExplanationReceived,
    FactReceived,
    LedgerReceived,
    OutcomesReceived,
    StepsReceived,
)
from deviceshare_metrics.core.facts import decode_fact
from deviceshare_metrics.server import Server, serve

log = logging.getLogger("deviceshare.metrics")

_DECODERS = dict.fromkeys((*FACT_KINDS, "synced"), decode_fact) | {
    "ledger": decode_ledger,
    "outcome": decode_outcomes,
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
    server = Server(
        core,
        lambda: context.connection.connected,
        lambda: context.metrics.own_families(context),
        options.metrics_detail,
    )
    recording = asyncio.create_task(server.dashboard.record(lambda: real_time().wall))
    runner = await serve(server.app(), options.metrics_address, options.metrics_port)
    log.info("serving", extra={"addresses": [f"http://{host}:{port}" for host, port, *_ in runner.addresses]})
    try:
        await Shell(context, core, SOURCES, arguments=arguments).run()
    finally:
        recording.cancel()
        await runner.cleanup()
