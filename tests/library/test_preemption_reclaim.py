"""Which pods go when a queue takes back what it deserves, also in hierarchies of queues."""

import json
from collections.abc import Iterable

import pytest
from deviceshare.model import QueueFact
from deviceshare.preemption import search
from support.builders import ask, card, container, node, vgpu
from support.preemption_scene import PreemptionScene, conf, cpu

# Reclaim

RECLAIM = conf("priority", "proportion", actions="enqueue, allocate, reclaim")


def test_a_queue_takes_back_what_it_deserves_and_no_more():
    scene = PreemptionScene(node("a", cpu=4000), conf=RECLAIM)
    scene.queue("mine")
    scene.queue("theirs")
    scene.job("theirs", cpu(1000), on=["a"] * 4, queue="theirs", level="high")
    scene.job("mine", cpu(1000), queue="mine", level="")
    assert len(scene.victims("mine")) == 1
    scene.job("more", cpu(3000), queue="mine", level="")
    assert str(scene.preempt("more")) == "queue 'mine' would have more than it deserves"


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ({"reclaimable": False}, "1 protected by spec.reclaimable of queue 'theirs'"),
        ({"guarantee": {"cpu": 4000}}, "queue 'mine' would have more than it deserves"),
    ],
)
def test_a_queue_keeps_what_is_guaranteed_or_not_reclaimable(queue, why):
    scene = PreemptionScene(node("a", cpu=4000), conf=RECLAIM)
    scene.queue("mine")
    scene.queue("theirs", **queue)
    scene.job("theirs", cpu(1000), on=["a"] * 4, queue="theirs")
    scene.job("mine", cpu(1000), queue="mine", level="high")
    found = scene.preempt("mine")
    assert not found.victims
    assert str(found).endswith(why)


def test_best_effort_pods_take_from_best_effort_pods_only():
    scene = PreemptionScene(node("a", pods=1))
    scene.job("low", cpu(1000), on=["a"])
    scene.job("new", ask(container()), level="high")
    assert not scene.preempt("new").victims
    scene = PreemptionScene(node("a", pods=1))
    scene.job("low", ask(container()), on=["a"])
    scene.job("new", ask(container()), level="high")
    assert scene.victims("new") == ["low-0"]


# Why none goes


@pytest.mark.parametrize(
    ("nodes", "asked", "why"),
    [
        ("a", vgpu(1, 10_000), "0/1 nodes are available: 1 still lack 6000 MiB on one card"),
        ("ab", vgpu(1, 10_000), "0/2 nodes are available: 2 still lack at least 6000 MiB on one card"),
        ("a", vgpu(2, 10_000), "0/1 nodes are available: 1 still lack 6000 MiB on one of 2 cards"),
        ("a", vgpu(1, 20_000), "0/1 nodes are available: 1 still lack 16000 MiB on one card"),
        ("a", cpu(3500), "0/1 nodes are available: 1 still lack 500m of cpu"),
    ],
)
def test_it_is_said_what_nodes_lack_without_the_pods_that_may_go(nodes, asked, why):
    scene = PreemptionScene()
    for number, name in enumerate(nodes):
        scene.put(f"node {name}", node(name, [card(at, node=name, memory=12_000) for at in range(2)], cpu=4000))
        scene.job(f"top-{number}", cpu(1000), on=[name], level="high")
        for memory, level in ((8000, "high"), (3000, "low")):
            for at in range(2):
                scene.job(f"{level}-{number}-{at}", vgpu(1, memory), level=level)
                scene.bind()
    scene.job("new", asked, level="mid")
    assert str(scene.preempt("new")) == why


# Hierarchies of queues


def hierarchy(level: int) -> str:
    text = json.loads(conf("priority", "capacity", actions="enqueue, allocate, reclaim, backfill"))
    text["tiers"][1]["plugins"][0] |= {"enableHierarchy": True, "arguments": {"ancestorReclaimLevel": level}}
    return json.dumps(text)


@pytest.mark.parametrize(("level", "deserves", "victims"), [(0, 1000, 1), (1, 1000, 1), (1, 4000, 0)])
def test_an_ancestor_keeps_what_it_deserves(level, deserves, victims):
    scene = PreemptionScene(node("a", cpu=4000), conf=hierarchy(level))
    scene.queue("top", deserved={"cpu": deserves})
    scene.queue("leaf", parent="top", deserved={"cpu": 1000})
    scene.queue("own", deserved={"cpu": 2000})
    scene.job("low", cpu(1000), on=["a"] * 4, queue="leaf")
    scene.job("new", cpu(1000), queue="own")
    assert len(scene.preempt("new").victims) == victims


@pytest.mark.parametrize(("level", "victims"), [(0, 0), (1, 1)])
def test_a_queue_takes_what_its_ancestor_deserves(level, victims):
    scene = PreemptionScene(node("a", cpu=4000), conf=hierarchy(level))
    scene.queue("top", deserved={"cpu": 2000})
    scene.queue("leaf", parent="top")
    scene.queue("other", deserved={"cpu": 1000})
    scene.job("low", cpu(1000), on=["a"] * 4, queue="other")
    scene.job("new", cpu(1000), queue="leaf")
    assert len(scene.preempt("new").victims) == victims


def test_by_queues_below_the_same_ancestor_it_is_not_looked_at():
    scene = PreemptionScene(node("a", cpu=4000), conf=hierarchy(1))
    scene.queue("top", deserved={"cpu": 9000})
    scene.queue("one", parent="top", deserved={"cpu": 1000})
    scene.queue("two", parent="top", deserved={"cpu": 1000})
    scene.job("low", cpu(1000), on=["a"] * 4, queue="one")
    scene.job("new", cpu(1000), queue="two")
    assert len(scene.victims("new")) == 1


def test_with_a_level_above_0_queues_below_one_parent_that_deserve_nothing_take_nothing_from_each_other():
    scene = PreemptionScene(node("a", cpu=4000), conf=hierarchy(1))
    scene.queue("top", deserved={"cpu": 9000})
    scene.queue("one", parent="top")
    scene.queue("two", parent="top")
    scene.job("low", cpu(1000), on=["a"] * 4, queue="one")
    scene.job("new", cpu(1000), queue="two")
    assert not scene.preempt("new").victims


def in_tree(*paths: tuple[str, float], plugins: str = "gang drf", held: Iterable[tuple[str, int]]) -> PreemptionScene:
    """Return a full node with queues below the root, by name and weight, and pods of 1000 millicores of each."""
    text = json.loads(conf(plugins, actions="enqueue, allocate, reclaim"))
    for plugin in text["tiers"][0]["plugins"]:
        if plugin["name"] == "drf":
            plugin["enableHierarchy"] = True
    scene = PreemptionScene(node("a", cpu=1000 * sum(number for _, number in held)), conf=json.dumps(text))
    for name, weight in paths:
        scene.queue(name, hierarchy=((name, weight),))
    for queue, number in held:
        for each in range(number):
            scene.job(f"{queue}-{each}", cpu(1000), on=["a"], queue=queue)
    return scene


@pytest.mark.parametrize(
    ("weights", "held", "taken"),
    [
        ((1, 1), (0, 4), 1),
        ((1, 1), (1, 3), 0),  # both would have half
        ((1, 1), (1, 4), 1),
        ((1, 1), (2, 2), 0),
        ((3, 1), (2, 2), 0),  # one third of 3 of 4 is as much as 1 of 4
        ((3, 1), (2, 3), 1),
        ((1, 3), (0, 4), 0),  # 1 of 4 is as much as one third of 3 of 4
        ((1, 3), (0, 5), 1),
    ],
)
def test_by_drf_a_queue_takes_from_one_with_a_larger_share_in_the_tree(weights, held, taken):
    names = ("ours", "theirs")
    scene = in_tree(*zip(names, weights, strict=True), held=[*zip(names, held, strict=True)])
    scene.job("new", cpu(1000), queue="ours", level="high")
    assert len(scene.preempt("new").victims) == taken


def test_by_drf_and_proportion_both_have_to_agree():
    held = [("ours", 1), ("theirs", 3), ("idle", 0)]
    scene = in_tree(("ours", 1), ("theirs", 8), plugins="gang drf proportion", held=held)
    scene.job("new", cpu(1000), queue="ours", level="high")
    assert not scene.preempt("new").victims


def test_without_a_hierarchy_drf_lets_no_pod_go_by_reclaim():
    scene = PreemptionScene(node("a", cpu=1000), conf=conf("drf", actions="enqueue, allocate, reclaim"))
    scene.queue("ours")
    scene.queue("theirs")
    scene.job("old", cpu(1000), on=["a"], queue="theirs")
    scene.job("new", cpu(1000), queue="ours", level="high")
    assert str(scene.preempt("new")) == "no plugin is listed with enableReclaimable"


def test_few_pods_go_for_a_queue_above_its_capability_if_not_all_sets_are_tried(monkeypatch):
    """Those of one node make the room, and few others bring the queue within its capability."""
    monkeypatch.setattr(search, "MAX_WORK", 150)
    nodes = [node(f"n{number}", cpu=4000) for number in range(30)]
    scene = PreemptionScene(*nodes, conf=conf("priority gang conformance", "capacity"))
    scene.put("queue default", QueueFact(name="default", capability={"cpu": 119_000}))
    every = [f"n{number}" for number in range(30)]
    for name, level in (("a", ""), ("b", ""), ("c", "low"), ("d", "mid")):
        scene.job(name, cpu(1000), on=every, level=level)
    scene.job("new", cpu(4000), level="high")
    assert len(scene.preempt("new").victims) == 5
