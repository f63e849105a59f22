"""Turning decisions into claims, and choosing the ledgers that are written together."""

from typing import NamedTuple

from deviceshare.allocation import Placement
from deviceshare.model import Choice, Claim, PodFact, PodUid
from deviceshare.queueing import Decision

from deviceshare_placement.core.deciding import Round
from deviceshare_placement.core.records import PodRecord

MOST_WRITES = 999
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

    ``together`` are the nodes that gangs tie together; ``put_back`` are the gangs that span too many nodes to be
    written with the others of the round.
    """

    chosen: list[tuple[PodFact, Placement, Decision]]
    together: set[str]
    put_back: list[Decision]


def select(decided: Round) -> Selection:
    """Choose the decisions that can be written, their pods in the order in which they were decided."""
    together: set[str] = set()
    put_back = []
    by_uid: dict[PodUid, tuple[PodFact, Placement, Decision]] = {}
    for decision in decided.decisions:
        nodes = nodes_of(decision)
        if len(nodes) > 1:
            if len(together | nodes) > MOST_WRITES:
                put_back.append(decision)
                continue
            together |= nodes
        for pod, placement in decision.placed:
            by_uid[pod.uid] = (pod, placement, decision)
    return Selection([by_uid[uid] for uid in decided.order if uid in by_uid], together, put_back)


def nodes_of(decision: Decision) -> set[str]:
    """Return the nodes on which a group was placed."""
    return {placement.node for _, placement in decision.placed}


class Author(NamedTuple):
    """Who decides, and when (unix seconds)."""

    instance: str
    at: float


def claim(claim_id: str, record: PodRecord, placement: Placement, queue: str, choice: Choice, by: Author) -> Claim:
    """Return the claim of a pod that was placed from a queue."""
    pod = record.fact
    return Claim(
        id=claim_id,
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        group=pod.group,
        queue=queue,
        decided_by=by.instance,
        decided_at=by.at,
        seen_at=record.seen_at,
        grants=placement.grants,
        resources=placement.resources,
        ports=placement.ports,
        counted=placement.counted,
        labels=tuple(sorted({label for rule in pod.ask.exclusive for label in rule})),
        choice=choice,
    )
