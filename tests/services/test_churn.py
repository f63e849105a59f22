"""Pods and nodes that come and go leave nothing behind: the sizes of all containers of the cores stay bounded.

``DEVICESHARE_CHURN_PODS`` sets the number of pods; 50,000 take some minutes.
"""

import os

import pytest
from deviceshare.model import Card, ContainerRequest, Gone, NodeFact, PodFact, PodGroupFact, PodRequest, Synced
from deviceshare_binder.core.commands import BindPod, ClusterWrite, ReadPod
from deviceshare_binder.core.events import BindAnswered, ClusterWritten, PodRead
from deviceshare_bus.core import CaughtUp, Now, PutLatest, Read, ReadBack, RecordStep, Tick, Write, Written
from deviceshare_bus.messages import Events, Step, encode
from deviceshare_bus.subjects import event, fact
from deviceshare_cluster.interface import BindState, Listed
from deviceshare_inventory.core import CompareRevisions, ComparisonFailed
from deviceshare_metrics.core import metrics_core
from support.fed import binder, metrics, placement
from support.hostile import message
from support.inventory import Bus, Driver, gone, node, pod, started, work_off
from support.sizes import sizes

PODS = int(os.environ.get("DEVICESHARE_CHURN_PODS", "1500"))
ROUND = 50
NODES = 5
LEFT = 12 * ROUND
"""Items that a container may hold when all pods are gone: some rounds of what is remembered for a while."""
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
        for command in self.cores[name].core.handle(what, Now(self.now, 1e9 + self.now)):
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
                    steps = (Step(uid, ref, step, 1e9 + self.now),)
                    self.write(event(name), Events(service=name, instance="i", at=1e9 + self.now, steps=steps))
                case BindPod():
                    self.bound[command.uid] = command
                    self.handle(name, BindAnswered(command.claim, BindState.BOUND, command.node, "", {}))
                case ReadPod():
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
    return PodFact(**identity, scheduler="deviceshare", group=group, queue="default", ask=ASK, node=node)


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


def test_placement_binder_and_metrics_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_core, "FORGET_PAUSE", 0.0)
    monkeypatch.setattr(metrics_core, "FORGET_INTERVAL", 0.0)
    system = System()
    system.cores["metrics"].core._most_gone = ROUND
    for number in range(PODS // ROUND):
        churn(system, number)
    system.now += 100.0
    system.tick(8)
    system.expire()
    assert {each for each in system.messages if each.startswith(("ledger", "outcome"))} == set()
    assert {each for each in system.messages if each.startswith("explain")} == set()
    for name, fed in system.cores.items():
        large = {path: size for path, size in sizes(fed.core).items() if size > LEFT}
        assert large == {}, name


def compared(driver: Driver, bus: Bus) -> None:
    """Let a round of comparisons pass, which the cluster does not answer."""
    driver.wait(100.0)
    while commands := [each for each in driver.take() if isinstance(each, CompareRevisions)]:
        for each in commands:
            driver.handle(ComparisonFailed(each.comparison, each.kind, "no answer", final=False))
    work_off(driver, bus)


def test_inventory_stays_bounded() -> None:
    driver, bus, _ = started([])
    revision = 10
    for number in range(PODS // ROUND):
        for at in range(ROUND):
            revision += 1
            driver.deliver([pod(f"pod-{number}-{at}", f"u-{number}-{at}", revision)])
        for at in range(NODES):
            revision += 1
            driver.deliver([node(f"node-{number}-{at}", revision)])
        work_off(driver, bus)
        if number % 10 == 5:
            driver.begin_list()
            driver.deliver([Listed(revision)])
            work_off(driver, bus)
            compared(driver, bus)
            continue
        for at in range(ROUND):
            revision += 1
            driver.deliver([gone("Pod", f"pod-{number}-{at}", revision)])
        for at in range(NODES):
            revision += 1
            driver.deliver([gone("Node", f"node-{number}-{at}", revision)])
        work_off(driver, bus)
        compared(driver, bus)
    large = {path: size for path, size in sizes(driver.core).items() if size > 2 * ROUND}
    assert large == {}
