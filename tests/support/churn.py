"""Placement, the binder and metrics on one bus without a server, and pods and nodes that come and go on it."""

from collections import defaultdict

from deviceshare.model import Card, ContainerRequest, Gone, NodeFact, PodFact, PodGroupFact, PodRequest, Synced
from deviceshare_binder.core.commands import BindPod, ClusterWrite, FencePod, ReadPod
from deviceshare_binder.core.events import BindAnswered, ClusterWritten, PodRead
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Now,
    PutLatest,
    Read,
    ReadBack,
    RecordStep,
    Tick,
    Write,
    Written,
)
from deviceshare_bus.messages.codec import Events, Step, encode
from deviceshare_bus.messages.subjects import event, fact
from deviceshare_cluster.interface import BindState
from support.fed import binder, metrics, placement
from support.hostile import message

ROUND = 50
NODES = 5
WALL = 1e9
ASK = PodRequest(
    containers=(ContainerRequest("main", (("volcano.sh/vgpu-memory", 10), ("volcano.sh/vgpu-number", 1))),)
)


class System:
    """Placement, the binder and metrics on one bus without a server; the cluster binds what is requested."""

    def __init__(self) -> None:
        self.cores = {"placement": placement(), "binder": binder(), "metrics": metrics()}
        self.messages: dict[str, tuple[int, bytes]] = {}
        self.expiring: set[str] = set()
        self.sequence = 0
        self.now = 1000.0
        self.wall = WALL
        self.commands: defaultdict[str, list[Command]] = defaultdict(list)
        self.bound: dict[str, BindPod] = {}
        self.write("cluster.synced", Synced(revision="1"))
        for name, fed in self.cores.items():
            for stream in fed.streams:
                self.handle(name, CaughtUp(stream))

    def write(self, subject: str, content: object, ttl: float | None = None) -> int:
        self.sequence = sequence = self.sequence + 1
        data = encode(content)
        self.messages[subject] = (sequence, data)
        (self.expiring.add if ttl else self.expiring.discard)(subject)
        stream = {"cluster": "CLUSTER", "ledger": "LEDGER", "outcome": "OUTCOME", "explain": "EXPLAIN"}
        for name, fed in self.cores.items():
            if stream.get(subject.partition(".")[0], "EVENT") in fed.streams:
                found = fed.decode(message(subject, data, sequence))
                if found is not None:
                    self.handle(name, found)
        return sequence

    def handle(self, name: str, what: object) -> None:
        for command in self.cores[name].core.handle(what, Now(self.now, self.wall + self.now)):
            self.commands[name].append(command)
            match command:
                case Write(token=token, writes=writes):
                    for each in writes:
                        assert each.expected == self.messages.get(each.subject, (0, b""))[0], each.subject
                    last = 0
                    for each in writes:
                        last = self.write(each.subject, each.message, each.ttl)
                    self.handle(name, Written(token, last))
                case Read(subject=subject):
                    self.handle(name, ReadBack(subject, self.messages.get(subject, (0, b""))[0]))
                case PutLatest(subject=subject, message=content, ttl=ttl):
                    self.write(subject, content, ttl)
                case RecordStep(uid=uid, pod=ref, name=step):
                    steps = (Step(uid, ref, step, self.wall + self.now),)
                    self.write(event(name), Events(service=name, instance="i", at=self.wall + self.now, steps=steps))
                case BindPod():
                    self.bound[command.uid] = command
                    self.handle(name, BindAnswered(command.claim, BindState.BOUND, command.node, "", {}))
                case ReadPod() | FencePod():
                    self.handle(name, PodRead(command.claim, None, None))
                case _ if isinstance(command, ClusterWrite):
                    self.handle(name, ClusterWritten(command))

    def tick(self, times: int = 4) -> None:
        for _ in range(times):
            self.now += 1.0
            for name in self.cores:
                self.handle(name, Tick())

    def expire(self) -> None:
        for subject in self.expiring:
            del self.messages[subject]
        self.expiring.clear()


def a_node(name: str) -> NodeFact:
    card = Card(f"GPU-{name}", 0, 100, 10_000, 100, "V100", True, "hami-core")
    return NodeFact(name=name, allocatable={"cpu": 10**6, "pods": 1000}, cards=(card,))


def a_pod(name: str, node: str = "") -> PodFact:
    group = f"default/g-{name}" if name.endswith("7") else f"pod/{name}"
    identity = {"uid": name, "namespace": "default", "name": name}
    return PodFact(**identity, revision="1", scheduler="deviceshare", group=group, queue="default", ask=ASK, node=node)


def churn(system: System, number: int) -> None:
    """Let nodes and pods of new names come and go."""
    nodes = [f"node-{number}-{at}" for at in range(NODES)]
    pods = [f"pod-{number}-{at}" for at in range(ROUND)]
    for name in nodes:
        system.write(fact("node", name), a_node(name))
    for name in pods:
        if name.endswith("7"):
            system.write(fact("podgroup", f"default/g-{name}"), PodGroupFact(key=f"default/g-{name}", uid=f"g-{name}"))
        system.write(fact("pod", name), a_pod(name))
    system.tick()
    for name in pods[: ROUND // 2]:
        if name in system.bound:
            system.write(fact("pod", name), a_pod(name, system.bound[name].node))
    if number % 2:
        for name in nodes:
            system.write(fact("node", name), Gone(), ttl=1)
    system.tick()
    for name in pods:
        system.write(fact("pod", name), Gone(), ttl=1)
        system.write(fact("podgroup", f"default/g-{name}"), Gone(), ttl=1)
    if not number % 2:
        for name in nodes:
            system.write(fact("node", name), Gone(), ttl=1)
    system.tick()
    system.bound.clear()
