"""A placement core that is fed by hand, one thing at a time."""

from deviceshare.model import AnyFact, Claim, Gone, NodeOutcomes, Outcome, PodFact, Synced
from deviceshare_placement.core import Instructions, PlacementCore
from support.builders import card, node

_NAMES = {"NodeFact": "name", "PodFact": "uid", "PodGroupFact": "key", "QueueFact": "name", "ConfigFact": "name"}


class Played:
    """A core with one node of two cards of 100 MiB, all of it synced."""

    def __init__(self) -> None:
        self.core = PlacementCore("p")
        self.now = 100.0
        self.sequence = 0
        self.put(node("a", [card(at, memory=100) for at in range(2)]))
        self.core.on_fact("cluster.synced", Synced(), self.now)
        self.core.on_caught_up(0.0)

    def put(self, fact: AnyFact) -> Instructions:
        key = getattr(fact, _NAMES[type(fact).__name__])
        kind = type(fact).__name__.removesuffix("Fact").lower()
        return self.core.on_fact(f"cluster.{kind}.{key}", fact, self.now)

    def gone(self, fact: PodFact) -> None:
        self.core.on_fact(f"cluster.pod.{fact.uid}", Gone(), self.now)

    def cycle(self, after: float = 0.0) -> Instructions:
        self.now += after
        return self.core.cycle(self.now)

    def written(self, out: Instructions) -> list[Instructions]:
        """Let all publications be written."""
        answers = []
        for publication in out.publications:
            self.sequence += len(publication.writes)
            answers.append(self.core.on_published(publication.token, self.sequence, self.now))
        return answers

    def claims(self, out: Instructions) -> list[Claim]:
        return [
            claim for publication in out.publications for write in publication.writes for claim in write.ledger.claims
        ]

    def outcome(self, claim: Claim, state: str, reason: str = "") -> None:
        outcomes = NodeOutcomes(node="a", outcomes=(Outcome(claim.id, claim.uid, state, reason),))
        self.core.on_outcomes(outcomes, self.now)


def messages(out: Instructions) -> list[str]:
    return [explanation.message for explanation in out.explanations]
