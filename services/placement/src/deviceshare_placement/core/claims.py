"""Choosing the decisions of a round, and the ledgers, that are written together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from deviceshare.allocation import Placement
from deviceshare.model import Claim, Eviction, NodeLedger, PodFact
from deviceshare.preemption import RECLAIM, Preemption
from deviceshare.queueing import Decision
from deviceshare.scheduler import LedgerRecord, Round
from msgspec.structs import replace

INTER_POD = "_inter-pod"
"""The name, which no node can have, of a ledger without claims: see docs/bus.md.

Every write of a claim that inter-pod constraints or an exclusive volume concern, or that binds volumes, also writes
this ledger, and thereby expects that no other replica has written such a claim that this one did not know. Claims on
different nodes conflict in no other way.
"""
_JOB_NAME = "volcano.sh/job-name"
"""Label of the pods of Volcano's Jobs. Source: Volcano vendor/volcano.sh/apis/pkg/apis/batch/v1alpha1 (JobNameKey)."""
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


@dataclass
class LedgerChange:
    """What changes in the ledger of one node besides the repairs that are due: new claims and evictions.

    ``removed`` and ``opened``: the ids of claims that are removed, or wait no more; ``dropped`` and ``going``: the uids
    of pods whose eviction is removed, or begins.
    """

    added: list[NewClaim] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    going: set[str] = field(default_factory=set)

    def merge(self, other: "LedgerChange") -> None:
        """Add another change of the same ledger."""
        self.added += other.added
        self.evictions += other.evictions
        self.removed |= other.removed
        self.opened |= other.opened
        self.dropped |= other.dropped
        self.going |= other.going

    def of(self, record: LedgerRecord) -> NodeLedger:
        """Return the ledger as it should be."""
        claims = (
            replace(claim, waits_for=()) if claim.id in self.opened else claim
            for claim in record.remaining()
            if claim.id not in self.removed
        )
        evictions = (
            replace(each, go=True) if uid in self.going else each
            for uid, each in record.evictions.items()
            if uid not in self.dropped
        )
        return NodeLedger(
            node=record.node,
            claims=(*claims, *(each.claim for each in self.added)),
            evictions=(*evictions, *self.evictions),
        )


TakenEvictions = Sequence[tuple[str, Eviction]]
"""The evictions of the nominations whose room a decision takes, with their nodes."""


def nominated(
    preemption: Preemption, claims: Iterable[NewClaim], at: float, nodes: Iterable[str], taken: TakenEvictions = ()
) -> dict[str, LedgerChange]:
    """Return how the ledgers of these nodes change if claims of a decision wait for the pods that go for it.

    The pods go for the first claim of their node, those of ``taken`` as well, if the claims wait for them. ``at``: unix
    seconds.
    """
    uids = tuple(sorted({*(victim.uid for victim in preemption.victims), *preemption.leaving}))
    new = [NewClaim(node, replace(claim, waits_for=uids)) for node, claim in claims]
    changes = {node: LedgerChange() for node in nodes}
    for each in new:
        changes[each.node].added.append(each)

    def add(node: str, eviction: Eviction) -> None:
        claim = (changes[node].added or new)[0].claim
        preemptor = f"{claim.namespace}/{claim.name}"
        changes[node].evictions.append(replace(eviction, claim=claim.id, preemptor=preemptor, decided_at=at))

    for victim in preemption.victims:
        pod = victim.pod
        eviction = Eviction(
            uid=pod.uid, namespace=pod.namespace, name=pod.name, claim="", preemptor="", action=preemption.action,
            queue=victim.queue, owner=_owner(pod),
        )  # fmt: skip
        add(victim.node, eviction)
    for node, claim_id in preemption.taken:
        changes[node].removed.add(claim_id)
    for node, old in taken:
        changes[node].dropped.add(old.uid)
        if old.uid in uids:
            add(node, old)
    return changes


def _owner(pod: PodFact) -> tuple[str, str]:
    """Return the kind and the name of what evictions of a pod are counted for."""
    if job := dict(pod.labels).get(_JOB_NAME):
        return "Job", f"{pod.namespace}/{job}"
    return ("PodGroup", pod.podgroup) if pod.podgroup else ("", "")


def nodes_to_nominate(preemption: Preemption, decision: Decision, taken: TakenEvictions = ()) -> set[str]:
    """Return the nodes whose ledgers have to be written for a decision with victims, or that takes nominated room.

    A queue loses no more than it has above what it deserves: the claims of all replicas that take back from others
    are written with :data:`INTER_POD`, so that each knows the others'.
    """
    nodes = nodes_of(decision) | {victim.node for victim in preemption.victims}
    nodes |= {node for node, _ in (*preemption.taken, *taken)}
    actions = {preemption.action, *(each.action for _, each in taken)}
    return nodes | ({INTER_POD} if RECLAIM in actions else set())


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
