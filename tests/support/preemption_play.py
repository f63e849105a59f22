"""A placement core whose pods may have to go, and what the binder answers, given by hand."""

from collections.abc import Callable, Iterable
from typing import Any

from deviceshare.model import (
    BLOCKED,
    MAY_GO,
    AnyFact,
    Claim,
    ConfigFact,
    Eviction,
    GroupKey,
    NodeLedger,
    NodeOutcomes,
    Outcome,
    PodFact,
    PodGroupFact,
    PriorityClassFact,
)
from deviceshare_placement.core import LedgerReceived, OutcomesReceived, PlacementCore
from msgspec.structs import replace
from support.builders import node as make_node
from support.builders import pod
from support.played import Commands, Played
from support.preemption_scene import USUAL, cpu


class PreemptionPlay(Played):
    """Nodes with pods of 1000 millicores each unless another request is given."""

    def __init__(self, *nodes: AnyFact, conf: str = USUAL, facts: Iterable[AnyFact] = (), synced: bool = True) -> None:
        super().__init__(synced=False, empty=True)
        self.pods: dict[str, PodFact] = {}
        self.config = (*nodes, ConfigFact(name="scheduler", text=conf, source="conf"), *facts)
        self.put(*self.config)
        if synced:
            self.sync()
            self.caught_up()

    def runs(self, name: str, on: str, what: Any = None, priority: int = 0, **rest: Any) -> PodFact:
        """Add a pod that runs on a node."""
        return self._add(pod(name, what or cpu(1000), node=on, priority=priority, scheduler="volcano", **rest))

    def waits(self, name: str, what: Any = None, priority: int = 100, **rest: Any) -> PodFact:
        """Add a pod that waits."""
        return self._add(pod(name, what or cpu(1000), priority=priority, scheduler="volcano", **rest))

    def in_queue(self, queue: str, add: Callable[..., PodFact], name: str, *what: Any, **rest: Any) -> PodFact:
        """Add a pod as :meth:`waits` or :meth:`runs` do, in another queue."""
        return self._add(replace(add(name, *what, **rest), queue=queue))

    def _add(self, fact: PodFact) -> PodFact:
        self.pods[fact.name] = fact
        self.put(fact)
        return fact

    def terminates(self, name: str) -> Commands:
        self.pods[name] = replace(self.pods[name], terminating=True)
        return self.put(self.pods[name])

    def ends(self, name: str) -> Commands:
        """Delete a pod."""
        return self.gone(self.pods.pop(name))

    # The ledgers

    def claims(self) -> list[tuple[str, Claim]]:
        """Return all claims with their nodes."""
        return [
            (node, claim) for node, record in self.core.scheduler.ledgers.items() for claim in record.claims.values()
        ]

    def waiting(self) -> dict[str, list[str]]:
        """Return for whom the pods with claims wait, by their names."""
        names = {fact.uid: fact.name for fact in self.pods.values()}
        return {claim.name: [names.get(uid, uid) for uid in claim.waits_for] for _, claim in self.claims()}

    def places(self) -> dict[str, str]:
        """Return the nodes of the claims by the names of their pods."""
        return {claim.name: node for node, claim in self.claims()}

    def evictions(self) -> dict[str, bool]:
        """Return the pods that have to go by name, and whether they are to be evicted."""
        return {each.name: each.go for _, each in self.all_evictions()}

    def all_evictions(self) -> list[tuple[str, Eviction]]:
        ledgers = self.core.scheduler.ledgers.items()
        return [(node, each) for node, record in ledgers for each in record.evictions.values()]

    # The binder

    def answers(self, state: str = MAY_GO, *names: str, reason: str = "") -> None:
        """Answer the evictions of these pods, or of all, with one state; other evictions of their nodes keep theirs."""
        for node, record in list(self.core.scheduler.ledgers.items()):
            outcomes = [
                Outcome(each.claim, each.uid, state, reason)
                for each in record.evictions.values()
                if not names or each.name in names
            ]
            if outcomes:
                known = self.outcomes_of.setdefault(node, {})
                known |= {(each.claim, each.uid): each for each in outcomes}
                self.send(OutcomesReceived(node, NodeOutcomes(node=node, outcomes=tuple(known.values()))))

    @property
    def outcomes_of(self) -> dict[str, dict[tuple[str, str], Outcome]]:
        return self.__dict__.setdefault("_outcomes_of", {})

    def restarted(self, *, order: tuple[str, ...] = ("CLUSTER", "LEDGER", "OUTCOME")) -> "PreemptionPlay":
        """Return the core of a successor, which has read all messages in this order."""
        core = PreemptionPlay.__new__(PreemptionPlay)
        Played.__init__(core, synced=False, empty=True)
        core.core, core.now, core.sequence = PlacementCore("q", "q"), self.now, 1000
        core.pods, core.config = dict(self.pods), self.config
        core.__dict__["_outcomes_of"] = {node: dict(known) for node, known in self.outcomes_of.items()}
        reads = {
            "CLUSTER": lambda: (core.put(*self.config, *self.pods.values()), core.sync()),
            "LEDGER": lambda: [core.send(each) for each in self.ledger_events()],
            "OUTCOME": lambda: [
                core.send(OutcomesReceived(node, NodeOutcomes(node=node, outcomes=tuple(known.values()))))
                for node, known in self.outcomes_of.items()
            ],
        }
        for stream in order:
            reads[stream]()
        core.caught_up()
        return core

    def ledger_events(self) -> list[LedgerReceived]:
        """Return the ledgers as they are read."""
        return [
            LedgerReceived(
                node,
                number,
                NodeLedger(node=node, claims=tuple(record.claims.values()), evictions=tuple(record.evictions.values())),
            )
            for number, (node, record) in enumerate(self.core.scheduler.ledgers.items(), 1)
        ]

    def others_write(self, ledger: NodeLedger) -> None:
        """Let another replica write a ledger."""
        self.sequence += 1
        self.send(LedgerReceived(ledger.node, self.sequence, ledger))

    def settled(self, after: float = 0.0) -> None:
        """Tick and acknowledge until nothing is written any more."""
        self.now += after
        while (out := self.tick()).writes:
            self.written(out)


GANG = PodGroupFact(
    key=GroupKey("ns/g"), uid="pg", min_member=2, queue="default", priority_class="high", admitted=True, phase="Inqueue"
)
HIGH = PriorityClassFact(name="high", value=100)


def full(**rest) -> PreemptionPlay:
    """Return a core with one full node."""
    core = PreemptionPlay(make_node("a", cpu=2000), **rest)
    core.runs("one", "a")
    core.runs("two", "a", priority=10)
    core.settled()
    return core


def nominated() -> PreemptionPlay:
    """Return a core with one full node, of which ``one`` has to go for ``new``."""
    core = full()
    core.waits("new")
    core.settled()
    return core


def gang() -> PreemptionPlay:
    """Return a core with a gang that is nominated on two full nodes."""
    core = PreemptionPlay(make_node("a", cpu=1000), make_node("b", cpu=1000), facts=[HIGH, GANG])
    core.runs("one", "a")
    core.runs("two", "b")
    core.waits("new-0", gang="g")
    core.waits("new-1", gang="g")
    core.settled()
    return core


__all__ = ["BLOCKED", "GANG", "HIGH", "MAY_GO", "PreemptionPlay", "full", "gang", "nominated"]
