"""Pods that wait for volumes in random clusters that change: what may help them makes them be tried again.

``DEVICESHARE_WAITING_CLUSTERS`` sets how many clusters are tried.
"""

import os
from random import Random

import pytest
from deviceshare.model import (
    HOSTNAME,
    PodFact,
    PodVolume,
    Requirement,
    StorageClassFact,
    VolumeClaimFact,
    VolumeFact,
    VolumeLimitsFact,
)
from msgspec.structs import replace
from support.builders import ask, container, node, pod
from support.played import Played

CLUSTERS = int(os.environ.get("DEVICESHARE_WAITING_CLUSTERS", "20"))
HOSTS, CLASSES = ("a", "b", "c"), ("local", "made")
DRIVERS = ("one.example.com", "two.example.com")
PROVISIONERS = ("kubernetes.io/no-provisioner", *DRIVERS)
PODS = 10
MODES = (("RWO",), ("ReadWriteOncePod",))


class Cluster:
    """Three nodes, and random objects of storage and pods, of which single ones change."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.core = Played(*(node(host, labels={HOSTNAME: host}) for host in HOSTS))
        self.known: dict[tuple[str, str], object] = {}
        for name in CLASSES:
            self.storage_class(name)
        for number in range(5):
            self.volume(f"pv-{number}")
            self.claim(f"c{number}")
        for number in range(PODS):
            self.pod(f"p{number}")

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def put(self, kind: str, key: str, fact: object | None) -> None:
        if fact is not None:
            self.known[kind, key] = fact
            self.core.put(fact)
        elif self.known.pop((kind, key), None) is not None:
            self.core.remove(kind, key)

    def terms(self) -> tuple[tuple[Requirement, ...], ...] | None:
        hosts = tuple(self.random.sample(HOSTS, self.random.randint(1, 2)))
        return ((Requirement(HOSTNAME, "In", hosts),),) if self.chance(0.8) else None

    def storage_class(self, name: str) -> None:
        fact = StorageClassFact(name=name, provisioner=self.random.choice(PROVISIONERS), waits=self.chance(0.8))
        self.put("storageclass", name, fact if self.chance(0.9) else None)

    def volume(self, name: str) -> None:
        claimed = f"c{self.random.randint(0, 4)}" if self.chance(0.6) else ""
        driver = self.random.choice(("", *DRIVERS))
        fact = VolumeFact(
            name=name,
            storage_class=self.random.choice(CLASSES),
            available=self.chance(0.8),
            terminating=self.chance(0.1),
            claim=f"ns/{claimed}" if claimed else "",
            claim_uid=self.random.choice(("", f"uid-{claimed}", f"uid-{claimed}", "uid-x")) if claimed else "",
            capacity=self.random.randint(1, 3),
            access_modes=("RWO", "ReadWriteOncePod"),
            node_terms=self.terms(),
            driver=driver,
            handle=f"h{self.random.randint(0, 2)}" if driver else "",
        )
        self.put("volume", name, fact if self.chance(0.85) else None)

    def claim(self, name: str) -> None:
        volume = f"pv-{self.random.randint(0, 4)}" if self.chance(0.5) else ""
        fact = VolumeClaimFact(
            key=f"ns/{name}",
            uid=f"uid-{name}",
            storage_class=self.random.choice(CLASSES),
            volume=volume,
            bound=bool(volume) and self.chance(0.8),
            requested=self.random.randint(1, 3),
            access_modes=self.random.choice(MODES),
            selected_node=self.random.choice(HOSTS) if self.chance(0.2) else "",
        )
        self.put("volumeclaim", f"ns/{name}", fact if self.chance(0.85) else None)

    def pod(self, name: str) -> None:
        before = self.known.get(("pod", f"uid-{name}"))
        if isinstance(before, PodFact):
            self.put("pod", before.uid, None)
            return
        claims = self.random.sample(range(5), self.random.randint(1, 2))
        volumes = tuple(PodVolume(f"v{number}", f"c{number}") for number in claims)
        fact = pod(name, replace(ask(container(cpu=10)), volumes=volumes))
        if self.chance(0.3):
            fact = replace(fact, node=self.random.choice(HOSTS))
        self.put("pod", fact.uid, fact)

    def step(self) -> None:
        match self.random.choice(
            ("class", "volume", "volume", "volume", "claim", "claim", "limits", "limits", "pod", "pod")
        ):
            case "class":
                self.storage_class(self.random.choice(CLASSES))
            case "volume":
                self.volume(f"pv-{self.random.randint(0, 4)}")
            case "claim":
                self.claim(f"c{self.random.randint(0, 4)}")
            case "limits":
                host = self.random.choice(HOSTS)
                drivers = tuple((driver, self.random.randint(0, 2)) for driver in DRIVERS if self.chance(0.6))
                self.put("volumelimits", host, VolumeLimitsFact(name=host, drivers=drivers))
            case _:
                self.pod(f"p{self.random.randint(0, PODS - 1)}")

    def settle(self) -> list[str]:
        """Decide until nothing changes; return the pods that are placed."""
        found = []
        while (out := self.core.tick()).writes:
            found += [claim.name for claim in out.claims]
            self.core.written(out)
        return found

    def explain(self) -> None:
        """Let it explain why pods wait, for which it tries them again."""
        for _ in range(3):
            assert not self.core.tick(20.0).writes
        assert not len(self.core.core.scheduler.cluster.dispatcher)


@pytest.mark.parametrize("first", range(0, CLUSTERS, 20))
def test_no_waiting_pod_is_forgotten(first: int) -> None:
    placed = 0
    for seed in range(first, min(first + 20, CLUSTERS)):
        cluster = Cluster(seed)
        cluster.settle()
        for number in range(30):
            cluster.explain()
            cluster.step()
            placed += len(cluster.settle())
            cluster.core.core.scheduler.cluster.reconsider_all()
            cluster.core.sync()  # without an event nothing is decided
            assert cluster.settle() == [], (seed, number)
    assert placed
