"""The scores of nodeorder and binpack: against formulas in fractions, and what every user of them relies on."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from deviceshare.allocation import counted
from deviceshare.allocation.node_scores import enter_nodes, node_scores
from deviceshare.conf import NodeOrder
from deviceshare.conf.node_plugins import Binpack
from deviceshare.kernels import NodeScores, NormalizedScore, balance, free_part, full_part
from deviceshare.model import PodRequest, Preference, Requirement, Taint, Toleration
from deviceshare.state import SCORED, ResourceTable
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import ask, conf, container, node

ONLY = NodeOrder(0, 0, 0, 0, 0, 0, 0, 0)
NAMES = ("cpu", "memory", "nvidia.com/gpu", "pods", "x/y", "cpu" + SCORED, "memory" + SCORED)


def scored(what: PodRequest, nodeorder: NodeOrder | None = None, binpack: Binpack | None = None, **state) -> NodeScores:
    """Return the scores of one node; ``state`` is what it has and what is taken of it, by name with _ for /."""
    scores = node_scores(what, replace(conf(), nodeorder=nodeorder, binpack=binpack), table())
    assert scores is not None
    return filled(scores, **state)


def table(rows: int = 1) -> ResourceTable:
    """Return what nodes have of nothing so far, under names in this order."""
    found = ResourceTable()
    found.clear(rows - 1)
    for name in NAMES:
        found.reserve(name)
    return found


def filled(scores: NodeScores, has=(), used=()) -> NodeScores:
    names = ("pods", *(name for name in NAMES if name != "pods"))
    for array, amounts in ((scores.amounts.allocatable, dict(has)), (scores.amounts.used, dict(used))):
        np.asarray(array)[0, : len(names)] = [amounts.get(name, 0) for name in names]
    return scores


amount = st.integers(0, 10**6)
has = st.fixed_dictionaries({name: st.integers(1, 10**6) | st.just(0) for name in NAMES[:5]})
used = st.fixed_dictionaries(dict.fromkeys(NAMES, amount))
asks = st.builds(
    lambda amounts: ask(container(**amounts)),
    st.dictionaries(st.sampled_from((*NAMES[:3], "x/y")), amount, max_size=4),
)


@given(amount, amount)
def test_what_is_left_and_what_is_taken_are_parts_of_a_hundred(requested, all_of) -> None:
    part = min(Fraction(requested, all_of), Fraction(1)) if all_of else None
    assert free_part(requested, all_of) == (0 if part is None else floor((1 - part) * 100))
    assert full_part(requested, all_of) == (0 if part is None else floor(part * 100))


@given(has, used, asks, st.integers(0, 10**5))
def test_a_fuller_node_has_less_left_and_more_taken(all_of, taken, what, more) -> None:
    fuller = {**taken, "cpu": taken["cpu"] + more}
    for order, sign in ((replace(ONLY, least_requested=3), 1), (replace(ONLY, most_requested=3), -1)):
        one, other = (scored(what, order, has=all_of, used=state).ordered(0) for state in (taken, fuller))
        assert (other - one) * sign <= 0
        assert 0 <= min(one, other) <= max(one, other) <= 300


@given(st.lists(st.tuples(amount, st.integers(1, 10**6)), min_size=3, max_size=3))
def test_balance_is_the_spread_of_the_parts(resources) -> None:
    flat = [number for pair in resources for number in pair]
    parts = [min(used / all_of, 1.0) for used, all_of in resources]
    assert balance(*flat) == pytest.approx((1 - np.std(parts)) * 100, abs=1.0001)
    assert 50 <= balance(*flat) <= 100
    for gone in range(3):
        two = [number for at, pair in enumerate(resources) for number in (pair if at != gone else (0, 0))]
        left = [part for at, part in enumerate(parts) if at != gone]
        assert balance(*two) == pytest.approx((1 - np.std(left)) * 100, abs=1.0001)
    assert balance(5, 10, 0, 0, 0, 0) == 100, "one resource is balanced"


@given(has, used, asks)
def test_balanced_resources_is_between_50_and_100_and_0_for_those_who_request_nothing(all_of, taken, what) -> None:
    got = scored(what, replace(ONLY, balanced_resource=1), has=all_of, used=taken).ordered(0)
    resources = dict(what.containers[0].resources)
    assert got == 0 if not any(resources.get(name) for name in NAMES[:3]) else 50 <= got <= 100


@given(has, used, asks, st.lists(st.integers(0, 5), min_size=4, max_size=4), st.integers(-2, 5))
def test_binpack_is_how_full_the_node_would_be(all_of, taken, what, weights, weight) -> None:
    packing = Binpack(weight, tuple(zip(("cpu", "memory", "nvidia.com/gpu", "x/y"), weights, strict=True)))
    got = scored(what, None, packing, has=all_of, used=taken).packed(0)
    resources = {name: number for name, number in what.containers[0].resources if number}
    counting = [(name, weight_sum) for name, weight_sum in packing.resources if name in resources]
    total = sum(weight_sum for _, weight_sum in counting)
    parts = [
        (Fraction(taken[name] + resources[name], all_of[name]), weight_sum)
        for name, weight_sum in counting
        if weight_sum and all_of[name]
    ]
    if any(part > 1 for part, _ in parts) or not total:
        assert got == 0
    else:
        expected = sum(part * weight_sum for part, weight_sum in parts) / total * 100 * weight
        assert got == pytest.approx(float(expected))


def test_a_configuration_without_them_scores_nothing() -> None:
    assert node_scores(ask(container()), conf(), table()) is None


def test_sums_are_made_as_volcano_makes_them() -> None:
    packing = Binpack(1, (("cpu", 1), ("memory", 1)))
    scores = scored(ask(container(cpu=1)), NodeOrder(), packing, has={"cpu": 3}, used={"cpu": 1})
    # Two thirds are packed; a hundredth of CPU of one container that asks none of memory; nothing is to be balanced.
    assert scores.total(0, 20.0) == (2 / 3 * 100 + 20.0) + (33 + 75 + 300)


def test_devices_are_counted_as_kubelet_counts_them() -> None:
    what = ask(container(cpu=1, memory=1, **{"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 100}))
    devices = frozenset({"volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"})
    assert counted(what, devices) == (("volcano.sh/vgpu-memory", 100), ("volcano.sh/vgpu-number", 2))
    assert counted(ask(container(cpu=1)), devices) == (("memory" + SCORED, 200 * 2**20),)


def test_a_resource_without_a_limit_packs_nothing() -> None:
    found = ResourceTable()
    found.set_open(["x/y"])
    found.set_node(0, {"cpu": 4})
    scores = node_scores(
        ask(container(cpu=1, **{"x/y": 2})), replace(conf(), binpack=Binpack(1, (("cpu", 1), ("x/y", 1)))), found
    )
    assert scores.total(0, 0.0) == 100 * (1 / 4) / 2


# What is stretched over the nodes that fit


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans()), min_size=1, max_size=12), st.booleans(), st.data())
def test_the_highest_of_the_nodes_that_fit_stands_for_100(nodes, reverse, data) -> None:
    stretch = NormalizedScore(7, reverse)
    for row, (worth, fits) in enumerate(nodes):
        stretch.put(row, worth, len(nodes))
        stretch.enter(row, fits)
    for _ in range(data.draw(st.integers(0, 20))):
        row = data.draw(st.integers(0, len(nodes) - 1))
        worth, fits = data.draw(st.integers(0, 300)), data.draw(st.booleans())
        if data.draw(st.booleans()):
            stretch.put(row, worth, len(nodes))
        else:
            worth = nodes[row][0]
        stretch.enter(row, fits)
        nodes[row] = (worth, fits)
    highest = max((worth for worth, fits in nodes if fits), default=0)
    for row, (worth, fits) in enumerate(nodes):
        part = 100 * worth // highest if highest else 0
        if fits:
            assert stretch.score(row) == 7 * (100 - part if reverse else part)


def test_preferences_and_soft_taints_are_entered_node_by_node() -> None:
    ssd = Requirement("disk", "In", ("ssd",))
    what = ask(
        container(cpu=1, memory=1),
        preferences=(Preference(40, (ssd,)), Preference(1, (Requirement("a", "Exists", ()),))),
        tolerations=(Toleration("slow", "Exists", "", ""),),
    )  # fmt: skip
    soft = [Taint("old", "", "PreferNoSchedule"), Taint("slow", "", "PreferNoSchedule")]
    nodes = [node(labels={"disk": "ssd"}), node(labels={"a": ""}, taints=soft), node(labels={"disk": "ssd", "a": ""})]
    order = replace(ONLY, node_affinity=2, taint_toleration=3)
    scores = node_scores(what, replace(conf(), nodeorder=order), table())
    assert scores is not None
    enter_nodes(scores, what, dict(enumerate(nodes)), len(nodes))
    for row in range(3):
        scores.preferred_affinity.enter(row, True)
        scores.prefer_no_schedule.enter(row, True)
    assert [(scores.preferred_affinity.score(row), scores.prefer_no_schedule.score(row)) for row in range(3)] == [
        (2 * 97, 300), (2 * 2, 0), (200, 300),
    ]  # fmt: skip
    scores.preferred_affinity.enter(2, False)
    assert [scores.preferred_affinity.score(row) for row in range(2)] == [200, 2 * 2]
