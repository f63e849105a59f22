"""Decodes the messages of all streams into the events of the core."""

from typing import Any

from deviceshare_bus.cores.core import Event
from deviceshare_bus.messages.codec import Message, decode_events, decode_explanation
from deviceshare_bus.messages.known_items import LEDGERS, OUTCOMES
from deviceshare_bus.messages.subjects import Address
from deviceshare_bus.messages.validation import Decoders, validated

from deviceshare_metrics.core.events import (
    ExplanationReceived,
    FactReceived,
    LedgerReceived,
    OutcomesReceived,
    StepsReceived,
)
from deviceshare_metrics.core.facts import KINDS, decode_fact

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
