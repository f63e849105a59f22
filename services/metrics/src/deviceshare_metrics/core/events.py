"""The events of the metrics core: one for each message of each stream."""

import msgspec
from deviceshare.model import Explanation, NodeLedger, NodeOutcomes
from deviceshare_bus.cores.core import CaughtUp, Event, ReadBack, Tick, Unreadable
from deviceshare_bus.messages.codec import Events

from deviceshare_metrics.core.facts import AnyFact


class FactReceived(Event, frozen=True):
    """A message of CLUSTER."""

    subject: str
    fact: AnyFact


class LedgerReceived(Event, frozen=True):
    """A message of LEDGER: all claims on one node."""

    subject: str
    ledger: NodeLedger

    @property
    def size(self) -> int:
        """The number of claims, at least 1."""
        return max(1, len(self.ledger.claims))


class OutcomesReceived(Event, frozen=True):
    """A message of OUTCOME: the outcomes of the claims on one node."""

    subject: str
    outcomes: NodeOutcomes

    @property
    def size(self) -> int:
        """The number of outcomes, at least 1."""
        return max(1, len(self.outcomes.outcomes))


class ExplanationReceived(Event, frozen=True):
    """A message of EXPLAIN."""

    subject: str
    explanation: Explanation


class StepsReceived(Event, frozen=True):
    """A message of EVENT: steps of pods, and what a service counted since its last message."""

    events: Events

    @property
    def size(self) -> int:
        """The number of steps, at least 1."""
        return max(1, len(self.events.steps))


decode_event = msgspec.msgpack.Decoder(
    FactReceived
    | LedgerReceived
    | OutcomesReceived
    | ExplanationReceived
    | StepsReceived
    | CaughtUp
    | ReadBack
    | Unreadable
    | Tick
).decode
