"""Choosing the decisions of a round, and the ledgers, that are written together."""

from typing import NamedTuple

from deviceshare.allocation import Placement
from deviceshare.model import Claim, PodFact
from deviceshare.queueing import Decision
from deviceshare.scheduler import Round

INTER_POD = "_inter-pod"
"""The name, which no node can have, of a ledger without claims: see docs/bus.md.

Every write of a claim that inter-pod constraints or an exclusive volume concern, or that binds volumes, also writes
this ledger, and thereby expects that no other replica has written such a claim that this one did not know. Claims on
different nodes conflict in no other way.
"""
MAX_WRITES = 999
"""Ledgers that can be written together: the server's limit for an atomic batch is 1,000, the lease included."""


class NewClaim(NamedTuple):
    """A claim to write on a node."""

    node: str
    claim: Claim

    @property
    def uid(self) -> str:
        """The uid of its pod."""
        return self.claim.uid


class Selection(NamedTuple):
    """The decisions of a round that can be written now.

    ``together`` are the nodes that gangs tie together, and those of pods with inter-pod constraints; ``put_back`` are
    the gangs that span too many nodes to be written with the others of the round.
    """

    chosen: list[tuple[PodFact, Placement, Decision]]
    together: set[str]
    put_back: list[Decision]


def select(decided: Round) -> Selection:
    """Choose the decisions that can be written, their pods in the order in which they were decided.

    The claims of pods that inter-pod constraints concern are written together with :data:`INTER_POD`, as are those of
    pods with a volume that only one pod may use, or with claims that have to be bound to volumes.
    """
    together: set[str] = set()
    put_back = []
    chosen = []
    for decision in decided.decisions:
        nodes = nodes_of(decision)
        if len(nodes) > 1 or INTER_POD in nodes:
            if len(together | nodes) > MAX_WRITES:
                put_back.append(decision)
                continue
            together |= nodes
        chosen.append(decision)
    return Selection(decided._replace(decisions=chosen).placed, together, put_back)


def nodes_of(decision: Decision) -> set[str]:
    """Return the nodes whose ledgers have to be written for a group."""
    nodes = {placement.node for _, placement in decision.placed}
    if any(pod.ask.topology is not None or pod.ask.imposed or each.exclusive for pod, each in decision.placed):
        nodes.add(INTER_POD)
    return nodes
