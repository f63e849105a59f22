"""Ledgers on their way to the bus: what was sent, what became of it, and what must be read before anything is decided.

A publication ends as written, in conflict (somebody else wrote first, nothing was written), refused (the server will
never take it) or unknown. What an unknown one charged stays charged until the ledgers have been read back.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from deviceshare.model import Claim, Explanation, NodeLedger

from deviceshare_placement.core.cluster_state import ClusterState
from deviceshare_placement.core.instructions import LedgerWrite, Publication
from deviceshare_placement.core.ledgers import Ledgers

Added = Mapping[str, Sequence[tuple[Claim, Explanation]]]
"""By node: new claims, each with what to tell of its pod once it is written."""


class _Flight(msgspec.Struct, frozen=True):
    publication: Publication
    explanations: tuple[Explanation, ...]


class PendingWrites:
    """Publications under way."""

    def __init__(self, cluster: ClusterState, ledgers: Ledgers) -> None:
        self._cluster = cluster
        self._ledgers = ledgers
        self._under_way: dict[int, _Flight] = {}
        self._tokens = 0
        self._doubtful: defaultdict[str, list[Explanation]] = defaultdict(list)
        """What to tell of pods charged to a node by a write of which nobody knows whether it happened."""
        self.stale: set[str] = set()
        """Nodes whose ledger must be read before anything is decided."""

    @property
    def open(self) -> int:
        """How many publications and read-backs are under way."""
        return len(self._under_way) + len(self.stale)

    def start(self, nodes: Iterable[str], added: Added) -> Publication:
        """Return the publication of these nodes' ledgers as they should be."""
        writes = []
        explanations: list[Explanation] = []
        for node in sorted(nodes):
            record = self._cluster.ledger(node)
            new = added.get(node, ())
            claims = (*record.remaining(), *(claim for claim, _ in new))
            explanations += (explanation for _, explanation in new)
            writes.append(LedgerWrite(node, record.sequence, NodeLedger(node=node, claims=claims)))
        self._tokens += 1
        publication = Publication(self._tokens, tuple(writes))
        self._under_way[self._tokens] = _Flight(publication, tuple(explanations))
        return publication

    def written(self, token: int, last_sequence: int, now: float) -> tuple[Explanation, ...]:
        """Enter what was written; return what is to be told of the pods that it claims."""
        flight = self._under_way.pop(token)
        writes = flight.publication.writes
        for sequence, write in enumerate(writes, last_sequence - len(writes) + 1):
            self._ledgers.enter(write.node, sequence, write.ledger.claims, now)
        return flight.explanations

    def refused(self, token: int) -> tuple[Explanation, ...]:
        """Give back what a publication charged that was not written; return its pods' explanations."""
        flight = self._under_way.pop(token)
        self._still_due(flight)
        for explanation in flight.explanations:
            self._cluster.charge(explanation.node, explanation.uid)
        return flight.explanations

    def in_conflict(self, token: int) -> tuple[tuple[Explanation, ...], list[str]]:
        """Give back what was charged; return its pods' explanations and the nodes whose ledger must be read.

        Not those of which a newer version has been read already.
        """
        writes = self._under_way[token].publication.writes
        unread = [write.node for write in writes if self._cluster.ledger(write.node).sequence == write.expected]
        self.stale.update(unread)
        return self.refused(token), unread

    def unknown(self, token: int) -> list[str]:
        """Keep what was charged; return the nodes whose ledger must be read."""
        flight = self._under_way.pop(token)
        self._still_due(flight)
        nodes = [write.node for write in flight.publication.writes]
        self.stale.update(nodes)
        for explanation in flight.explanations:
            self._doubtful[explanation.node].append(explanation)
        return nodes

    def _still_due(self, flight: _Flight) -> None:
        """Note that what the publication would have taken out of its ledgers still stands there."""
        self._ledgers.due.update(write.node for write in flight.publication.writes)

    def read(self, node: str) -> list[Explanation]:
        """Hear that a ledger was read back; return what is to be told of pods whose claim there was in doubt."""
        self.stale.discard(node)
        return self._doubtful.pop(node, [])
