"""The records that the core keeps of pods, groups and the ledgers of nodes."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from deviceshare.allocation import PodClass
from deviceshare.model import Claim, Eviction, Explanation, GroupKey, PodFact, PodGroupFact, Tenant

ClaimNodes: TypeAlias = tuple[tuple[str, str], ...]
"""The id and the node of each claim of a pod. Most pods have one: a dict would take twice as much memory."""
Beside: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


def beside(explanation: Explanation) -> Beside:
    """Return what changes in an explanation though its message does not: for whom nodes are kept free, models."""
    return explanation.kept_for, tuple(dict.fromkeys(model for model, _ in explanation.enough_in_sum))


@dataclass(slots=True)
class PodRecord:
    """A pod as it was last seen.

    ``claims``: the id of each of its claims, and the node whose ledger holds it; ``seen_at`` is the unix time at which
    the pod was first seen.
    """

    fact: PodFact
    pod_class: PodClass
    """All pods with the same request; ``fact.ask`` is the request object of the class."""
    claims: ClaimNodes
    seen_at: float
    refusals: int = 0
    refusal: str = ""
    """Why its last claim was refused."""
    invalid: str = ""
    """Why its last fact is not valid; ``fact`` is the one before."""
    reported: str = ""
    """The message of the last explanation, or where its last claim placed it."""
    reported_beside: Beside = ((), ())
    """What the last explanation said beside its message (:func:`beside`)."""
    reported_at: float = 0.0
    """When that was, monotonic."""
    explained: bool = False
    """Whether an explanation of it was published."""

    def forget_report(self) -> None:
        """Forget the last explanation: another replica explains from now on."""
        self.report("", 0.0)

    def report(self, message: str, now: float, beside: Beside = ((), ())) -> None:
        """Record the last explanation of a pod; ``now`` is monotonic."""
        self.reported, self.reported_at, self.reported_beside = message, now, beside

    @property
    def waits(self) -> bool:
        """Whether it has no node and may get one."""
        fact = self.fact
        return not (fact.node or fact.ended or fact.terminating or self.claims)

    @property
    def placed(self) -> bool:
        """Whether it counts for its gang."""
        return self.fact.succeeded or (bool(self.fact.node or self.claims) and not self.fact.ended)


@dataclass(slots=True)
class GroupRecord:
    """A PodGroup, or a pod without one, and the uids of its members."""

    key: GroupKey
    fact: PodGroupFact | None = None
    admitted: bool = False
    """Whether it was admitted to its queue, though its fact may not say so yet."""
    unreported: bool = False
    """Whether its admission was not reported, since all of it was placed in the same round."""
    reported: str = ""
    """Why it was not admitted, as it was last reported."""
    members: Collection[str] = ()
    """Most groups have one: a set of it would take four times as much memory as a tuple."""
    moved_at: int = 0
    """The sequence of the last fact that moved it to another queue."""

    def add_member(self, uid: str) -> None:
        """Add a pod."""
        if isinstance(self.members, set):
            self.members.add(uid)
        elif uid not in self.members:
            self.members = {*self.members, uid} if self.members else (uid,)

    def drop_member(self, uid: str) -> None:
        """Remove a pod, if it is a member."""
        if isinstance(self.members, set):
            self.members.discard(uid)
        elif uid in self.members:
            self.members = ()

    @property
    def single(self) -> bool:
        """Whether it is a pod without a PodGroup."""
        return self.fact is None and len(self.members) == 1 and self.key == f"pod/{next(iter(self.members))}"

    @property
    def empty(self) -> bool:
        """Whether it has neither a PodGroup nor pods."""
        return self.fact is None and not self.members

    @property
    def applies(self) -> bool:
        """Whether it waits to be admitted to its queue."""
        return self.fact is not None and not (self.admitted or self.fact.admitted)


@dataclass(slots=True)
class LedgerRecord:
    """The claims in the ledger of one node, and the changes that are due: claim ids to remove and to withdraw.

    A claim to remove that waits for pods to go is removed together with the others that wait for them.
    """

    node: str
    claims: dict[str, Claim] = field(default_factory=dict)
    evictions: dict[str, Eviction] = field(default_factory=dict)
    """The pods of the node that have to go, by uid."""
    remove: set[str] = field(default_factory=set)
    withdraw: set[str] = field(default_factory=set)
    refusals: int = 0
    """Writes of it in a row that the server refused."""
    retry_at: float = 0.0
    """When changes alone may be written again after a refusal, monotonic."""

    @property
    def changes(self) -> bool:
        """Whether a change is due."""
        return bool(self.withdraw) or any(not self.claims[claim].waits_for for claim in self.remove)

    def remaining(self) -> list[Claim]:
        """Return the claims after the changes that are due."""
        return [
            msgspec.structs.replace(claim, withdraw=True) if claim.id in self.withdraw else claim
            for claim in self.claims.values()
            if claim.id not in self.remove or claim.waits_for
        ]


def tenant_of(claim: Claim) -> Tenant:
    """Return the tenant of a claim whose pod is not known."""
    group = "" if claim.group == f"pod/{claim.uid}" else claim.group
    return Tenant(
        group, claim.labels, claim.namespace, volumes=claim.volumes, bindings=claim.bindings, devices=claim.devices
    )
