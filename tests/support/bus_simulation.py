"""A bus, an API server, a binder and placement replicas without bytes or clocks, to simulate every race.

Streams are lists; a reader takes them in order, each at its own pace. Writes are compared and set as on a real one.
"""

from collections import defaultdict
from collections.abc import Sequence

from deviceshare.allocation import Allocator
from deviceshare.model import (
    BOUND,
    REFUSED,
    WITHDRAWN,
    AnyFact,
    Claim,
    Explanation,
    Gone,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    Outcome,
    PodFact,
    PodGroupFact,
    Synced,
)
from deviceshare_bus.cores.core import (
    CaughtUp,
    Core,
    Event,
    Now,
    Read,
    ReadBack,
    SubjectWrite,
    Tick,
    WriteConflict,
    WriteUnknown,
    Written,
)
from deviceshare_bus.messages import subjects
from deviceshare_placement.core import FactReceived, LedgerReceived, OutcomesReceived, PlacementCore
from msgspec.structs import replace
from support.played import WALL, Commands

STREAMS = ("CLUSTER", "LEDGER", "OUTCOME")


class Bus:
    """Three streams of (sequence, subject, message), of which a new reader sees the last of each subject first."""

    def __init__(self) -> None:
        self.streams: dict[str, list[tuple[int, str, object]]] = {stream: [] for stream in STREAMS}
        self.explained: dict[str, Explanation] = {}

    def put(self, stream: str, subject: str, message: object) -> int:
        """Write a message and return its sequence."""
        sequence = len(self.streams[stream]) + 1
        self.streams[stream].append((sequence, subject, message))
        return sequence

    def last(self, stream: str, subject: str) -> tuple[int, object]:
        """Return sequence and message of the last under a subject, 0 and None where there is none."""
        for sequence, where, message in reversed(self.streams[stream]):
            if where == subject:
                return sequence, message
        return 0, None

    def latest(self, stream: str) -> list[tuple[int, str, object]]:
        """Return the last message of each subject, by sequence."""
        last = {subject: (sequence, subject, message) for sequence, subject, message in self.streams[stream]}
        return sorted(last.values(), key=lambda entry: entry[0])

    def compare_and_set(self, writes: Sequence[SubjectWrite]) -> int | None:
        """Write all ledgers and return the last sequence, or write none and return None."""
        if any(self.last("LEDGER", write.message.node)[0] != write.expected for write in writes):
            return None
        return [self.put("LEDGER", write.message.node, write.message) for write in writes][-1]

    def ledgers(self) -> dict[str, NodeLedger]:
        """Return the ledgers as they stand."""
        return {subject: message for _, subject, message in self.latest("LEDGER")}  # type: ignore[misc]


class Replica:
    """A placement core, the events on their way to it and the commands on their way from it."""

    def __init__(self, bus: Bus, name: str, core: Core | None = None) -> None:
        self.bus = bus
        self.core = core or PlacementCore(name, name)
        self.unread = {stream: bus.latest(stream) for stream in STREAMS}
        self.seen = {stream: len(bus.streams[stream]) for stream in STREAMS}
        self.behind = {stream for stream in STREAMS if self.unread[stream]}
        self.answers: list[tuple[int, int | None]] = []
        """Tokens whose answer is on its way: the sequence, None for a conflict."""
        self.read_backs: list[str] = []
        """Subjects of ledgers that the core wants to be read."""
        for stream in STREAMS:
            if stream not in self.behind:
                self.send(CaughtUp(stream), 0.0)

    def send(self, event: Event, now: float) -> Commands:
        """Pass an event to the core and execute its commands; the answer to a write comes later."""
        commands = Commands(self.core.handle(event, Now(now, WALL + now)))
        for write in commands.writes:
            self.answers.append((write.token, self.bus.compare_and_set(write.writes)))
        self.carry_out(commands)
        return commands

    def carry_out(self, commands: Commands) -> None:
        """Execute everything but writes."""
        for explanation in commands.explanations:
            self.bus.explained[explanation.uid] = explanation
        self.read_backs += [each.subject for each in commands if isinstance(each, Read)]

    def read(self, stream: str, most: int, now: float) -> None:
        """Receive some messages of a stream."""
        self.unread[stream] += self.bus.streams[stream][self.seen[stream] :]
        self.seen[stream] = len(self.bus.streams[stream])
        taken, self.unread[stream] = self.unread[stream][:most], self.unread[stream][most:]
        for sequence, subject, message in taken:
            self.send(_received(stream, sequence, subject, message), now)
        if not self.unread[stream] and stream in self.behind:
            self.behind.discard(stream)
            self.send(CaughtUp(stream), now)

    def tick(self, now: float) -> Commands:
        """Let it decide."""
        return self.send(Tick(), now)

    def lose_writes(self, now: float, written: Sequence[bool]) -> None:
        """Let it decide; no write is answered, and some never reach the server."""
        commands = Commands(self.core.handle(Tick(), Now(now, WALL + now)))
        self.carry_out(commands)
        for number, write in enumerate(commands.writes):
            if written[number % len(written)]:
                self.bus.compare_and_set(write.writes)
            self.send(WriteUnknown(write.token), now)

    def answer(self, at: int, now: float) -> None:
        """Deliver one of the answers that are on their way."""
        token, sequence = self.answers.pop(at % len(self.answers))
        self.send(WriteConflict(token) if sequence is None else Written(token, sequence), now)

    def read_back(self, at: int, now: float) -> None:
        """Read one of the ledgers that the core wants to be read."""
        subject = self.read_backs.pop(at % len(self.read_backs))
        node = subjects.node_of(subject)
        sequence, ledger = self.bus.last("LEDGER", node)
        if sequence:
            self.send(_received("LEDGER", sequence, node, ledger), now)
        self.send(ReadBack(subject, sequence), now)

    def due(self, now: float) -> float | None:
        """Return when it wants to decide without further events."""
        return self.core.next_due(Now(now, WALL + now))

    @property
    def busy(self) -> bool:
        """Whether something is on its way to it or it has something to do."""
        return bool(
            self.answers
            or self.read_backs
            or self.core.open_work
            or any(self.unread.values())
            or any(self.seen[stream] < len(self.bus.streams[stream]) for stream in STREAMS)
        )


def _received(stream: str, sequence: int, subject: str, message: object) -> Event:
    if stream == "CLUSTER":
        return FactReceived(subject, message)  # type: ignore[arg-type]
    if stream == "LEDGER":
        return LedgerReceived(subject, sequence, message)  # type: ignore[arg-type]
    return OutcomesReceived(subject, message)  # type: ignore[arg-type]


class Cluster:
    """The API server and inventory in one: the objects, and their facts on the bus."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.nodes: dict[str, NodeFact] = {}
        self.pods: dict[str, PodFact] = {}
        self.groups: dict[str, PodGroupFact] = {}
        self.bound_by: dict[str, str] = {}
        """For each bound pod the id of the claim by which it was bound."""
        self.bindings: defaultdict[str, int] = defaultdict(int)
        self.disturbed: set[str] = set()
        """Gangs disturbed by an external change: they may be left with fewer pods than their minimum."""

    def sync(self) -> None:
        """Say that everything is there."""
        self.bus.put("CLUSTER", "cluster.synced", Synced())

    def put(self, fact: NodeFact | PodFact | PodGroupFact) -> None:
        """Create or change an object."""
        match fact:
            case NodeFact():
                self.nodes[fact.name] = fact
                subject = f"cluster.node.{fact.name}"
            case PodFact():
                self.pods[fact.uid] = fact
                subject = f"cluster.pod.{fact.uid}"
            case PodGroupFact():
                self.groups[fact.key] = fact
                subject = f"cluster.podgroup.{fact.key}"
        self.bus.put("CLUSTER", subject, fact)

    def remove(self, kind: str, key: str) -> None:
        """Delete an object."""
        if kind == "node":
            del self.nodes[key]
            self.disturbed |= {pod.group for pod in self.pods.values()}
        else:
            self.disturbed.add(self.pods.pop(key).group)
        gone: AnyFact = Gone()
        self.bus.put("CLUSTER", f"cluster.{kind}.{key}", gone)

    def unbind(self, uid: str) -> None:
        """Lose a binding, as an API server does whose store was set back."""
        self.bound_by.pop(uid, None)
        self.disturbed.add(self.pods[uid].group)
        self.put(replace(self.pods[uid], node="", held=()))

    def end(self, uid: str) -> None:
        """Let a pod succeed."""
        self.disturbed.add(self.pods[uid].group)
        self.put(replace(self.pods[uid], ended=True))


class Binder:
    """Binds the claims of the ledgers, one version after the other, and publishes the outcomes."""

    def __init__(self, bus: Bus, cluster: Cluster) -> None:
        self.bus = bus
        self.cluster = cluster
        self.position = 0
        self.versions: defaultdict[str, int] = defaultdict(int)
        self.outcomes: defaultdict[str, dict[str, Outcome]] = defaultdict(dict)

    @property
    def busy(self) -> bool:
        """Whether there is a ledger that it has not read."""
        return self.position < len(self.bus.streams["LEDGER"])

    def work(self, refuse: bool = False, skip: bool = False) -> None:
        """Read the next version of a ledger.

        ``refuse``: the API server takes no binding just now; ``skip``: it has been away, and reads the last version.
        """
        if not self.busy:
            return
        sequence, node, ledger = self.bus.streams["LEDGER"][self.position]
        self.position += 1
        if skip:
            sequence, ledger = self.bus.last("LEDGER", node)  # type: ignore[assignment]
        assert isinstance(ledger, NodeLedger)
        if sequence <= self.versions[node]:
            return
        self.versions[node] = sequence
        known = self.outcomes[node]
        self.outcomes[node] = {claim.id: known[claim.id] for claim in ledger.claims if claim.id in known}
        for claim in ledger.claims:
            if claim.waits_for:
                continue
            known_state = self.outcomes[node][claim.id].state if claim.id in self.outcomes[node] else ""
            if not known_state or (claim.withdraw and known_state == BOUND):
                state = self.bind(node, claim, refuse)
                self.outcomes[node][claim.id] = Outcome(claim.id, claim.uid, state, "" if state == BOUND else "because")
        outcomes = (*self.outcomes[node].values(), *self.evict(ledger))
        self.bus.put("OUTCOME", node, NodeOutcomes(node=node, outcomes=outcomes))

    def evict(self, ledger: NodeLedger) -> Sequence[Outcome]:
        """Ask for the evictions of a ledger, or evict; return their outcomes."""
        return ()

    def bind(self, node: str, claim: Claim, refuse: bool) -> str:
        pod = self.cluster.pods.get(claim.uid)
        if self.cluster.bound_by.get(claim.uid) == claim.id:
            return BOUND
        if claim.withdraw:
            return WITHDRAWN
        if pod is None or pod.node or pod.ended or node not in self.cluster.nodes or refuse:
            if refuse and pod is not None:
                self.cluster.disturbed.add(pod.group)
            return REFUSED
        self.cluster.bindings[claim.uid] += 1
        self.cluster.bound_by[claim.uid] = claim.id
        self.cluster.put(replace(pod, node=node, held=claim.grants))
        return BOUND


def overdrawn(cluster: Cluster, ledgers: dict[str, NodeLedger]) -> list[str]:
    """Return the cards that are charged with more than they have, by claims and bound pods."""
    found = []
    charges: dict[str, dict[str, Sequence[object]]] = defaultdict(dict)
    for pod in cluster.pods.values():
        if pod.node and not pod.ended:
            charges[pod.node][pod.uid] = pod.held
    for node, ledger in ledgers.items():
        for claim in ledger.claims:
            if not claim.waits_for:
                charges[node][claim.uid] = claim.grants
    for node, holders in charges.items():
        fact = cluster.nodes.get(node)
        if fact is None:
            continue
        allocator = Allocator(PlacementCore("check", "check").scheduler.cluster.allocator.conf)
        allocator.set_node(fact)
        for uid, grants in holders.items():
            allocator.hold(node, uid, grants, ())  # type: ignore[arg-type]
        for card, (memory, cores, slots) in zip(fact.cards, allocator.used_cards(node), strict=True):
            if memory > card.memory or cores > card.cores or slots > card.slots:
                found.append(f"{node} {card.id}: {memory} MiB, {cores} percent, {slots} slots: {list(holders)}")
    return found
