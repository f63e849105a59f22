"""What is done once though several replicas could do it, while replicas come and go."""

import random
from collections import Counter

from deviceshare.model import QueueFact
from deviceshare_bus.cores.core import ExpireOthers, RecordStep, Tick
from deviceshare_bus.messages.leases import PERIOD
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import pod, vgpu
from support.placement_replicas import System


def test_one_replica_lets_explanations_expire_after_a_start_and_after_a_death() -> None:
    system = System("p1", "p2", "p3")
    system.settle(2 * PERIOD)
    for _ in range(2):
        found = [sum(isinstance(one, ExpireOthers) for one in each.commands) for each in system.replicas]
        assert 1 <= sum(found) <= 2, "one that was alone at first, and the one that does it for all"
        for each in system.replicas:
            each.commands.clear()
        dead = next(each for each, count in zip(system.replicas, found, strict=True) if not count)
        system.replicas.remove(dead)
        system.settle(2 * PERIOD)


def test_one_replica_bounds_explanations_also_after_a_death() -> None:
    system = System("p1", "p2", "p3")
    system.settle(2 * PERIOD)
    for _ in range(3):
        owners = [replica for replica in system.replicas if replica.core.owns_expiry]
        assert len(owners) == 1
        system.replicas.remove(owners[0])
        system.settle(2 * PERIOD)


def gone_steps(system: System) -> Counter[str]:
    return Counter(
        one.pod
        for replica in system.replicas
        for one in replica.commands
        if isinstance(one, RecordStep) and one.name == "gone"
    )


@settings(max_examples=15, deadline=None)
@given(st.integers(min_value=0))
def test_each_pod_that_is_deleted_while_a_replica_joins_records_one_step(seed: int) -> None:
    rng = random.Random(seed)
    system = System("p1", "p2")
    for number in range(30):
        system.facts.append((f"cluster.queue.team-{number}", QueueFact(name=f"team-{number}")))
    system.settle(2 * PERIOD)
    for number in range(30):
        system.create(f"pod-{number}", f"team-{number}", 101)
    system.settle(1.0)
    uids = sorted(system.pods)
    system.replicas.append(system.start("p3"))
    while uids:
        system.now += 0.02
        system.delete(uids.pop())
        for replica in system.replicas:
            match rng.randrange(4):
                case 0:
                    replica.receive_facts(rng.randrange(1, 4), system.now)
                case 1:
                    replica.receive(10**6, system.now)
                case 2:
                    replica.send(Tick(), system.now)
                case 3:
                    replica.flush(10**6, system.now)
    system.settle(PERIOD)
    found = gone_steps(system)
    assert len(found) == 30
    assert set(found.values()) == {1}


def test_a_group_that_moves_to_another_queue_is_decided_by_one_replica_though_facts_are_late() -> None:
    system = System("p1", "p2", "p3")
    for queue in (f"team-{number}" for number in range(6)):
        system.facts.append((f"cluster.queue.{queue}", QueueFact(name=queue)))
    system.settle(2 * PERIOD)
    for number in range(6):
        system.create(f"pod-{number}", f"team-{number}", 101)  # waits: no card is that large
    system.settle(1.0)
    # Each moves to another queue and fits now; only two replicas hear of it, the third one hears of larger cards.
    for number in range(6):
        uid = f"pod-{number}"
        (key,) = [key for key in system.pods if uid in key]
        system.pods[key] = replace(system.pods[key], ask=pod("x", vgpu(1, 40)).ask)
        system.move(key, f"team-{(number + 1) % 6}")
    late = system.replicas[0]
    for _ in range(5):
        system.now += 0.1
        late.receive(10**6, system.now)
        late.send(Tick(), system.now)
        late.flush(10**6, system.now)
        late.answer(system.now)
        for each in system.replicas[1:]:
            each.step(system.now)
    waiting = 6 - sum(system.claimed.values())
    assert waiting == 6, "the present owner waits for the replica that has not read it"
    system.settle(1.5)
    assert sum(system.claimed.values()) == 6
    assert system.server.conflicts == 0
