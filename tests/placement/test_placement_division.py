"""Replicas of placement that divide the work, on a model of LEDGER: late writes, pauses, deaths and newcomers."""

import random

import pytest
from deviceshare.model import WITHDRAWN, Claim, GroupKey, NodeLedger, NodeOutcomes, Outcome
from deviceshare.scheduler.deciding import Deciding
from deviceshare_bus.cores.core import ReadBack, Tick, Write
from deviceshare_bus.messages.leases import PERIOD, RENEWALS, Lease
from deviceshare_bus.messages.subjects import ledger as ledger_subject
from deviceshare_placement.core import OutcomesReceived
from deviceshare_placement.core.own_work import SPLIT_ABOVE
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import MEMORY, pod, vgpu
from support.placement_replicas import CAP, QUEUES, System, check


@settings(max_examples=40, deadline=None)
@given(st.integers(min_value=0))
def test_queues_never_exceed_their_bounds_whatever_is_late_paused_or_dead(seed: int) -> None:
    rng = random.Random(seed)
    system = System("p1", "p2")
    started = 2
    for number in range(rng.randrange(30, 120)):
        system.now += rng.choice([0.0, 0.01, 0.1, 1.0, PERIOD * 1.5])
        match rng.randrange(10):
            case 0 | 1:
                system.create(f"pod-{number}", rng.choice(QUEUES), rng.choice([30, 40, 70]))
            case 4 if system.pods:
                system.move(rng.choice(sorted(system.pods)), rng.choice(QUEUES))
            case 5 | 6:
                system.change_some_queue(rng)
            case 2 if rng.random() < 0.3 and len(system.replicas) < 4:
                started += 1
                # Sometimes a process with the name of one that has ended.
                name = f"p{rng.randrange(1, started + 1)}"
                system.replicas = [each for each in system.replicas if each.name != name]
                system.replicas.append(system.start(name))
            case 3 if rng.random() < 0.2 and len(system.replicas) > 1:
                system.replicas.remove(rng.choice(system.replicas))
        for replica in system.replicas:
            match rng.randrange(7):
                case 0:
                    replica.receive(rng.randrange(1, 10), system.now)
                case 6:
                    replica.receive_facts(rng.randrange(1, 6), system.now)
                case 1 | 2:
                    replica.send(Tick(), system.now)
                case 3:
                    replica.flush(rng.randrange(1, 4), system.now)
                case 4:
                    replica.answer(system.now)
                case 5:
                    replica.step(system.now)
    system.settle(4 * PERIOD)
    check(system.server)
    assert all(replica.core.open_work == 0 for replica in system.replicas)


def test_each_bounded_queue_has_one_owner_and_continues_when_it_dies() -> None:
    system = System("p1", "p2", "p3")
    system.settle(2 * PERIOD)
    for number in range(3):
        for queue in QUEUES:
            system.create(f"{queue}-{number}", queue)
    system.settle(1.0)
    assert system.claimed == {"capped-a": 3, "capped-b": 3, "free": 3}
    assert all(len(names) == 1 for names in system.deciders.values())
    assert system.server.conflicts <= system.server.commits // 10
    (owner,) = system.deciders["capped-a"]
    system.replicas = [replica for replica in system.replicas if replica.name != owner]
    for number in range(3, 9):
        system.create(f"capped-a-{number}", "capped-a")
    before = system.now
    while system.claimed["capped-a"] < CAP // 40:
        system.settle(0.2)
        assert system.now < before + 3 * PERIOD, "its queues continue within three periods"
    assert system.claimed["capped-a"] == CAP // 40
    assert len(system.deciders["capped-a"]) == 2


def test_a_write_under_a_lease_that_has_ended_is_refused() -> None:
    system = System("p1", "p2")
    system.settle(2 * PERIOD)
    for number in range(9):
        system.create(f"pod-{number}", QUEUES[number % 3])
    for replica in system.replicas:
        replica.receive(10**6, system.now)
        replica.receive_facts(10**6, system.now)
        replica.send(Tick(), system.now)
    late, other = sorted(system.replicas, key=lambda each: sum(isinstance(one, Write) for one in each.unsent))[::-1]
    writes = [one for one in late.unsent if isinstance(one, Write)]
    assert writes
    assert all(one.guard is not None for one in writes)
    system.replicas = [other]
    system.settle(2 * PERIOD)
    assert sum(system.claimed.values()) == 9, "the other one has taken over"
    before = system.server.fenced_writes
    late.flush(10**6, system.now)
    assert system.server.fenced_writes == before + len(writes)
    check(system.server)


def test_a_replica_that_was_paused_does_not_decide_before_it_knows_whether_it_was_fenced() -> None:
    system = System("p1")
    system.settle(PERIOD)
    (paused,) = system.replicas
    system.replicas = [system.start("p2")]
    system.create("x", "capped-a")
    system.settle(2 * PERIOD)
    assert system.claimed["capped-a"] == 1
    system.create("y", "capped-a")
    # It learns of the pod, not of the fence.
    paused.receive_facts(10**6, system.now)
    paused.send(Tick(), system.now)
    assert not [one for one in paused.unsent if isinstance(one, Write)]


def test_a_large_queue_without_bounds_is_divided_and_no_pod_claimed_twice() -> None:
    system = System("p1", "p2", "p3")
    system.settle(2 * PERIOD)
    for number in range(SPLIT_ABOVE + 10):
        system.create(f"free-{number}", "free", 101)  # waits: no card is that large
    system.settle(3.0)
    for number in range(24):
        system.create(f"fits-{number}", "free", 40)
    system.settle(2.0)
    assert system.claimed["free"] == 24
    assert len(system.deciders["free"]) == 3


@pytest.mark.parametrize("service", ["binder", "inventory"])
def test_leases_of_other_services_do_not_matter(service: str) -> None:
    system = System("p1")
    system.server.put(f"ledger.lease.{service}.x", Lease(service=service, member="x", instance="p1"))
    system.settle(1.0)
    system.create("a", "free")
    system.settle(0.5)
    assert system.claimed["free"] == 1


def test_a_claim_of_a_pod_that_is_not_known_yet_counts_in_its_queue() -> None:
    system = System("p1")
    system.settle(PERIOD)
    (replica,) = system.replicas
    for number in range(4):
        system.create(f"pod-{number}", "capped-a", 70)
    known, late = system.facts[-4:-2], system.facts[-2:]
    del system.facts[-2:]
    system.settle(1.0)
    assert system.claimed["capped-a"] == len(known)
    other = System("p2")
    other.server, other.facts = system.server, [*system.facts[:-2], *system.facts[-1:]]
    other.replicas = [other.start("p2")]
    system.replicas.clear()
    other.settle(3 * PERIOD)
    # It has not read the fact of one pod that has a claim, and gets two more: one is above the bound.
    assert other.claimed["capped-a"] == 2
    for fact in late:
        other.facts.append(fact)
    other.settle(1.0)
    assert other.claimed["capped-a"] == 2, "of 200 there are 140 in use"
    assert replica.core.open_work >= 0


def test_a_fact_that_is_read_while_the_pod_of_a_claim_is_asked_for_stops_no_replica() -> None:
    system = System("p1", "p2")
    system.create("waits", "capped-a", 500)  # no card is that large
    system.settle(3 * PERIOD)
    claim = Claim(id="c", uid="lost", namespace="ns", name="lost", group=GroupKey("pod/lost"), decided_by="other")
    system.server.put(ledger_subject("n0"), NodeLedger(node="n0", claims=(claim,)))
    while not all("cluster.pod.lost" in replica.reads for replica in system.replicas):
        system.now += 0.5
        for replica in system.replicas:
            replica.receive(10**6, system.now)
            replica.send(Tick(), system.now)
            replica.flush(10**6, system.now)
            replica.receive(10**6, system.now)
    system.change_queue("above", guarantee={MEMORY: 1})  # it moves queues to other owners
    for replica in system.replicas:
        replica.receive_facts(10**6, system.now)
        replica.reads.remove("cluster.pod.lost")
        replica.send(ReadBack("cluster.pod.lost", 0), system.now)
    system.settle(PERIOD)
    answered = NodeOutcomes(node="n0", outcomes=(Outcome("c", "lost", WITHDRAWN),))
    for replica in system.replicas:
        replica.send(OutcomesReceived("n0", answered), system.now)
    system.settle(PERIOD)
    written = len(system.server.log)
    system.settle(PERIOD)
    leases = len(system.server.log) - written
    assert leases <= 4 * RENEWALS, "renewals only"
    assert all(replica.core.open_work == 0 for replica in system.replicas)
    waiting = pod("waits", vgpu(1, 500)).group
    owners = [each for each in system.replicas if each.core._work.owns(each.core.scheduler.cluster.group(waiting))]
    assert len(owners) == 1


def test_renewed_leases_begin_no_round_of_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica receives several renewals a second; deciding nothing takes longer than renewing the lease."""
    system = System("one", "two")
    system.create("waits", "free", memory=10**6)
    system.create("fits", "free")
    system.settle(2 * PERIOD)
    rounds = []
    original = Deciding.decide
    counted = lambda self, *args: (rounds.append(args), original(self, *args))[1]  # noqa: E731
    monkeypatch.setattr(Deciding, "decide", counted)
    system.settle(2 * PERIOD)
    assert len(rounds) <= 2, "of the 32 renewals none began a round"
    system.create("later", "free")
    system.settle(1.0)
    assert system.claimed["free"] == 2
