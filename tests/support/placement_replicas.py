"""Replicas of placement that divide the work, on a model of LEDGER: late writes, pauses, deaths and newcomers."""

import random
from collections import Counter, deque
from typing import Any

from deviceshare.model import Gone, NodeLedger, PodFact, QueueFact, Synced
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Event,
    Now,
    PutLatest,
    Read,
    ReadBack,
    Tick,
    Write,
    WriteConflict,
    WriteUnknown,
    Written,
)
from deviceshare_bus.cores.division import FenceReceived, LeaseReceived
from deviceshare_bus.messages.leases import PERIOD, Fence, Lease
from deviceshare_bus.messages.subjects import address, node_of
from deviceshare_placement.core import FactReceived, LedgerReceived, PlacementCore
from msgspec.structs import replace
from support.builders import MEMORY, card, node, pod, vgpu

WALL = 1_780_000_000.0
CAP = 200
QUEUES = ("capped-a", "capped-b", "free")
NODES = [node(f"n{number}", [card(0, node=f"n{number}", memory=100)], pods=20) for number in range(12)]


class Server:
    """The stream LEDGER: messages in one order, conditional writes of one or of several."""

    def __init__(self) -> None:
        self.queues: dict[str, str] = {}
        """The queue of each pod, by uid."""
        self.log: list[tuple[int, str, object]] = []
        self.last: dict[str, int] = {}
        self.ledgers: dict[str, NodeLedger] = {}
        self.conflicts = self.commits = 0
        self.fenced_writes = 0
        self.checks = True
        self.started = 0

    def put(self, subject: str, message: object) -> int:
        sequence = len(self.log) + 1
        self.log.append((sequence, subject, message))
        self.last[subject] = sequence
        if isinstance(message, NodeLedger):
            self.ledgers[message.node] = message
        return sequence

    def write(self, write: Write) -> int | None:
        """Write all messages and return the last sequence, or none and return None."""
        self.commits += 1
        if write.guard is not None and self.last.get(write.guard.unless):
            self.fenced_writes += 1
            return None
        if any(self.last.get(each.subject, 0) != each.expected for each in write.writes):
            self.conflicts += 1
            return None
        if write.guard is not None:
            self.put(write.guard.subject, write.guard.message)
        last = [self.put(each.subject, each.message) for each in write.writes][-1]
        if self.checks:
            check(self)
        return last


def check(server: Server) -> None:
    """Check what must hold at every moment: no queue above its bound, no card above its memory, no pod twice."""
    claims = [claim for ledger in server.ledgers.values() for claim in ledger.claims]
    used: Counter[str] = Counter()
    for claim in claims:
        # A pod that was moved after its claim counts in neither queue: no bound was exceeded by a decision.
        queue = claim.queue if server.queues.get(claim.uid) == claim.queue else ""
        used[queue] += sum(device.memory for grant in claim.grants for device in grant.devices)
    assert used["capped-a"] <= CAP, used
    assert used["capped-b"] <= CAP, used
    assert max(Counter(claim.uid for claim in claims).values(), default=0) <= 1
    for ledger in server.ledgers.values():
        memory = sum(device.memory for claim in ledger.claims for grant in claim.grants for device in grant.devices)
        assert memory <= 100, ledger


class Replica:
    """A process: its core, what it has sent and the server has not received, and what it has not read."""

    def __init__(self, server: Server, name: str, facts: list[tuple[str, object]], now: float) -> None:
        self.server = server
        self.name = name
        server.started += 1
        self.core = PlacementCore(name, f"{name}-{server.started}", divided=True)
        self.read_up_to = 0
        self.facts_read = 0
        self.facts = facts
        self.unsent: list[Write | PutLatest] = []
        self.sent_at: dict[int, float] = {}
        """When writes without a guard were sent, by token."""
        self.answers: list[Event] = []
        self.reads: list[str] = []
        self.commands: deque[Command] = deque(maxlen=10_000)
        self.receive(10**6, now)
        self.receive_facts(10**6, now)
        for stream in ("CLUSTER", "LEDGER", "OUTCOME"):
            self.send(CaughtUp(stream), now)

    def send(self, event: Event, now: float) -> None:
        for command in self.core.handle(event, Now(now, WALL + now)):
            self.commands.append(command)
            if isinstance(command, Write) or (isinstance(command, PutLatest) and command.subject.startswith("ledger.")):
                self.unsent.append(command)
                if isinstance(command, Write) and command.guard is None:
                    self.sent_at[command.token] = now
            elif isinstance(command, Read):
                self.reads.append(command.subject)

    def receive_facts(self, most: int, now: float) -> None:
        for subject, fact in self.facts[self.facts_read : self.facts_read + most]:
            self.facts_read += 1
            self.send(FactReceived(subject, fact, self.facts_read), now)

    def receive(self, most: int, now: float) -> None:
        for sequence, subject, message in self.server.log[self.read_up_to : self.read_up_to + most]:
            self.read_up_to += 1
            match message:
                case Lease():
                    self.send(LeaseReceived(message), now)
                case Fence():
                    self.send(FenceReceived(message), now)
                case NodeLedger():
                    self.send(LedgerReceived(node_of(subject), sequence, message), now)

    def flush(self, most: int, now: float) -> None:
        for _ in range(min(most, len(self.unsent))):
            command = self.unsent.pop(0)
            if isinstance(command, PutLatest):
                self.server.put(command.subject, command.message)
                continue
            if now > self.sent_at.get(command.token, now) + PERIOD / 2:
                # Without a guard a write must not be later than another process can take over.
                self.answers.append(WriteUnknown(command.token))
                continue
            sequence = self.server.write(command)
            answer = WriteConflict(command.token) if sequence is None else Written(command.token, sequence)
            self.answers.append(answer)

    def answer(self, now: float) -> None:
        answers, self.answers = self.answers, []
        for each in answers:
            self.send(each, now)
        reads, self.reads = self.reads, []
        for subject in reads:
            sequence = self.server.last.get(subject, 0)
            where = address(subject)
            if where is not None and where.kind == "ledger":
                if sequence:
                    self.send(LedgerReceived(where.key, sequence, self.server.ledgers[where.key]), now)
                self.send(ReadBack(subject, sequence), now)

    def step(self, now: float) -> None:
        self.receive_facts(10**6, now)
        self.receive(10**6, now)
        self.send(Tick(), now)
        self.flush(10**6, now)
        self.answer(now)
        self.receive(10**6, now)


class System:
    """Replicas, a server, and a clock."""

    def __init__(self, *names: str) -> None:
        self.server = Server()
        self.now = 100.0
        self.pods: dict[str, PodFact] = {}
        """The pods that were not moved yet."""
        self.facts: list[tuple[str, object]] = [(f"cluster.node.{each.name}", each) for each in NODES]
        for name in QUEUES:
            capability = {MEMORY: CAP} if name.startswith("capped") else {}
            self.facts.append((f"cluster.queue.{name}", QueueFact(name=name, capability=capability)))
        self.facts.append(("cluster.synced", Synced()))
        self.replicas = [self.start(name) for name in names]

    def start(self, name: str) -> Replica:
        return Replica(self.server, name, self.facts, self.now)

    def create(self, name: str, queue: str, memory: int = 40) -> None:
        made: PodFact = replace(pod(name, vgpu(1, memory)), queue=queue, created=self.now)
        self.pods[made.uid] = made
        self.server.queues[made.uid] = queue
        self.facts.append((f"cluster.pod.{made.uid}", made))

    def delete(self, uid: str) -> None:
        self.facts.append((f"cluster.pod.{uid}", Gone()))

    def move(self, uid: str, queue: str) -> None:
        """Move a pod to another queue, once."""
        moved = replace(self.pods.pop(uid), queue=queue)
        self.server.queues[uid] = queue
        self.facts.append((f"cluster.pod.{uid}", moved))

    def change_some_queue(self, rng: random.Random) -> None:
        """Change which queues belong together."""
        if rng.random() < 0.5:
            self.change_queue(rng.choice(QUEUES), parent=rng.choice(["", "above"]))
        else:
            self.change_queue("above", guarantee=rng.choice([{}, {MEMORY: 1}]))

    def change_queue(self, name: str, **fields: Any) -> None:
        capability = {MEMORY: CAP} if name.startswith("capped") else {}
        self.facts.append((f"cluster.queue.{name}", QueueFact(name=name, capability=capability, **fields)))

    def settle(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            for replica in self.replicas:
                replica.step(self.now)

    @property
    def claimed(self) -> Counter[str]:
        return Counter(claim.queue for ledger in self.server.ledgers.values() for claim in ledger.claims)

    @property
    def deciders(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for ledger in self.server.ledgers.values():
            for claim in ledger.claims:
                found.setdefault(claim.queue, set()).add(claim.decided_by)
        return found
