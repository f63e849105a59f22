"""The placement service: its core follows CLUSTER, LEDGER and OUTCOME, and writes LEDGER and EXPLAIN."""

import secrets

from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.runtime.service import Context
from deviceshare_bus.runtime.shell import Shell, Source
from deviceshare_bus.streams.bounded_stream import BoundedStream

from deviceshare_placement.core import PlacementCore, build_core
from deviceshare_placement.core.publishing import EXPLANATION_BYTES, MAX_EXPLANATIONS
from deviceshare_placement.decoding import decode


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
