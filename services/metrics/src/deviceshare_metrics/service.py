"""The running service: five streams into one core, an HTTP server over its state."""

import logging
from typing import Any

from deviceshare_bus.messages import decode_events, decode_explanation, decode_ledger, decode_outcomes
from deviceshare_bus.service import Context
from deviceshare_bus.shell import Shell, Source
from deviceshare_bus.subjects import Stream

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

SOURCES = (
    Source(Stream.CLUSTER, lambda message: FactReceived(message.subject, decode_fact(message.data))),
    Source(Stream.LEDGER, lambda message: LedgerReceived(message.subject, decode_ledger(message.data))),
    Source(Stream.OUTCOME, lambda message: OutcomesReceived(message.subject, decode_outcomes(message.data))),
    Source(Stream.EXPLAIN, lambda message: ExplanationReceived(decode_explanation(message.data))),
    Source(Stream.EVENT, lambda message: StepsReceived(decode_events(message.data)), history=True),
)


async def main(context: Context) -> None:
    """Follow the streams and serve until cancelled."""
    arguments: dict[str, Any] = {}
    core, options = build_core(arguments), context.options
    store = core.store
    context.detail = lambda: {"nodes": len(store.nodes), "pods": len(store.pods)}
    server = Server(core, connected=lambda: context.connection.connected)
    runner = await serve(server.app(), options.metrics_address, options.metrics_port)
    log.info("serving", extra={"addresses": [f"http://{host}:{port}" for host, port, *_ in runner.addresses]})
    try:
        await Shell(context, core, SOURCES, arguments=arguments).run()
    finally:
        await runner.cleanup()
