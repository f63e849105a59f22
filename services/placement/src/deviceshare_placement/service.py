"""The placement service: its core follows CLUSTER, LEDGER and OUTCOME, and writes LEDGER and EXPLAIN."""

import secrets
from typing import Any

from deviceshare_bus.cores.core import Event
from deviceshare_bus.cores.division import of_replicas
from deviceshare_bus.messages.codec import Message, decode_fact
from deviceshare_bus.messages.known_items import LEDGERS, OUTCOMES
from deviceshare_bus.messages.leases import decode_fence, decode_lease
from deviceshare_bus.messages.subjects import FACT_KINDS, Address, Stream
from deviceshare_bus.messages.validation import Decoders, validated
from deviceshare_bus.runtime.service import Context
from deviceshare_bus.runtime.shell import Shell, Source
from deviceshare_bus.streams.bounded_stream import BoundedStream

from deviceshare_placement.core import FactReceived, LedgerReceived, OutcomesReceived, PlacementCore, build_core
from deviceshare_placement.core.publishing import EXPLANATION_BYTES, MAX_EXPLANATIONS

_DECODERS: Decoders = {
    **dict.fromkeys((*FACT_KINDS, "synced"), decode_fact),
    "ledger": LEDGERS,
    "lease": decode_lease,
    "fence": decode_fence,
    "outcome": OUTCOMES,
}


def _event(message: Message, where: Address, content: Any) -> Event | None:
    match where.kind:
        case "ledger":
            return LedgerReceived(where.key, message.sequence, content)
        case "lease" | "fence":
            return of_replicas("placement", content)
        case "outcome":
            return OutcomesReceived(where.key, content)
    return FactReceived(message.subject, content, message.sequence)


decode = validated(_DECODERS, _event)
"""Returns the event of a message. Raises ``InvalidMessageError``."""


def sources(core: PlacementCore) -> list[Source]:
    """Return the streams that placement follows."""
    return [
        Source(Stream.CLUSTER, decode, known=core.knows_fact),
        Source(Stream.LEDGER, decode, known=core.knows_ledger),
        Source(Stream.OUTCOME, decode),
    ]


async def main(context: Context) -> None:
    """Run the placement service."""
    member = f"{context.instance}-{secrets.token_hex(8)}"
    arguments = {"instance": context.instance, "claim_prefix": member, "divided": True}
    core = build_core(arguments)
    context.hindrance = lambda: core.obstacle
    if context.watch is not None:
        # Lost answers are decided, and written, again.
        context.watch.rewritten[Stream.EXPLAIN] = lambda: core.scheduler.has_explained
    explanations = BoundedStream(
        context.connection, Stream.EXPLAIN, MAX_EXPLANATIONS, EXPLANATION_BYTES,
        lambda: context.events.count("explanations_dropped"),
    )  # fmt: skip
    await Shell(context, core, sources(core), arguments=arguments).run(explanations.run(lambda: core.owns_expiry))
