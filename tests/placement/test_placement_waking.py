"""Which waiting pods a change of nodes makes be tried again: all that it may serve, and hardly any other.

``DEVICESHARE_WAKING_CLUSTERS`` sets how many random clusters are tried.
"""

import os
from collections.abc import Iterator
from random import Random

import pytest
from deviceshare.allocation import Allocator
from deviceshare.model import (
    HOSTNAME,
    GroupKey,
    HostPort,
    PodFact,
    PodGroupFact,
    PodRequest,
    PodSelection,
    PodTerm,
    PodTopology,
    QueueFact,
    Requirement,
)
from deviceshare.queueing import round_work
from deviceshare_placement.core import PlacementCore
from msgspec.structs import replace
from support.builders import ask, card, cards, container, node, pod, vgpu
from support.played import Commands, Played
from support.random_clusters import ask_of, conf_of, node_of

CLUSTERS = int(os.environ.get("DEVICESHARE_WAKING_CLUSTERS", "8"))
NAMES = ("a", "b", "c")
SHAPES = 400
APP = PodSelection(((Requirement("app", "In", ("db",))),), ("ns",))


class Cluster:
    """Nodes and pods of all families, of which single ones change."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.sort = self.chance.choice((None, None, 0, 1, 2, 3))
        self.core = Played(empty=True)
        self.core.core.scheduler.cluster.configure(conf_of(self.chance))
        self.pods: dict[str, PodFact] = {}
        self.nodes: set[str] = set()
        for number in range(12):
            self.create(number)

    def node(self) -> None:
        name = self.chance.choice(NAMES)
        if name in self.nodes and self.chance.random() < 0.2:
            self.nodes.remove(name)
            self.core.remove("node", name)
            return
        labels = {HOSTNAME: name, "zone": self.chance.choice("xy")}
        if self.chance.random() < 0.5:
            labels["disk"] = self.chance.choice(("ssd", "hdd"))
        fact = replace(node_of(self.chance, name, self.sort), labels=labels, paused=self.chance.choice(("", "", "why")))
        if self.chance.random() < 0.3:
            fact = replace(fact, allocatable={**fact.allocatable, "example.com/thing": self.chance.randint(0, 2)})
        self.nodes.add(name)
        self.core.put(fact)

    def request(self) -> PodRequest:
        request = ask_of(self.chance, self.sort)
        match self.chance.randrange(9):
            case 0:
                return replace(request, node_selector=(("disk", "ssd"), ("zone", self.chance.choice("xyz"))))
            case 1:
                terms = ((Requirement("disk", "In", ("ssd", "nvme")),), (Requirement("zone", "Exists", ()),))
                return replace(request, node_terms=terms[: self.chance.randint(1, 2)])
            case 2:
                name = Requirement("metadata.name", "In", (self.chance.choice(NAMES),), field=True)
                return replace(request, node_terms=((name,), (Requirement("disk", "In", ("hdd",)),)))
            case 3:
                return replace(request, containers=(*request.containers, container("more", **{"example.com/thing": 1})))
            case 4:
                return replace(request, host_ports=(HostPort("TCP", "", 80),))
            case 5:
                key = self.chance.choice((HOSTNAME, "zone"))
                return replace(request, topology=PodTopology("ns", (), anti_affinity=(PodTerm(key, APP),)))
            case 6:
                return replace(request, topology=PodTopology("ns", (), affinity=(PodTerm("zone", APP),)))
        return request

    def create(self, number: int) -> None:
        request, labels = self.request(), (("app", self.chance.choice(("db", "web"))),)
        count = self.chance.choice((1, 1, 2, 3))
        gang = f"g{number}" if count > 1 else ""
        if gang:
            self.core.put(PodGroupFact(key=GroupKey(f"ns/{gang}"), uid=gang, min_member=count, admitted=True))
        for at in range(count):
            fact = pod(f"p{number}-{at}", request, gang=gang, labels=labels)
            self.pods[fact.uid] = fact
            self.core.put(fact)

    def step(self, number: int) -> None:
        match self.chance.randrange(4):
            case 0:
                self.create(100 + number)
            case 1 if self.pods:
                self.core.gone(self.pods.pop(self.chance.choice(sorted(self.pods))))
            case _:
                self.node()

    def settle(self) -> list[str]:
        """Decide until nothing is due; return the pods that are placed."""
        placed = []
        while True:
            out = self.core.tick()
            placed += [claim.name for claim in out.claims]
            self.core.written(out)
            if not out.writes and self.core.due != 0.0:
                return placed


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_no_waiting_pod_is_forgotten(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # rounds that end after some decisions
        monkeypatch.setattr(round_work, "DECIDING", 10)
        monkeypatch.setattr(round_work, "EXPLAINING", 20)
    cluster = Cluster(seed)
    placed = 0
    for number in range(30):
        cluster.step(number)
        placed += len(cluster.settle())
        cluster.core.core.scheduler.cluster.reconsider_all()
        cluster.core.sync()  # without an event nothing is decided
        assert cluster.settle() == [], number
    assert placed


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PodRequest]]:
    """The requests for which a node was looked for, in order."""
    requests: list[PodRequest] = []
    place = Allocator.place

    def counting(allocator: Allocator, request: PodRequest):
        requests.append(request)
        return place(allocator, request)

    monkeypatch.setattr(Allocator, "place", counting)
    return requests


def of_shapes(shape: str, count: int) -> Iterator[PodRequest]:
    for number in range(count):
        match shape:
            case "cpu":
                yield ask(container(cpu=1_000_000 + number))
            case "card memory":
                yield vgpu(1, 100_000 + number)
            case "node selector":
                yield ask(container(cpu=10), node_selector=(("disk", f"d{number}"),))
            case "node affinity":
                yield ask(container(cpu=10), node_terms=((Requirement("disk", "In", (f"d{number}", f"e{number}")),),))
            case "node name":
                name = Requirement("metadata.name", "In", (f"n{number}",), field=True)
                yield ask(container(cpu=10), node_terms=((name,),))
            case "resource":
                yield ask(container(cpu=10, **{f"example.com/r{number}": 1}))
            case "gpu and cpu":
                yield ask(container(**{"volcano.sh/vgpu-number": 1, "cpu": 900_000 + number}))


def waiting(shape: str) -> Played:
    large = node("large", [card(0, memory=200_000, node="large")], ready=False)
    core = Played(node("a", cards(2, memory=100)), node("b", cards(2, memory=100)), large)
    for number, request in enumerate(of_shapes(shape, SHAPES)):
        core.put(pod(f"w{number}", request))
    until_explained(core.core, core)
    return core


def until_explained(core: PlacementCore, played: Played) -> None:
    """Tick until every waiting pod has its reason."""
    ticks = 0
    while core.open_work and (ticks := ticks + 1) < 10 * SHAPES:
        played.decided(played.due or 0.0)
    assert not core.open_work


@pytest.mark.parametrize(
    "shape", ["cpu", "card memory", "node selector", "node affinity", "node name", "resource", "gpu and cpu"]
)
def test_a_node_that_changes_costs_no_look_at_pods_that_it_cannot_serve(shape, evaluated) -> None:
    core = waiting(shape)
    evaluated.clear()
    core.put(node("a", cards(2, memory=100), labels={"disk": "other"}), node("c", cards(2, memory=100)))
    core.remove("node", "b")
    core.tick()
    assert evaluated == []
    core.put(pod("small", vgpu(1, 10)))
    assert placed(core.tick()) == ["small"]
    assert len(evaluated) == 1


def placed(out: Commands) -> list[str]:
    return [claim.name for claim in out.claims]


@pytest.mark.parametrize(
    ("shape", "fact", "names"),
    [
        ("cpu", node("c", cpu=1_000_000), ["w0"]),
        ("card memory", node("c", [card(0, memory=100_000, node="c")]), ["w0"]),
        ("node selector", node("c", labels={"disk": "d7"}), ["w7"]),
        ("node affinity", node("c", labels={"disk": "e7"}), ["w7"]),
        ("node name", node("n7"), ["w7"]),
        ("resource", node("c", **{"example.com/r7": 1}), ["w7"]),
    ],
)
def test_a_node_that_comes_serves_the_one_pod_that_waits_for_it(shape, fact, names, evaluated) -> None:
    core = waiting(shape)
    evaluated.clear()
    core.put(fact)
    assert placed(core.tick()) == names
    assert len(evaluated) <= 2


def test_a_limit_of_a_queue_that_does_not_change_costs_no_look_at_the_pods_that_it_holds_back(evaluated) -> None:
    core = Played(node("a", cpu=100_000))
    core.put(QueueFact(name="default", capability={"cpu": 1000}), pod("first", ask(container(cpu=500))))
    core.decided()
    for number in range(SHAPES):
        core.put(pod(f"w{number}", ask(container(cpu=600 + number))))
    until_explained(core.core, core)
    allowed = core.core.scheduler.cluster.accounts.allows
    asked = []
    core.core.scheduler.cluster.accounts.allows = lambda *args, **more: asked.append(args) or allowed(*args, **more)  # type: ignore[method-assign]
    core.put(node("b"))
    core.tick()
    assert len(asked) < 10
    core.gone(pod("first"))
    assert placed(core.tick()) == ["w0"]
