"""Replicas of placement on a nearly full cluster: conflicts are few, and queues get the shares of one replica."""

import random
from collections import Counter

import pytest
from deviceshare.model import ConfigFact, NodeFact, QueueFact, Synced
from deviceshare_bus.cores.core import Tick
from deviceshare_bus.messages.leases import PERIOD
from deviceshare_lab.bench.bus.workload import CONF, SIZES
from deviceshare_placement.core import contention
from msgspec.structs import replace
from support.builders import MEMORY, card, node, pod, vgpu
from support.placement_replicas import Replica, System

NODES = 24
CARDS = 8


SHARES = CONF + "  - name: proportion\n"


def nearly_full(replicas: int, queues: dict[str, int], conf: str = CONF) -> System:
    """Return a system of nodes without pods: the others of a cluster are full, and no pod fits on them."""
    system = System()
    system.server.checks = False
    system.facts[:] = [("cluster.config.scheduler", ConfigFact(name="scheduler", text=conf))]
    system.facts += [(f"cluster.queue.{name}", QueueFact(name=name, weight=weight)) for name, weight in queues.items()]
    system.facts += [(f"cluster.node.{each.name}", each) for each in map(empty_node, range(NODES))]
    system.facts.append(("cluster.synced", Synced()))
    system.replicas = [system.start(f"placement-{number + 1}") for number in range(replicas)]
    system.settle(2 * PERIOD)
    return system


def empty_node(number: int) -> NodeFact:
    name = f"node-{number:05d}"
    return node(name, [card(index, node=name) for index in range(CARDS)], pods=1000)


def step(replica: Replica, now: float, *, decides: bool) -> None:
    """Decide by what has arrived, or let the server receive what was decided."""
    if not decides:
        replica.flush(10**6, now)
        return
    replica.receive_facts(10**6, now)
    replica.receive(10**6, now)
    replica.answer(now)
    replica.send(Tick(), now)


def conflicts(seed: int, at_once: int) -> tuple[int, int]:
    """Place pods in bursts with three replicas; return the conflicts and all writes."""
    rng = random.Random(seed)
    system = nearly_full(3, {f"bench-{number}": 1 for number in range(12)})
    system.server.conflicts = system.server.commits = created = 0
    pods = 24 * NODES
    for number in range(2000):
        system.now += 0.01
        for _ in range(min(at_once, pods - created) if number % 2 else 0):
            size = SIZES[created % len(SIZES)]
            request = vgpu(size.cards, size.memory, size.cores)
            made = replace(pod(f"pod-{created}", request), queue=f"bench-{created // 10 % 12}", created=system.now)
            system.facts.append((f"cluster.pod.{made.uid}", made))
            created += 1
        for replica in system.replicas:
            step(replica, system.now, decides=rng.random() < 0.5)
        if sum(system.claimed.values()) == pods:
            return system.server.conflicts, system.server.commits
    raise AssertionError(f"{system.claimed} of {pods} pods were placed")


def total(number_of_runs: int = 2) -> float:
    """Return the conflicts as a share of the writes, over bursts of several sizes."""
    found = [conflicts(seed, at_once) for seed in range(number_of_runs) for at_once in (10, 40, 120)]
    return sum(lost for lost, _ in found) / sum(writes for _, writes in found)


def test_three_replicas_of_a_nearly_full_cluster_rarely_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    share = total()
    assert share < 0.05
    monkeypatch.setattr(contention.Contention, "paused", lambda *_: [])
    assert total() > 2 * share, "since each leaves to the others what they use"


def test_queues_get_the_shares_that_one_replica_gives_them() -> None:
    weights = {"a": 1, "b": 1, "c": 2, "d": 4}
    found: list[Counter[str]] = []
    for replicas in (1, 3):
        system = nearly_full(replicas, weights, SHARES)
        for number in range(400 * len(weights)):
            queue = sorted(weights)[number % len(weights)]
            made = replace(pod(f"pod-{number}", vgpu(1, 8192, 25)), queue=queue, created=system.now)
            system.facts.append((f"cluster.pod.{made.uid}", made))
        system.settle(6.0)
        found.append(system.claimed)
    capacity = NODES * CARDS * 4
    assert found[0]["d"] > 3 * found[0]["a"] > 0, "the weights have an effect"
    assert sum(found[0].values()) == sum(found[1].values())
    for queue in weights:
        assert abs(found[0][queue] - found[1][queue]) <= 0.02 * capacity, found


def test_a_pod_that_fits_only_on_a_node_in_use_does_not_wait() -> None:
    system = nearly_full(2, {"a": 1})
    for replica in system.replicas:
        replica.core._contention.conflicted([f"node-{number:05d}" for number in range(NODES)], system.now)
    made = replace(pod("x", vgpu(1, 1024)), queue="a", created=system.now)
    system.facts.append((f"cluster.pod.{made.uid}", made))
    for replica in system.replicas:
        step(replica, system.now, decides=True)
        step(replica, system.now, decides=False)
    assert sum(system.claimed.values()) == 1


def test_a_queue_whose_pods_fit_nowhere_keeps_nothing_from_others_by_new_pods() -> None:
    system = nearly_full(2, {"a": 1, "b": 1, "c": 1, "d": 1}, SHARES)
    owners = {
        queue: next(each.name for each in system.replicas if each.core._work.owns_queue(queue)) for queue in "abcd"
    }
    borrower = "a"
    stuck = next(queue for queue in "bcd" if owners[queue] != owners[borrower])
    capacity = NODES * CARDS * 4
    for number in range(capacity):
        made = replace(pod(f"pod-{number}", vgpu(1, 8192, 25)), queue=borrower, created=system.now)
        system.facts.append((f"cluster.pod.{made.uid}", made))
    for number in range(20):
        made = replace(pod(f"large-{number}", vgpu(CARDS + 1, 8192, 25)), queue=stuck, created=system.now)
        system.facts.append((f"cluster.pod.{made.uid}", made))
        system.settle(0.3)
    assert system.claimed[borrower] == capacity


def test_a_job_that_fits_only_on_a_node_in_use_is_decided_in_its_turn() -> None:
    system = System()
    system.facts[:] = [("cluster.config.scheduler", ConfigFact(name="scheduler", text=SHARES))]
    for name, memory in (("big", 100), ("small", 40)):
        system.facts.append((f"cluster.node.{name}", node(name, [card(0, node=name, memory=memory)], pods=20)))
    system.facts.append(("cluster.queue.q", QueueFact(name="q", capability={MEMORY: 100})))
    system.facts.append(("cluster.synced", Synced()))
    system.replicas = [system.start(name) for name in ("p1", "p2")]
    system.settle(2 * PERIOD)
    for replica in system.replicas:
        for _ in range(5):
            replica.core._contention.conflicted(["big"], system.now)
    for name, memory, priority in (("high", 90, 100), ("low", 40, 0)):
        made = replace(pod(name, vgpu(1, memory)), queue="q", created=system.now, priority=priority)
        system.facts.append((f"cluster.pod.{made.uid}", made))
    system.settle(1.0)
    assert [claim.name for ledger in system.server.ledgers.values() for claim in ledger.claims] == ["high"]
