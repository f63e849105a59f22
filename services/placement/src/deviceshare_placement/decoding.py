"""Decodes the messages that placement follows into the events of its core."""

from typing import Any

from deviceshare_bus.cores.core import Event
from deviceshare_bus.cores.division import of_replicas
from deviceshare_bus.messages.codec import Message, decode_fact
from deviceshare_bus.messages.known_items import LEDGERS, OUTCOMES
from deviceshare_bus.messages.leases import decode_fence, decode_lease
from deviceshare_bus.messages.subjects import FACT_KINDS, Address
from deviceshare_bus.messages.validation import Decoders, validated

from deviceshare_placement.core import FactReceived, LedgerReceived, OutcomesReceived

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
