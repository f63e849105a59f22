"""The placement service: its core follows CLUSTER, LEDGER and OUTCOME, and writes LEDGER and EXPLAIN."""

import secrets

from deviceshare_bus.follower import Message
from deviceshare_bus.messages import decode_fact, decode_ledger, decode_outcomes
from deviceshare_bus.service import Context
from deviceshare_bus.shell import Shell, Source
from deviceshare_bus.subjects import Stream, node_of

from deviceshare_placement.core import FactReceived, LedgerReceived, OutcomesReceived, PlacementCore, build_core


def _fact(message: Message) -> FactReceived:
    return FactReceived(message.subject, decode_fact(message.data))


def _ledger(message: Message) -> LedgerReceived:
    return LedgerReceived(node_of(message.subject), message.sequence, decode_ledger(message.data))


def _outcomes(message: Message) -> OutcomesReceived:
    return OutcomesReceived(node_of(message.subject), decode_outcomes(message.data))


def sources(core: PlacementCore) -> list[Source]:
    """Return the streams that placement follows."""
    return [
        Source(Stream.CLUSTER, _fact),
        Source(Stream.LEDGER, _ledger, known=core.knows_ledger),
        Source(Stream.OUTCOME, _outcomes),
    ]


async def main(context: Context) -> None:
    """Run the placement service."""
    arguments = {"instance": context.instance, "claim_prefix": f"{context.instance}-{secrets.token_hex(8)}"}
    core = build_core(arguments)
    await Shell(context, core, sources(core), arguments=arguments).run()
