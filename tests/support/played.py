"""A placement core that receives single events from a test."""

from deviceshare.families import explain_claim
from deviceshare.model import (
    AnyFact,
    Claim,
    Explanation,
    Gone,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    Outcome,
    PodFact,
    Synced,
)
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Count,
    Event,
    Now,
    PutLatest,
    Read,
    ReadBack,
    RecordStep,
    Tick,
    Unreadable,
    Write,
    WriteConflict,
    WriteRefused,
    WriteUnknown,
    Written,
)
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import RECONCILED
from deviceshare_placement.core import FactReceived, LedgerReceived, OutcomesReceived, PlacementCore
from support.builders import card, node

_NAMES = {
    "NodeFact": "name", "PodFact": "uid", "PodGroupFact": "key", "QueueFact": "name", "ConfigFact": "name",
    "NamespaceFact": "name", "PriorityClassFact": "name", "PodDisruptionBudgetFact": "key",
    "VolumeClaimFact": "key", "VolumeFact": "name", "StorageClassFact": "name",
    "VolumeLimitsFact": "name",
}  # fmt: skip
WALL = 1_780_000_000.0
"""How far the wall clock of the tests is ahead of the monotonic one, seconds."""


class Commands(list[Command]):
    """The commands of one event, by what tests look at."""

    @property
    def writes(self) -> list[Write]:
        return [each for each in self if isinstance(each, Write)]

    @property
    def explanations(self) -> list[Explanation]:
        return [each.message for each in self if isinstance(each, PutLatest)]

    @property
    def messages(self) -> list[str]:
        return [explanation.message for explanation in self.explanations]

    @property
    def steps(self) -> list[RecordStep]:
        return [each for each in self if isinstance(each, RecordStep)]

    @property
    def reads(self) -> list[str]:
        """The nodes whose ledgers are read back."""
        return [subjects.node_of(each.subject) for each in self if isinstance(each, Read) and each.stream == "LEDGER"]

    @property
    def pods_read(self) -> list[str]:
        """The uids of the pods for which CLUSTER is asked."""
        return [each.subject.removeprefix("cluster.pod.") for each in self if isinstance(each, Read)]

    @property
    def counts(self) -> list[str]:
        return [each.name for each in self if isinstance(each, Count)]

    @property
    def repaired(self) -> list[str]:
        """What was found to differ from the cluster."""
        return [name.removeprefix(RECONCILED) for name in self.counts if name.startswith(RECONCILED)]

    @property
    def ledgers(self) -> list[NodeLedger]:
        return [each.message for write in self.writes for each in write.writes]

    @property
    def claims(self) -> list[Claim]:
        return [claim for ledger in self.ledgers for claim in ledger.claims]


class Played:
    """A core and its clocks.

    ``nodes`` (one of two cards of 100 MiB, unless given) are all that the cluster holds at the beginning.
    """

    def __init__(self, *nodes: NodeFact, synced: bool = True, empty: bool = False) -> None:
        self.core = PlacementCore("p", "p")
        self.now = 100.0
        """Monotonic seconds."""
        self.sequence = 0
        for each in nodes or (() if empty else (node("a", [card(at, memory=100) for at in range(2)]),)):
            self.put(each)
        if synced:
            self.sync()
            self.caught_up()

    def send(self, event: Event) -> Commands:
        return Commands(self.core.handle(event, Now(self.now, WALL + self.now)))

    def put(self, *facts: AnyFact) -> Commands:
        commands = Commands()
        for fact in facts:
            key = getattr(fact, _NAMES[type(fact).__name__])
            kind = type(fact).__name__.removesuffix("Fact").lower()
            commands += self.send(FactReceived(f"cluster.{kind}.{key}", fact))
        return commands

    def remove(self, kind: str, key: str) -> Commands:
        return self.send(FactReceived(f"cluster.{kind}.{key}", Gone()))

    def gone(self, fact: PodFact) -> Commands:
        return self.remove("pod", fact.uid)

    def sync(self) -> Commands:
        return self.send(FactReceived("cluster.synced", Synced()))

    def caught_up(self) -> Commands:
        commands = Commands()
        for stream in ("CLUSTER", "LEDGER", "OUTCOME"):
            commands += self.send(CaughtUp(stream))
        return commands

    def tick(self, after: float = 0.0) -> Commands:
        self.now += after
        return self.send(Tick())

    def placed(self, out: Commands) -> list[Explanation]:
        """Return why the pods of all claims in the written ledgers were placed."""
        nodes = self.core.scheduler.cluster.allocator
        return [
            explain_claim(claim, ledger.node, node.cards if (node := nodes.node(ledger.node)) is not None else ())
            for ledger in out.ledgers
            for claim in ledger.claims
        ]

    @property
    def due(self) -> float | None:
        """In how many seconds a tick has something to do."""
        due = self.core.next_due(Now(self.now, WALL + self.now))
        return None if due is None else max(0.0, due - self.now)

    def written(self, out: Commands) -> list[Commands]:
        """Acknowledge all writes."""
        answers = []
        for write in out.writes:
            self.sequence += len(write.writes)
            answers.append(self.send(Written(write.token, self.sequence)))
        return answers

    def decided(self, after: float = 0.0) -> Commands:
        """Tick and acknowledge all writes; return the commands of the tick."""
        out = self.tick(after)
        self.written(out)
        return out

    def settle(self) -> dict[str, str]:
        """Decide until nothing changes; return the nodes of the new claims by pod."""
        nodes: dict[str, str] = {}
        while (out := self.tick()).writes:
            nodes |= {claim.name: ledger.node for ledger in out.ledgers for claim in ledger.claims}
            self.written(out)
        return nodes

    def conflict(self, write: Write) -> Commands:
        return self.send(WriteConflict(write.token))

    def unknown(self, write: Write) -> Commands:
        return self.send(WriteUnknown(write.token))

    def refused(self, write: Write, reason: str) -> Commands:
        return self.send(WriteRefused(write.token, reason))

    def ledger(self, name: str, sequence: int, *claims: Claim) -> Commands:
        return self.send(LedgerReceived(name, sequence, NodeLedger(node=name, claims=claims)))

    def invalid(self, subject: str, sequence: int = 1, *, newer: bool = False) -> Commands:
        stream = {"ledger": "LEDGER", "outcome": "OUTCOME"}.get(subject.partition(".")[0], "CLUSTER")
        return self.send(Unreadable(stream, subject, sequence, "the reason", newer))

    def unreadable(self, name: str, sequence: int = 1) -> Commands:
        return self.send(Unreadable("LEDGER", subjects.ledger(name), sequence))

    def read_back(self, name: str, sequence: int = 0, ledger: NodeLedger | None = None) -> Commands:
        """Answer a read: with a ledger, or with none."""
        commands = Commands()
        if ledger is not None:
            commands += self.send(LedgerReceived(name, sequence, ledger))
        return Commands(commands + self.send(ReadBack(subjects.ledger(name), sequence)))

    def pod_read(self, uid: str, sequence: int = 0, fact: PodFact | None = None) -> Commands:
        """Answer that CLUSTER holds a fact of a pod, or none."""
        commands = self.put(fact) if fact is not None else Commands()
        return Commands(commands + self.send(ReadBack(f"cluster.pod.{uid}", sequence)))

    def outcome(self, claim: Claim, state: str, reason: str = "", node: str = "a") -> Commands:
        outcomes = NodeOutcomes(node=node, outcomes=(Outcome(claim.id, claim.uid, state, reason),))
        return self.send(OutcomesReceived(node, outcomes))
