"""Placing of vNPUs in MindCluster's format: the chip of a part, whole chips, nodes and refusals."""

import numpy as np
import pytest
from deviceshare.families.mindcluster.chips import STATE
from deviceshare.families.mindcluster.wire import TEMPLATES
from deviceshare.state import CardTable
from msgspec.structs import replace
from support.builders import cluster, codes, conf, node, take
from support.mindcluster import CORES, MINDCLUSTER, asks, bound, chips, given, made, npus, taken

# Which chip


def test_the_chip_with_the_fewest_free_cores_is_cut_then_with_the_fewest_cpus_then_the_first():
    four = cluster(npus(count=4))
    for uid, text, cores in (("a", "1-vir04", 4), ("b", "2-vir02", 2), ("c", "3-vir04_3c", 4)):
        bound(four, text, uid, cores, made("x", 0, int(text[0])))
    assert given(take(four, asks(2), "x")) == "1-vir02_1c"
    assert given(take(four, asks(2), "y")) == "1-vir02_1c"
    assert given(take(four, asks(4), "z")) == "3-vir04_3c"
    assert given(take(four, asks(4), "w")) == "2-vir04_3c"
    assert given(four.place(asks(4))) == "0-vir04_3c"


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        # AI cores and AI CPUs left: 4, 4 and 4, 3
        (["0-vir04_3c", "1-vir04"], "1-vir01"),
        # 2, 4 and 4, 3
        (["0-vir04", "1-vir02_1c", "1-vir02_1c", "1-vir02_1c"], "1-vir01"),
    ],
)
def test_cores_count_before_cpus(there, expected):
    two = cluster(npus(count=2))
    for at, text in enumerate(there):
        bound(two, text, f"p{at}", TEMPLATES[text[2:]].cores, made("x", 0, int(text[0])))
    assert given(two.place(asks(1))) == expected


def test_the_view_charges_a_choice_before_the_next_request():
    table = CardTable(STATE)
    table.set_cards(0, chips(2))
    view = table.view(np.array([0]), lambda name: np.array([16]), lambda row: ())
    whole, part, other = (MINDCLUSTER.demand(what, conf()) for what in (asks(8), asks(4, dvpp="yes"), asks(1)))
    fits = [bool(MINDCLUSTER.place(demand, view, conf()).fits[0]) for demand in (part, whole, part, other)]
    assert fits == [True, True, False, False]


def test_unhealthy_chips_are_never_allocated():
    two = cluster(npus(count=2, sick=[0]))
    assert given(two.place(asks(1))) == "1-vir01"
    assert given(two.place(asks(8))) == "1"
    assert "CardNotHealth" in codes(two, asks(16))


def test_mind_one_template_per_node():
    """Volcano refuses every other template, and whole chips, on a node where any part runs; they stand side by side."""
    two = cluster(npus(count=2))
    texts = [given(take(two, what, f"p{at}")) for at, what in enumerate((asks(1), asks(2), asks(4, "high"), asks(8)))]
    assert texts == ["0-vir01", "0-vir02_1c", "0-vir04", "1"]


def test_mind_downgrade_accounting():
    """Volcano charges a downgraded pod the AI CPUs that it asked: a chip has -1 left. We charge what it gets."""
    one = cluster(npus())
    assert [given(take(one, asks(4, "high"), uid)) for uid in "ab"] == ["0-vir04", "0-vir04_3c"]
    assert taken(one) == [(8, 7)]


def test_a_chip_that_has_the_cpus_is_taken_before_a_downgrade():
    two = cluster(npus(count=2))
    assert [given(take(two, asks(4, "high"), uid)) for uid in "abc"] == ["0-vir04", "1-vir04", "0-vir04_3c"]


@pytest.mark.parametrize("what", [asks(4, "high", "yes"), asks(4, "high", "no"), asks(2, "low"), asks(1, "high")])
def test_nothing_else_is_downgraded(what):
    one = cluster(npus())
    for uid, text in (("a", "0-vir02"), ("b", "0-vir02"), ("c", "0-vir01"), ("d", "0-vir01")):
        bound(one, text, uid, TEMPLATES[text[2:]].cores, made("x", 0))
    bound(one, "0-vir01", "e", 1, made("x", 0))
    assert taken(one) == [(7, 7)]
    assert "CardInsufficientCpu" in codes(one, what)


@pytest.mark.parametrize(
    ("there", "asked", "fits"),
    [
        ("yes", "yes", False),
        ("yes", "null", False),
        ("yes", "no", True),
        ("null", "yes", False),
        ("null", "null", True),
        ("null", "no", True),
        ("no", "yes", True),
        ("no", "null", True),
        ("no", "no", True),
    ],
)
def test_what_is_left_of_a_dvpp(there, asked, fits):
    one = cluster(npus())
    bound(one, {"yes": "0-vir04_4c_dvpp", "null": "0-vir04_3c", "no": "0-vir04_3c_ndvpp"}[there], "a", 4, made("x", 0))
    what = asks(4, dvpp=asked)
    if asked == "yes" and fits:
        # 3 AI CPUs are taken, so there is room for the 4 of it.
        assert given(one.place(what)) == "0-vir04_4c_dvpp"
    elif fits:
        assert one.place(what) is not None
    else:
        assert codes(one, what) == {"CardDvppTaken"} | ({"CardInsufficientCpu"} if there == asked == "yes" else set())


@pytest.mark.parametrize(
    ("groups", "possible"),
    [({0}, (1, 2, 4)), ({0, 1}, (1, 2, 4)), ({0, 1, 2}, (1, 2)), ({0, 1, 2, 3}, (1,))],
)
def test_more_groups_of_a_chip_are_smaller_ones(groups, possible):
    one = cluster(npus())
    for group in groups:
        bound(one, "0-vir01", f"p{group}", 1, made("1c", group))
    assert tuple(cores for cores in (1, 2, 4) if one.place(asks(cores))) == possible
    for cores in {1, 2, 4} - set(possible):
        assert codes(one, asks(cores)) == {"CardGroupsTooSmall"}


def test_pods_of_one_group_count_once():
    one = cluster(npus())
    for uid in "abc":
        bound(one, "0-vir01", uid, 1, made("1c", 2))
    assert one.place(asks(4)) is not None


def test_a_chip_rests_until_the_plugin_has_made_what_a_bound_pod_waits_for():
    one = cluster(npus())
    bound(one, "0-vir01", "a", 1)
    assert codes(one, asks(1)) == {"CardPartsUnmade"}
    bound(one, "0-vir01", "a", 1, made("1c", 0))
    assert one.place(asks(1)) is not None


def test_pods_that_are_decided_together_do_not_wait_for_each_other():
    one = cluster(npus())
    assert [given(take(one, asks(2), f"p{at}")) for at in range(4)] == ["0-vir02_1c"] * 4


# Whole chips


def test_whole_chips_are_unused_ones_from_the_first_on():
    four = cluster(npus(count=4))
    take(four, asks(1), "part")
    assert given(take(four, asks(16), "two")) == "1,2"
    refusal = next(each for each in four.why_not(asks(16)).refusals if each.code == "ExclusiveDeviceAllocateConflict")
    assert (refusal.asked, refusal.free, refusal.unit) == (2, 1, "whole chips")


def test_mind_discard_keeps_segment():
    """A chip that Volcano has emptied by a discard takes neither whole pods nor dvpp yes; an empty chip is empty."""
    one = cluster(npus())
    for what in (asks(8), asks(4, dvpp="yes")):
        take(one, asks(4, "high"), "gone")
        assert one.release("n1", "gone")
        assert one.place(what) is not None
    assert not any(one.card_state("n1", name)[0] for name in STATE)


# Nodes


def test_mind_filter_passes_allocate_fails():
    """Volcano's filter looks at the node's idle AI cores alone; a node without a chip for the pod is not chosen."""
    two = cluster(npus("a", count=2), npus("b", count=2))
    for chip in (0, 1):
        bound(two, f"{chip}-vir04", f"a{chip}", 4, made("4c", 0, chip), where="a")
        bound(two, f"{chip}-vir01", f"a{chip + 2}", 1, made("1c", 1, chip), where="a")
    placement = two.place(asks(4))
    assert (placement.node, placement.feasible) == ("b", 1)


def test_a_node_gives_no_more_cores_than_it_offers():
    """kubelet admits by what is allocatable, whatever the chips have left."""
    short = cluster(npus(count=2, cores=9))
    take(short, asks(8), "a")
    refusal = next(each for each in short.why_not(asks(2)).refusals if each.code == "NodeInsufficientDevice")
    assert (refusal.resource, refusal.asked, refusal.free) == (CORES, 2, 1)
    assert short.place(asks(1)) is not None


@pytest.mark.parametrize("weight", [0, 1, 100])
def test_the_fullest_node_that_fits_is_the_best_one(weight):
    three = cluster(npus("a", count=4), npus("b", count=2), npus("c", count=3), weight=weight)
    placement = take(three, asks(4), "x")
    assert (placement.node, placement.score) == ("b", 8.0)
    take(three, asks(8), "y")
    assert [three.place(asks(cores)).node for cores in (4, 8, 16, 32)] == ["b", "c", "c", "a"]


def test_a_node_that_gives_what_was_requested_is_better_than_one_that_downgrades():
    two = cluster(npus("a"), npus("b", count=4))
    bound(two, "0-vir04", "x", 4, made("4c", 0), where="a")
    placement = two.place(asks(4, "high"))
    assert (placement.node, given(placement), placement.score) == ("b", "0-vir04", 8.0)
    assert two.place(asks(4)).node == "a"


def test_nodes_without_chips_say_so():
    assert "CardNotFound" in codes(cluster(node()), asks(1))


def test_the_refusal_names_the_missing_amount():
    one = cluster(npus())
    bound(one, "0-vir04", "a", 4, made("4c", 0))
    bound(one, "0-vir02", "b", 2, made("2c", 1))
    (refusal,) = [each for each in one.why_not(asks(4)).refusals if each.code == "CardInsufficientCore"]
    assert refusal.line == (
        "1 Insufficient AI cores on a chip (asked 4 AI cores, at most 2 AI cores free, 2 AI cores missing)"
    )
    # The downgraded size is the one that is missing.
    (refusal,) = [each for each in one.why_not(asks(4, "high")).refusals if each.code == "CardInsufficientCpu"]
    assert (refusal.asked, refusal.free) == (3, 1)


def test_a_node_that_has_room_gives_no_reason():
    two = cluster(npus("a", count=2), npus("b"))
    bound(two, "0-vir04", "x", 4, where="a")
    what = replace(asks(4), node_selector=(("zone", "1"),))
    assert codes(two, what) == {"NodeAffinityMismatch"}
