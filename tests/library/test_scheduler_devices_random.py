"""Pods with ResourceClaims that come and go: no device is given twice, and no pod waits that fits by a plain count."""

import os
from collections import Counter
from random import Random

import pytest
from deviceshare.model import Claim, DeviceClaimFact, Gone, Now
from support.builders import node
from support.devices import allocated, claim, gpu_class, gpus, key_of, scheduler_with, using

NODES = ("a", "b", "c")
HISTORIES = int(os.environ.get("DEVICESHARE_DEVICE_HISTORIES", "30"))


class History:
    """A cluster that changes at random, and what it holds, counted apart from the scheduler."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sizes = {name: self.random.randint(0, 4) for name in NODES}
        self.scheduler = scheduler_with(
            *map(node, NODES), gpu_class(), *(gpus(name, n) for name, n in self.sizes.items())
        )
        self.at = 0.0
        self.counts: dict[str, int] = {}
        self.facts: dict[str, DeviceClaimFact] = {}
        self.ledger: dict[str, tuple[str, Claim]] = {}

    @property
    def now(self) -> Now:
        return Now(self.at, 1e9 + self.at)

    def apply(self, fact: object) -> None:
        self.scheduler.apply(key_of(fact), fact, self.now)  # type: ignore[arg-type]

    def arrive(self) -> None:
        name = f"p{len(self.counts)}"
        self.counts[name] = self.random.randint(1, 3)
        self.facts[name] = claim(f"c-{name}", self.counts[name], owner=f"uid-{name}")
        self.apply(self.facts[name])
        self.apply(using(name, f"c-{name}", template="t"))

    def resize(self) -> None:
        name = self.random.choice(NODES)
        self.sizes[name] = self.random.randint(0, 4)
        self.apply(gpus(name, self.sizes[name]))

    def write(self) -> None:
        """Let facts show the devices of a claim that was decided."""
        open_claims = [name for name in self.ledger if self.facts[name].allocation is None]
        if open_claims:
            name = self.random.choice(open_claims)
            (of_claim,) = self.ledger[name][1].devices
            devices = [(each.pool, each.device) for each in of_claim.results]
            self.facts[name] = allocated(self.facts[name], devices, f"uid-{name}")
            self.apply(self.facts[name])

    def end(self) -> None:
        """Let a placed pod go: in the order in which facts and ledger may show it."""
        if self.ledger:
            name = self.random.choice(sorted(self.ledger))
            where, made = self.ledger.pop(name)
            known = self.scheduler.cluster.ledger(where).claims.values()
            steps = [
                lambda: self.scheduler.apply(f"PodFact uid-{name}", Gone(), self.now),
                lambda: self.scheduler.claim(where, [each for each in known if each.id != made.id]),
                lambda: self.scheduler.apply(key_of(self.facts[name]), Gone(), self.now),
            ]
            self.random.shuffle(steps)
            for step in steps:
                step()
            del self.facts[name], self.counts[name]
            self.counts[f"gone-{len(self.counts)}-{name}"] = 0  # names are not used again

    def decide(self, taken_back: float = 0.2) -> int:
        """Decide a round and let its decisions stand but for a share of them; return how many there were."""
        self.at += 10.0
        before = len(self.ledger)
        for fact, placement, decision in self.scheduler.round(self.now).placed:
            if self.random.random() < taken_back:
                self.scheduler.release(placement.node, fact.uid)
                continue
            made = self.scheduler.new_claim(f"claim-{fact.uid}-{self.at}", fact, placement, decision, self.now)
            (of_claim,) = made.devices
            assert len(of_claim.results) == self.counts[fact.name]
            for each in of_claim.results:
                assert (each.pool, int(each.device.removeprefix("gpu-")) < self.sizes[placement.node]) == (
                    placement.node,
                    True,
                )
            known = self.scheduler.cluster.ledger(placement.node).claims.values()
            self.scheduler.claim(placement.node, [*known, made])
            self.ledger[fact.name] = placement.node, made
        assert not [device for device, users in self.used().items() if users > 1]
        return len(self.ledger) - before

    def used(self) -> Counter[tuple[str, str]]:
        return Counter(
            (each.pool, each.device) for _, made in self.ledger.values() for one in made.devices for each in one.results
        )

    def check_waiting(self) -> None:
        """Let all decisions stand; what waits then fits nowhere."""
        while self.decide(taken_back=0.0):
            pass
        used = self.used()
        free = {name: sum((name, f"gpu-{at}") not in used for at in range(size)) for name, size in self.sizes.items()}
        for name, count in self.counts.items():
            if count and name not in self.ledger:
                assert max(free.values()) < count, f"{name} waits for {count} devices, free are {free}"


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_devices_are_given_once_and_no_pod_waits_in_vain(seed: int) -> None:
    history = History(seed)
    actions = (history.arrive, history.arrive, history.write, history.end, history.resize, history.decide)
    for _ in range(60):
        history.random.choice(actions)()
    history.check_waiting()
