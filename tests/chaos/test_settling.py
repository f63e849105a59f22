"""The whole system, without new work and with evicted pods that come back: preemption and reclaim end.

Each pod that is evicted is created again, as those of Jobs are. The cases ping-pong and volcano-5896 were recorded with
Volcano, where a queue takes cards from another one for ever, or gets below what it deserves.
"""

from random import Random

import pytest
from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import gpus
from support.settling import Settling, conf, queue, simulate

MINUTE = 60.0
RECLAIM = ("enqueue", "allocate", "reclaim", "backfill")
PREEMPT = ("enqueue", "allocate", "preempt", "backfill")
BOTH = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
CARDS = "nvidia.com/gpu"


def test_a_queue_with_too_many_cards_takes_none_from_one_with_too_few():
    """Volcano's case ping-pong: with less CPU than it deserves it takes them back, for ever."""
    deserved = {"cpu": "16", CARDS: "2"}
    cluster = [queue(name, deserved=deserved) for name in ("q0", "q1")]
    cluster.append(objects.node("n0", {"cpu": "32", CARDS: "4"}))

    async def play(system: Settling) -> None:
        for job in ("v01", "v02"):
            system.submit(job, {"cpu": "1", CARDS: "2"}, queue="q0")
        await system.until_running(("v01", "v02"), within=MINUTE)
        system.submit("p03", {"cpu": "1", CARDS: "2"}, queue="q1")
        await system.until_running(("p03",), within=MINUTE)
        await system.until_quiet(5 * MINUTE, within=10 * MINUTE)

    system = simulate("ping-pong", conf("priority", "gang", "conformance", "capacity", actions=RECLAIM), cluster, play)
    assert system.evictions.total() == 1


def test_a_queue_gets_what_it_deserves_from_two_that_keep_what_they_deserve():
    """Volcano#5896: A deserves 8 and uses 4, B and C deserve 4 each and use 6."""
    cluster = [queue(name, deserved={CARDS: count}) for name, count in (("a", "8"), ("b", "4"), ("c", "4"))]
    cluster += [objects.node(f"n{at}", {CARDS: "4"}) for at in range(4)]

    async def play(system: Settling) -> None:
        jobs = [(name, at) for name, count in (("a", 4), ("b", 6), ("c", 6)) for at in range(count)]
        for name, at in jobs:
            system.submit(f"{name}-{at}", {CARDS: "1"}, queue=name)
        await system.until_running([f"{name}-{at}" for name, at in jobs], within=MINUTE)
        for at in range(4, 8):
            system.submit(f"a-{at}", {CARDS: "1"}, queue="a")
        await system.until_running([f"a-{at}" for at in range(8)], within=3 * MINUTE)
        await system.until_quiet(5 * MINUTE, within=10 * MINUTE)
        for name, deserved in (("a", 8), ("b", 4), ("c", 4)):
            assert sum(job.startswith(name) for job in system.running()) == deserved

    system = simulate("volcano-5896", conf("priority", "gang", "capacity", actions=RECLAIM), cluster, play)
    assert system.evictions.total() == 4
    assert max(system.evictions.values()) == 1


def test_each_priority_evicts_the_next_lower_one_once():
    cluster = [objects.node(f"n{at}", gpus(2).resources) for at in range(2)]
    one = {"volcano.sh/gpu-number": "1"}

    async def play(system: Settling) -> None:
        for priority in (0, 10, 1000):
            for at in range(4):
                system.submit(f"p{priority}-{at}", one, priority=priority)
            await system.until_running([f"p{priority}-{at}" for at in range(4)], within=3 * MINUTE)
        await system.until_quiet(5 * MINUTE, within=10 * MINUTE)

    system = simulate("chain", conf("priority", "gang", actions=PREEMPT), cluster, play)
    assert system.evictions == {f"p{priority}-{at}": 1 for priority in (0, 10) for at in range(4)}


@pytest.mark.parametrize("seed", range(6))
def test_pods_of_three_queues_and_priorities_that_come_back_settle(seed):
    rng = Random(seed)
    cluster = [queue(f"q{at}", weight=rng.randint(1, 3)) for at in range(3)]
    cluster += [objects.node(f"n{at}", {"cpu": "8", CARDS: "4"}) for at in range(2)]
    jobs = 24

    async def play(system: Settling) -> None:
        for at in range(jobs):
            limits = {"cpu": str(rng.randint(1, 3)), CARDS: str(rng.randint(1, 2))}
            system.submit(f"j{at}", limits, queue=f"q{rng.randrange(3)}", priority=rng.choice((0, 10, 1000)))
            await system.wait(rng.randrange(10))
        await system.until_quiet(5 * MINUTE, within=10 * MINUTE)

    system = simulate(f"three-{seed}", conf("priority", "gang", "proportion", actions=BOTH), cluster, play)
    # Jobs of other queues and priorities come meanwhile: some pods go for one of each.
    assert 0 < max(system.evictions.values()) <= 3, system.evictions
    assert system.evictions.total() <= jobs


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_after_a_burst_the_share_of_the_other_queue_is_restored_within_three_minutes(plugin):
    amount = 4096
    whole = 2 * 2 * 24576
    deserved = {"volcano.sh/gpu-memory": str(whole // 2)} if plugin == "capacity" else None
    spec = {"deserved": deserved} if deserved else {}
    cluster = [queue(name, **spec) for name in ("burst", "other")]
    for at in range(2):
        published = gpus(2, 24576)
        cluster.append(objects.node(f"n{at}", published.resources, published.annotations))
    limits = {"volcano.sh/gpu-memory": str(amount)}
    count = whole // amount

    async def play(system: Settling) -> None:
        for at in range(2 * count):
            system.submit(f"burst-{at}", limits, queue="burst")
        while len(system.running()) < count:
            await system.wait()
        for at in range(count):
            system.submit(f"other-{at}", limits, queue="other")
        began = system.now
        while sum(job.startswith("other") for job in system.running()) < count // 2:
            assert system.now < began + 3 * MINUTE, system.running()
            await system.wait()
        await system.until_quiet(5 * MINUTE, within=10 * MINUTE)
        assert sum(job.startswith("burst") for job in system.running()) == count // 2

    system = simulate(f"burst-{plugin}", conf("priority", "gang", plugin, actions=RECLAIM), cluster, play)
    assert system.evictions.total() == count // 2
    assert all(job.startswith("burst") for job in system.evictions)
