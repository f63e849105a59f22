"""The events of the placement core beside those of every core."""

import msgspec
from deviceshare.model import AnyFact, NodeLedger, NodeOutcomes
from deviceshare_bus.cores.core import CommonEvent, Event
from deviceshare_bus.cores.division import FenceReceived, LeaseReceived


class FactReceived(Event, frozen=True):
    """A message of CLUSTER: an object of the cluster as inventory sees it, or that it is gone."""

    subject: str
    fact: AnyFact
    sequence: int = 0


class LedgerReceived(Event, frozen=True):
    """A message of LEDGER: all claims on a node. The service's own writes arrive here as well."""

    node: str
    sequence: int
    ledger: NodeLedger

    @property
    def size(self) -> int:
        """The number of claims, at least 1."""
        return max(1, len(self.ledger.claims))


class OutcomesReceived(Event, frozen=True):
    """A message of OUTCOME: the outcomes of the claims on a node."""

    node: str
    outcomes: NodeOutcomes

    @property
    def size(self) -> int:
        """The number of outcomes, at least 1."""
        return max(1, len(self.outcomes.outcomes))


_PlacementEvent = FactReceived | LedgerReceived | LeaseReceived | FenceReceived | OutcomesReceived | CommonEvent

decode_event = msgspec.msgpack.Decoder(_PlacementEvent).decode
"""Decodes an event of a core log."""
