"""What the core remembers of pods, groups and nodes' ledgers."""

from dataclasses import dataclass, field

import msgspec
from deviceshare.allocation import PodClass
from deviceshare.model import Claim, GroupKey, PodFact, PodGroupFact


@dataclass(slots=True)
class PodRecord:
    """A pod as it was last seen, and its claims: the id of each and the node whose ledger holds it."""

    fact: PodFact
    pod_class: PodClass
    """All pods with the same request; ``fact.ask`` is the request object of the class."""
    claims: dict[str, str]
    seen_at: float
    refusals: int = 0
    refusal: str = ""
    """Why its last claim was refused."""
    reported: str = ""
    """The message of the last explanation."""
    told_at: float = 0.0

    def report(self, message: str, now: float) -> None:
        """Note what was told of it."""
        self.reported, self.told_at = message, now

    @property
    def waits(self) -> bool:
        """Whether it needs a place and may get one."""
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
    """Whether it was let into its queue, though its fact may not say so yet."""
    unreported: bool = False
    """Whether nobody was told that it was let in, since it was placed whole at once."""
    reported: str = ""
    """Why it was not let in, as it was told last."""
    members: set[str] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        """Whether nothing is left of it."""
        return self.fact is None and not self.members

    @property
    def applies(self) -> bool:
        """Whether it waits to be let into its queue."""
        return self.fact is not None and not (self.admitted or self.fact.admitted)


@dataclass(slots=True)
class LedgerRecord:
    """The ledger of one node: the last version known, and what must be changed in it."""

    node: str
    sequence: int = 0
    claims: dict[str, Claim] = field(default_factory=dict)
    remove: set[str] = field(default_factory=set)
    withdraw: set[str] = field(default_factory=set)

    @property
    def changes(self) -> bool:
        """Whether something must be changed in it."""
        return bool(self.remove or self.withdraw)

    def remaining(self) -> list[Claim]:
        """Return the claims as they should stand: without those to take out, those to ask back marked."""
        return [
            msgspec.structs.replace(claim, withdraw=True) if claim.id in self.withdraw else claim
            for claim in self.claims.values()
            if claim.id not in self.remove
        ]
