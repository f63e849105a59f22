"""Plans to move pods: each move is feasible in its turn, and frees what the plan says."""

import random

import pytest
from deviceshare.allocation import Movable, defragmentation, measure, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node, vgpu
from support.mig import A30, DOCS, mig_card, mig_cluster

SIZES = (5000, 6000, 10000, 20000, 40000)
MODELS = {"n0": A30, "n1": A30, "n2": "", "n3": "", "n4": ""}
MAX_SEEDS = 2**16


def nodes():
    for name, model in MODELS.items():
        more = {"model": model} if model else {}
        yield node(name, [mig_card(at, node=name, **more) for at in range(2)])


class Scene:
    """A cluster in which pods came and went, and its history."""

    def __init__(self, seed, pods=40, policy="fragmentation"):
        chance = random.Random(seed)
        self.arrived = [vgpu(1, chance.choice(SIZES)) for _ in range(pods)]
        self.cluster = self.empty(policy)
        self.requests = dict(zip((f"p{at:02}" for at in range(pods)), self.arrived, strict=True))
        self.where = {}
        for uid, request in self.requests.items():
            if (placement := self.cluster.place(request)) is not None:
                self.cluster.take(uid, placement)
                self.where[uid] = placement.node
        for uid in chance.sample(sorted(self.where), len(self.where) // 2):
            self.cluster.release(self.where.pop(uid), uid)

    def empty(self, policy="fragmentation"):
        """Return a cluster of the same nodes and arrivals, without pods."""
        made = mig_cluster(*nodes(), devices=DOCS, policy=policy)
        made.learn()
        for request in self.arrived:
            made.arrived(request)
        return made

    def copy(self, cluster):
        """Return a new cluster with the pods of a cluster."""
        made = self.empty()
        for name in MODELS:
            for uid, held in cluster.holdings_on(name):
                made.hold(name, uid, held.grants, held.resources, held.tenant, held.ports)
        return made

    def movable(self):
        return [Movable(uid, name, self.requests[uid]) for uid, name in self.where.items()]

    def plan(self, budget, movable=None):
        return plan(self.cluster, (), budget, self.movable() if movable is None else movable)


def content(cluster):
    """Return all that a cluster has charged."""
    return {
        name: (
            sorted(cluster.holdings_on(name)),
            cluster.used_cards(name),
            [cluster.card_state(name, each) for each in ("mig-cut", "mig-used")],
            cluster.used(name),
            cluster.is_reserved(name),
        )
        for name in MODELS
    }


def lost(cluster):
    return sum(cluster.fragmentation(name) for name in MODELS)


def waste(cluster):
    """Return what instances have beyond the requests, in thousandths of a card, by the pods' holdings alone."""
    total = 0.0
    for name in MODELS:
        sizes = {card.id: card.memory for card in cluster.node(name).cards}
        for _, held in cluster.holdings_on(name):
            (device,) = held.grants[0].devices
            total += 1000 * (device.memory - device.asked) / sizes[device.id]
    return total


def check_instances(cluster):
    """Check that no two pods have one instance, and that all instances of a card belong to one geometry."""
    for name in MODELS:
        held = [device for _, each in cluster.holdings_on(name) for grant in each.grants for device in grant.devices]
        assert len({(device.id, device.detail) for device in held}) == len(held)
        for card in {device.id for device in held}:
            assert len({device.detail.split("-")[0] for device in held if device.id == card}) == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, MAX_SEEDS), st.integers(0, 6))
def test_each_move_is_feasible_in_its_turn_and_the_plan_changes_nothing(seed, budget):
    scene = Scene(seed)
    before = content(scene.cluster)
    moves = scene.plan(budget)
    assert content(scene.cluster) == before
    assert len(moves) <= budget
    assert len({move.pod.uid for move in moves}) == len(moves)
    copy = scene.copy(scene.cluster)
    start = lost(copy) + waste(copy)
    for move in moves:
        assert move.placement.node != move.source
        assert copy.release(move.source, move.pod.uid)
        copy.take(move.pod.uid, move.placement)
        check_instances(copy)
        assert move.gain > defragmentation.MIN_GAIN
    fresh = scene.copy(copy)
    assert content(fresh) == content(copy)
    assert measure(scene.cluster, moves) == pytest.approx((lost(scene.cluster), lost(fresh)), abs=1e-6)
    assert content(scene.cluster) == before
    assert sum(move.gain for move in moves) == pytest.approx(start - lost(fresh) - waste(fresh), abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, MAX_SEEDS))
def test_the_first_move_is_the_best_of_all_pods(seed):
    scene = Scene(seed)
    moves = scene.plan(1)
    best = 0.0
    for pod in scene.movable():
        # Without the node that the pod leaves: what else it could get.
        others = scene.copy(scene.cluster)
        start = lost(others) + waste(others)
        others.release(pod.node, pod.uid)
        others.set_reserved(pod.node, reserved=True)
        if (placement := others.place(pod.request)) is not None:
            others.take(pod.uid, placement)
            best = max(best, start - lost(others) - waste(others))
    if best > defragmentation.MIN_GAIN:
        assert moves[0].gain == pytest.approx(best)
    else:
        assert moves == ()


def spread_out():
    """Return two nodes with one small pod each, where whole cards are expected."""
    made = mig_cluster(*(node(name, [mig_card(0, node=name)]) for name in "ab"), devices=DOCS, policy="fragmentation")
    made.learn()
    for _ in range(40):
        made.arrived(vgpu(1, 40000))
    for name, other in ("ab", "ba"):
        made.set_reserved(other, reserved=True)
        made.take(f"small-{name}", made.place(vgpu(1, 5000)))
        made.set_reserved(other, reserved=False)
    return made


def test_a_card_is_emptied_for_the_pods_that_need_a_whole_one():
    made = spread_out()
    assert made.place(vgpu(1, 40000)) is None
    movable = [Movable(f"small-{name}", name, vgpu(1, 5000)) for name in "ab"]
    (move,) = plan(made, (), 5, movable)
    made.release(move.source, move.pod.uid)
    made.take(move.pod.uid, move.placement)
    assert made.place(vgpu(1, 40000)).node == move.source


def test_only_restartable_pods_are_moved():
    made = spread_out()
    (move,) = plan(made, (), 5, [Movable("small-b", "b", vgpu(1, 5000))])
    assert move.pod.uid == "small-b"
    assert plan(made, (), 5, []) == ()
    assert plan(made, (), 5, [Movable("unknown", "b", vgpu(1, 5000)), Movable("small-b", "c", vgpu(1, 5000))]) == ()


def test_pods_leave_reserved_nodes_and_none_is_moved_there():
    made = spread_out()
    made.set_reserved("b", reserved=True)
    (move,) = plan(made, (), 5, [Movable(f"small-{name}", name, vgpu(1, 5000)) for name in "ab"])
    assert (move.pod.uid, move.placement.node) == ("small-b", "a")
    assert made.is_reserved("b")
    assert not made.is_reserved("a")


def test_pods_of_nodes_that_are_gone_stay():
    made = spread_out()
    made.remove_node("b")
    assert plan(made, (), 5, [Movable("small-b", "b", vgpu(1, 5000))]) == ()


def test_all_pods_of_a_card_are_moved_together_if_the_budget_suffices():
    made = mig_cluster(*(node(name, [mig_card(0, node=name)]) for name in "ab"), devices=DOCS, policy="fragmentation")
    made.learn()
    expected = [vgpu(1, 40000)] * 40
    for at, name in enumerate("aaabb"):
        other = "b" if name == "a" else "a"
        made.set_reserved(other, reserved=True)
        made.take(f"p{at}", made.place(vgpu(1, 5000)))
        made.set_reserved(other, reserved=False)
    movable = [Movable(f"p{at}", name, vgpu(1, 5000)) for at, name in enumerate("aaabb")]
    assert [move.pod.uid for move in plan(made, expected, 2, movable)] == ["p3", "p4"]
    assert plan(made, (), 1, movable) == ()


def crowded(*names):
    """Return nodes with one card each and small pods, whose uids tell their node; whole cards are expected."""
    nodes = sorted({name[-1] for name in names})
    made = mig_cluster(*(node(name, [mig_card(0, node=name)]) for name in nodes), devices=DOCS, policy="fragmentation")
    made.learn()
    for _ in range(40):
        made.arrived(vgpu(1, 40000))
    for name in names:
        for other in nodes:
            made.set_reserved(other, reserved=other != name[-1])
        made.take(name, made.place(vgpu(1, 5000)))
    for other in nodes:
        made.set_reserved(other, reserved=False)
    return made, [Movable(name, name[-1], vgpu(1, 5000)) for name in names]


def test_all_sets_of_the_cards_with_the_fewest_pods_are_tried_first(monkeypatch):
    made, movable = crowded("p0-a", "p1-a", "p2-a", "p3-b", "p4-b", "p5-c", "p6-c")
    monkeypatch.setattr(defragmentation, "MAX_TRIED", 3)
    assert [move.pod.uid for move in plan(made, (), 2, movable)] == ["p3-b", "p4-b"]


def test_a_pod_with_holdings_on_several_nodes_leaves_only_the_one_that_is_given():
    made, movable = crowded("small-a", "small-b", "other-c")
    (held,) = (each for uid, each in made.holdings_on("a") if uid == "small-a")
    made.hold("b", "small-a", held.grants, held.resources)
    before = {name: (sorted(made.holdings_on(name)), made.used_cards(name)) for name in "abc"}
    moves = plan(made, (), 5, movable)
    assert {name: (sorted(made.holdings_on(name)), made.used_cards(name)) for name in "abc"} == before
    assert all(move.placement.node != "b" for move in moves if move.pod.uid == "small-a")
