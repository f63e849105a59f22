"""Two replicas that decide at the same time violate no inter-pod constraint, in whatever order they read the ledger."""

from itertools import combinations
from random import Random

import pytest
from deviceshare.model import HOSTNAME, NodeFact, PodFact, PodSelection, PodTerm, PodTopology, Requirement
from deviceshare_bus.messages.subjects import Stream
from msgspec.structs import replace
from support.builders import ask, container, node, pod
from support.bus_simulation import Bus, Cluster, Replica

ZONE = "topology.kubernetes.io/zone"
ZONES = {"a": "1", "b": "1", "c": "2", "d": "2", "e": "3"}


def place(name: str) -> NodeFact:
    return node(name, labels={HOSTNAME: name, ZONE: ZONES[name]})


def labelled(name: str, app: str, *, apart: bool) -> PodFact:
    selected = PodSelection((Requirement("app", "In", (app,)),), ("ns",))
    topology = PodTopology("ns", (("app", app),), anti_affinity=(PodTerm(ZONE, selected),)) if apart else None
    return replace(pod(name, ask(container(cpu=100), topology=topology)), labels=(("app", app),))


class Race:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bus = Bus()
        self.cluster = Cluster(self.bus)
        for name in ZONES:
            self.cluster.put(place(name))
        self.cluster.sync()
        self.replicas = [Replica(self.bus, f"placement-{at}") for at in range(2)]
        for at, replica in enumerate(self.replicas):
            # They prefer different nodes, so that no ledger of a node conflicts.
            replica.core.scheduler.cluster.allocator.prefer(lambda name, sign=1 - 2 * at: (sign * ord(name), 0))
        self.now, self.pods = 1000.0, 0

    def step(self) -> None:
        replica = self.random.choice(self.replicas)
        match self.random.choice(("pod", "ledger", "ledger", "decide", "decide", "answer", "read back")):
            case "pod" if self.pods < 9:
                self.pods += 1
                app = self.random.choice(("db", "web"))
                self.cluster.put(labelled(f"p{self.pods}", app, apart=self.random.random() < 0.6))
                # The first pod with a term waits until all replicas know it, and each other's claims.
                for each in self.replicas:
                    each.read(Stream.CLUSTER, 1000, self.now)
                    each.read(Stream.LEDGER, 1000, self.now)
            case "ledger":
                replica.read(Stream.LEDGER, self.random.randint(1, 3), self.now)
            case "decide":
                for each in self.replicas:
                    each.read(Stream.CLUSTER, 1000, self.now)
                    each.read(Stream.OUTCOME, 1000, self.now)
                for each in self.replicas if self.random.random() < 0.5 else [replica]:
                    each.tick(self.now)
            case "answer" if replica.answers:
                replica.answer(0, self.now)
            case "read back" if replica.read_backs:
                replica.read_back(0, self.now)
        self.now += 0.1

    def violations(self) -> list[str]:
        claims = [
            (self.cluster.pods[claim.uid], ZONES[name])
            for name, ledger in self.bus.ledgers().items()
            for claim in ledger.claims
        ]
        return [
            f"{one.name} and {other.name} are both in zone {zone}"
            for (one, zone), (other, other_zone) in combinations(claims, 2)
            if zone == other_zone
            and one.uid != other.uid
            and one.labels == other.labels
            and (one.ask.topology is not None or other.ask.topology is not None)
        ]


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_no_two_claims_violate_anti_affinity(first: int) -> None:
    claims = 0
    for seed in range(first, first + 20):
        race = Race(seed)
        for _ in range(60):
            race.step()
            assert race.violations() == [], seed
        claims += sum(len(ledger.claims) for ledger in race.bus.ledgers().values())
    assert claims > 20
