"""Random histories of preemption: replicas that lag, conflict and die, budgets that refuse, pods that come and go.

After every event what is held fits, now and with the nominated pods in the place of those that go; no pod is asked or
evicted without a claim for the place; in the end everything is settled, and no pod has gone in vain without a fault.
"""

from collections.abc import Sequence
from random import Random

import pytest
from deviceshare.model import (
    BLOCKED,
    MAY_GO,
    Claim,
    ConfigFact,
    GroupKey,
    NodeLedger,
    Outcome,
    PodGroupFact,
    PriorityClassFact,
)
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu
from support.bus_simulation import Binder, Bus, Cluster, Replica, overdrawn
from support.preemption_scene import conf

CONF = conf(
    "priority gang conformance", off=["gang.enablePreemptable"], StarvationSeconds=0, PreemptionTimeoutSeconds=20
)
SIZES = (30, 50, 100)
PRIORITIES = (0, 10, 100)
STREAMS = ("CLUSTER", "LEDGER", "OUTCOME")


class EvictingBinder(Binder):
    """Answers evictions; ``blocks`` returns whether the next request is refused."""

    def __init__(self, bus: Bus, cluster: Cluster) -> None:
        super().__init__(bus, cluster)
        self.known: dict[str, dict[tuple[str, str], Outcome]] = {}
        self.evicted: dict[str, str] = {}
        """For each evicted pod the uid of the pod for which it went."""
        self.allowed: set[str] = set()
        """The pods that may go, as far as was asked."""
        self.blocks = 0
        self.of_taken_room: set[str] = set()
        """The pods that went for pods whose room was taken."""

    def evict(self, ledger: NodeLedger) -> Sequence[Outcome]:
        before = self.known.get(ledger.node, {})
        known = {}
        for each in ledger.evictions:
            key = (each.claim, each.uid)
            victim = self.cluster.pods.get(each.uid)
            gone = victim is None or victim.ended or victim.terminating
            if each.go and not gone:
                if self.blocks:
                    self.blocks -= 1
                    known[key] = Outcome(each.claim, each.uid, BLOCKED, "the budget does not allow it")
                    continue
                assert each.uid in self.allowed
                self.evicted[each.uid] = self._nominated_by(each.claim, each.uid)
                self.cluster.put(replace(victim, terminating=True))
            elif not each.go and key not in before and self.blocks and not gone:
                self.blocks -= 1
                known[key] = Outcome(each.claim, each.uid, BLOCKED, "the budget does not allow it")
                continue
            if key not in before and each.uid in self.evicted:
                # A pod of higher priority has taken the room, and needs perhaps not all of it.
                for claim, uid in before:
                    if uid == each.uid:
                        self.of_taken_room |= set(self._claim(claim).waits_for)
                self.evicted[each.uid] = self._nominated_by(each.claim, each.uid)
            known[key] = before.get(key) or Outcome(each.claim, each.uid, MAY_GO)
            self.allowed.add(each.uid)
        self.known[ledger.node] = known
        return tuple(known.values())

    def _nominated_by(self, claim_id: str, uid: str) -> str:
        """Return the pod of the claim for which a pod goes: LEDGER has held the claim, and all that was decided."""
        claim = self._claim(claim_id)
        assert uid in claim.waits_for
        staying = (self.cluster.pods.get(other) for other in claim.waits_for)
        assert all(each is None or each.terminating or each.uid in self.allowed for each in staying)
        return claim.uid

    def _claim(self, claim_id: str) -> Claim:
        for _, _, ledger in reversed(self.bus.streams["LEDGER"]):
            for claim in ledger.claims:
                if claim.id == claim_id:
                    return claim
        raise AssertionError("evicted without a claim")


class History:
    """One random history."""

    def __init__(self, seed: int, replicas: int, faults: bool) -> None:
        self.rng, self.faults = Random(seed), faults
        self.bus = Bus()
        self.cluster = Cluster(self.bus)
        self.now = 0.0
        self.pods = 0
        self.names = 0
        self.checked: list[int] = []
        config = ConfigFact(name="scheduler", text=CONF, source="conf")
        self.bus.put("CLUSTER", "cluster.config.scheduler", config)
        for priority in PRIORITIES:
            fact = PriorityClassFact(name=f"p{priority}", value=priority)
            self.bus.put("CLUSTER", f"cluster.priorityclass.{fact.name}", fact)
        for name in "ab":
            self.cluster.put(node(name, [card(at, node=name, memory=100, slots=3) for at in range(2)]))
        self.cluster.sync()
        self.binder = EvictingBinder(self.bus, self.cluster)
        for _ in range(4):
            self.create(0)
        self.replicas = [self.new_replica() for _ in range(replicas)]

    def new_replica(self) -> Replica:
        self.names += 1
        return Replica(self.bus, f"r{self.names}")

    # What happens

    def create(self, priority: int | None = None) -> None:
        rng = self.rng
        priority = rng.choice(PRIORITIES) if priority is None else priority
        request = vgpu(rng.choice((1, 1, 2)), rng.choice(SIZES))
        count = rng.choice((1, 1, 1, 2, 3))
        self.pods += 1
        gang = f"g{self.pods}" if count > 1 else ""
        if gang:
            self.cluster.put(
                PodGroupFact(
                    key=GroupKey(f"ns/{gang}"), uid=f"pg-{gang}", min_member=count, queue="default",
                    priority_class=f"p{priority}", admitted=True, phase="Inqueue", created=float(self.pods),
                )
            )  # fmt: skip
        for at in range(count):
            name = f"p{self.pods}-{at}"
            self.cluster.put(
                pod(name, request, gang=gang, priority=priority, scheduler="volcano", created=float(self.pods))
            )

    def kubelet(self) -> None:
        """Let a terminating pod go."""
        if leaving := sorted(uid for uid, each in self.cluster.pods.items() if each.terminating):
            self.cluster.remove("pod", self.rng.choice(leaving))

    def end(self) -> None:
        """Let a bound pod end."""
        if bound := sorted(uid for uid, each in self.cluster.pods.items() if each.node):
            self.cluster.remove("pod", self.rng.choice(bound))

    def delete_waiting(self) -> None:
        if waiting := sorted(uid for uid, each in self.cluster.pods.items() if not each.node):
            self.cluster.remove("pod", self.rng.choice(waiting))

    def kill(self) -> None:
        self.replicas[self.rng.randrange(len(self.replicas))] = self.new_replica()

    def read(self) -> None:
        self.replica.read(self.rng.choice(STREAMS), self.rng.randint(1, 6), self.now)

    def tick(self) -> None:
        if self.rng.random() < 0.7:
            for stream in self.rng.sample(STREAMS, 3):
                self.replica.read(stream, 100, self.now)
        self.replica.tick(self.now)

    def answer(self) -> None:
        if self.replica.answers:
            self.replica.answer(self.rng.randrange(len(self.replica.answers)), self.now)

    def read_back(self) -> None:
        if self.replica.read_backs:
            self.replica.read_back(0, self.now)

    def bind(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.binder.work(skip=self.rng.random() < 0.3)

    def block(self) -> None:
        self.binder.blocks += self.rng.randint(0, 2)

    def step(self) -> None:
        self.replica = self.rng.choice(self.replicas)
        self.now += self.rng.choice((0.0, 0.01, 0.3))
        usual = {
            self.read: 12, self.tick: 10, self.answer: 8, self.bind: 8, self.kubelet: 2, self.create: 2, self.end: 1,
            self.read_back: 4,
        }  # fmt: skip
        faults = {self.delete_waiting: 1, self.kill: 1, self.block: 1} if self.faults else {}
        (happens,) = self.rng.choices([*usual, *faults], [*usual.values(), *faults.values()])
        happens()
        written = [len(self.bus.streams[stream]) for stream in STREAMS]
        if written != self.checked:
            self.checked = written
            self.check()

    def drain(self) -> None:
        """Let everything happen that is due, until nothing does."""
        self.binder.blocks = 0
        idle = 0
        for _ in range(5000):
            for replica in self.replicas:
                for stream in STREAMS:
                    replica.read(stream, 1000, self.now)
                while replica.answers:
                    replica.answer(0, self.now)
                while replica.read_backs:
                    replica.read_back(0, self.now)
                for stream in STREAMS:
                    replica.read(stream, 1000, self.now)
                before = len(self.bus.streams["LEDGER"])
                replica.tick(self.now)
                idle = 0 if len(self.bus.streams["LEDGER"]) > before else idle
            while self.binder.busy:
                self.binder.work()
                idle = 0
            self.check()
            if any(each.terminating for each in self.cluster.pods.values()):
                self.kubelet()
                idle = 0
            idle += 1
            self.now += 1.0
            if idle > 60:
                return
        raise AssertionError("it does not settle")

    # What holds

    def waiting_claims(self, ledgers: dict[str, NodeLedger]) -> list[tuple[str, Claim]]:
        return [(name, claim) for name, ledger in ledgers.items() for claim in ledger.claims if claim.waits_for]

    def check(self) -> None:
        ledgers = self.bus.ledgers()
        assert not overdrawn(self.cluster, ledgers)
        waiting = self.waiting_claims(ledgers)
        going = {uid for _, claim in waiting for uid in claim.waits_for}
        opened = {
            name: replace(
                ledger,
                claims=tuple(replace(claim, waits_for=()) for claim in ledger.claims if claim.uid not in going),
            )
            for name, ledger in ledgers.items()
        }
        gone = {uid: each for uid, each in self.cluster.pods.items() if uid in going}
        for uid in gone:
            del self.cluster.pods[uid]
        try:
            assert not overdrawn(self.cluster, opened)
        finally:
            self.cluster.pods |= gone
        evictions = [each for ledger in ledgers.values() for each in ledger.evictions]
        assert len({each.uid for each in evictions}) == len(evictions)
        claims = {claim.id: claim for _, claim in waiting}
        preemptors = {claim.uid for _, claim in waiting}
        assert not preemptors & going
        for each in evictions:
            assert each.uid in claims[each.claim].waits_for
            preemptor, victim = self.cluster.pods.get(claims[each.claim].uid), self.cluster.pods.get(each.uid)
            if preemptor is not None and victim is not None:
                assert victim.priority < preemptor.priority
        for waits_for in {claim.waits_for for _, claim in waiting}:
            ids = {claim.id for _, claim in waiting if claim.waits_for == waits_for}
            of = [each for each in evictions if each.claim in ids]
            assert len({each.go for each in of}) <= 1

    def check_settled(self) -> None:
        ledgers = self.bus.ledgers()
        assert not self.waiting_claims(ledgers)
        assert not any(ledger.evictions for ledger in ledgers.values())
        placed = {claim.uid for ledger in ledgers.values() for claim in ledger.claims}
        for uid, each in self.cluster.pods.items():
            assert bool(each.node) == (uid in placed), each.name
        # Nothing is left that a replica would do which has just started.
        self.bus.streams["CLUSTER"] = [
            (sequence, subject, message) for sequence, (_, subject, message) in
            enumerate(self.bus.latest("CLUSTER"), 1)
        ]  # fmt: skip
        successor = self.new_replica()
        for stream in STREAMS:
            successor.read(stream, 10_000, self.now)
        writes = len(self.bus.streams["LEDGER"])
        for _ in range(5):
            successor.tick(self.now)
            self.now += 1.0
        assert len(self.bus.streams["LEDGER"]) == writes, "a new replica finds something to do"


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_held_fits_and_everything_settles(seed: int, faults: bool, replicas: int) -> None:
    history = History(seed, replicas, faults)
    for _ in range(300):
        history.step()
    history.drain()
    history.check_settled()
    if not faults:
        for victim, preemptor in history.binder.evicted.items():
            fact = history.cluster.pods.get(preemptor)
            assert victim in history.binder.of_taken_room or fact is None or fact.node, f"{victim} has gone in vain"
