"""Ascend 310P vNPUs in MindCluster's mode: templates, what a chip endures, whole chips, nodes, and reading back."""

import hypothesis.strategies as st
import numpy as np
import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.families import BY_NAME, HeldInPart
from deviceshare.families.mindcluster.chips import CPUS, STATE
from deviceshare.formats.mindcluster import TEMPLATES, chip_id
from deviceshare.model import INIT, UNMADE, Card, Claim, FormatError, PodRequest, with_made
from deviceshare.state import CardTable
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from support.builders import ask, cluster, codes, conf, container, node, take

CORES, REAL = "huawei.com/npu-core", "huawei.com/AscendReal"
MINDCLUSTER = BY_NAME["mindcluster"]
LABELS = {"ring-controller.atlas": "ascend-310P"}


def chips(count, *, sick=()):
    return tuple(
        Card(chip_id(at), at, 7, 0, 8, "310P3", healthy=at not in sick, mode="mindcluster") for at in range(count)
    )


def npus(name="n1", count=1, *, sick=(), cores=None):
    return node(name, chips(count, sick=sick), **{CORES: 8 * count if cores is None else cores})


def labelled(*containers, level=None, dvpp=None, labels=LABELS, **rest):
    wishes = labels | {"vnpu-level": level, "vnpu-dvpp": dvpp}
    found = tuple(sorted((key, value) for key, value in wishes.items() if value is not None))
    return ask(*containers, labels=found, **rest)


def asks(cores, level=None, dvpp=None):
    return labelled(container(**{CORES: cores}), level=level, dvpp=dvpp)


def annotations(placement, now=1.5):
    claim = Claim(id="1", uid="u", namespace="ns", name="a", grants=placement.grants)
    return MINDCLUSTER.annotations(claim, placement.node, ["main"], now)


def given(placement):
    """Return what the device plugin reads on the pod."""
    assert placement is not None
    return annotations(placement)[CORES]


def bound(allocator, text, uid, cores, real=UNMADE, where="n1"):
    """Let a pod run that was given this, and of which the device plugin says ``real``."""
    written = {CORES: text} if real == UNMADE else {CORES: text, REAL: real}
    allocator.hold(where, uid, MINDCLUSTER.held(written, asks(cores), "ns/a"), ())


def made(template, group, chip=0):
    return f"Ascend310P-{template}-10{group}-{chip}_{group}"


def taken(allocator, name="n1"):
    """Return AI cores and AI CPUs taken of each chip."""
    cores = [each.cores for each in allocator.used_cards(name)]
    return list(zip(cores, allocator.card_state(name, CPUS), strict=True))


# The table of templates

TABLE = [
    # AI cores, vnpu-dvpp, vnpu-level, is downgraded, template
    (1, "null", "low", False, "vir01"),
    (1, "null", "high", False, "vir01"),
    (2, "null", "low", False, "vir02_1c"),
    (2, "null", "medium", False, "vir02_1c"),
    (2, "null", "high", False, "vir02"),
    (2, "null", "high", True, "vir02_1c"),
    (4, "yes", "low", False, "vir04_4c_dvpp"),
    (4, "no", "low", False, "vir04_3c_ndvpp"),
    (4, "null", "low", False, "vir04_3c"),
    (4, "null", "other", False, "vir04_3c"),
    (4, "yes", "high", False, "vir04_4c_dvpp"),
    (4, "no", "high", False, "vir04_3c_ndvpp"),
    (4, "null", "high", False, "vir04"),
    (4, "null", "high", True, "vir04_3c"),
]


@pytest.mark.parametrize(("cores", "dvpp", "level", "is_downgraded", "template"), TABLE)
def test_the_table_of_templates(cores, dvpp, level, is_downgraded, template):
    one = cluster(npus())
    if is_downgraded and cores == 2:
        bound(one, "0-vir04", "a", 4, made("4c", 0))
        bound(one, "0-vir02", "b", 2, made("2c", 1))
    elif is_downgraded:
        bound(one, "0-vir04", "a", 4, made("4c", 0))
    before = taken(one)[0]
    placement = take(one, asks(cores, level, dvpp), "new")
    assert given(placement) == f"0-{template}"
    assert taken(one)[0] == (before[0] + TEMPLATES[template].cores, before[1] + TEMPLATES[template].cpus)


@pytest.mark.parametrize("dvpp", ["yes", "no", "null", "whatever"])
@pytest.mark.parametrize("level", ["low", "high", "other"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_8_or_a_multiple_are_whole_chips_with_any_labels(count, level, dvpp):
    assert given(cluster(npus(count=4)).place(asks(8 * count, level, dvpp))) == ",".join(map(str, range(count)))


def test_without_labels_of_level_and_dvpp_the_smallest_template_is_taken():
    assert [given(cluster(npus()).place(asks(cores))) for cores in (1, 2, 4)] == ["0-vir01", "0-vir02_1c", "0-vir04_3c"]


@pytest.mark.parametrize(
    ("cores", "dvpp", "expected"),
    [
        (1, "yes", "null for 1 AI core"),
        (1, "no", "null for 1 AI core"),
        (2, "yes", "null for 2 AI cores"),
        (2, "no", "null for 2 AI cores"),
        (4, "maybe", "null or yes or no for 4 AI cores"),
        (4, "", "null or yes or no for 4 AI cores"),
    ],
)
def test_a_dvpp_that_is_not_in_the_table_is_refused(cores, dvpp, expected):
    """Volcano ignores it for 1 and 2 AI cores; the guide says that such a pod cannot be scheduled."""
    one = cluster(npus())
    assert one.place(asks(cores, "high", dvpp)) is None
    problem = one.why_not(asks(cores, "high", dvpp)).problem
    assert (problem.field, problem.value, problem.expected) == ("metadata.labels[vnpu-dvpp]", dvpp, expected)


@pytest.mark.parametrize("cores", [0, 3, 5, 6, 7, 9, 12])
def test_mind_core_not_in_table(cores):
    """Volcano's filter takes these and Allocate fails later: we refuse and say what is possible."""
    eight = cluster(npus(count=8))
    assert eight.place(asks(cores)) is None
    problem = eight.why_not(asks(cores)).problem
    assert problem.value == str(cores)
    assert problem.expected.startswith("1, 2, 4 or a multiple of 8 in all")


@pytest.mark.parametrize("value", [None, "ascend-910", ""])
def test_a_request_counts_only_with_the_label_of_the_task(value):
    labels = {} if value is None else {"ring-controller.atlas": value}
    what = labelled(container(**{CORES: 1}), labels=labels)
    one = cluster(npus())
    assert one.place(what) is None
    assert one.why_not(what).problem.field == "metadata.labels[ring-controller.atlas]"
    assert "ascend-310P" in one.why_not(what).problem.expected


def test_with_chips_cut_beforehand_no_vnpu_is_made():
    def answer(value):
        configurations = {"init-params": {"grace-over-time": "900", "presetVirtualDevice": value}}
        allocator = Allocator(replace(conf(), configurations=configurations))
        allocator.set_node(npus())
        return allocator.place(asks(1)), allocator.why_not(asks(1)).problem

    placement, problem = answer("true")
    assert placement is None
    assert problem.field == "configurations[init-params].arguments[presetVirtualDevice]"
    assert answer("false")[0] is not None


def test_the_family_is_off_without_its_flag():
    allocator = Allocator(SchedulerConf())
    allocator.set_node(npus())
    (refusal,) = allocator.why_not(asks(1)).refusals
    assert refusal.code == "FamilyDisabled"
    assert "set deviceshare.AscendMindClusterVNPUEnable: true" in refusal.text


def test_a_pod_that_asks_no_npu_is_not_concerned():
    assert cluster(npus()).place(ask(container(cpu=100), labels=tuple(LABELS.items()))).grants == ()


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


def test_what_is_chosen_is_taken_in_the_view_for_whoever_is_asked_next():
    table = CardTable(STATE)
    table.set_cards(0, chips(2))
    view = table.view(np.array([0]), lambda name: np.array([16]), lambda row: ())
    whole, part, other = (MINDCLUSTER.demand(what, conf()) for what in (asks(8), asks(4, dvpp="yes"), asks(1)))
    fits = [bool(MINDCLUSTER.place(demand, view, conf()).fits[0]) for demand in (part, whole, part, other)]
    assert fits == [True, True, False, False]


def test_unhealthy_chips_are_never_given():
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


def test_a_node_that_gives_what_was_asked_is_better_than_one_that_downgrades():
    two = cluster(npus("a"), npus("b", count=4))
    bound(two, "0-vir04", "x", 4, made("4c", 0), where="a")
    placement = two.place(asks(4, "high"))
    assert (placement.node, given(placement), placement.score) == ("b", "0-vir04", 8.0)
    assert two.place(asks(4)).node == "a"


def test_nodes_without_chips_say_so():
    assert "CardNotFound" in codes(cluster(node()), asks(1))


def test_the_reason_tells_what_would_have_been_enough():
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


# What is written, and read back


def test_what_is_written():
    two = cluster(npus(count=2))
    time = {"predicate-time": "1500000000"}
    assert annotations(two.place(asks(2))) == {CORES: "0-vir02_1c", **time}
    assert annotations(two.place(asks(16))) == {CORES: "0,1", **time}


CONTAINERS = [
    labelled(container(**{CORES: 4})),
    labelled(container("a", **{CORES: 1}), container("b"), container("c", **{CORES: 1})),
    labelled(container("a", **{CORES: 4}), container("b", **{CORES: 12})),
    labelled(container("a", **{CORES: 1}), init_containers=(container("i", **{CORES: 4}),)),
    labelled(container("a", **{CORES: 3}), init_containers=(container("s", sidecar=True, **{CORES: 1}),)),
    labelled(container("a"), init_containers=(container("i", **{CORES: 16}),)),
    labelled(
        container("a", **{CORES: 8}),
        init_containers=(container("s", sidecar=True, **{CORES: 8}), container("i", **{CORES: 8})),
    ),
]


@pytest.mark.parametrize("what", CONTAINERS)
def test_what_is_held_is_what_was_placed(what):
    four = cluster(npus(count=4))
    placement = take(four, what, "placed")
    held = MINDCLUSTER.held(annotations(placement) | {REAL: made("x", 0)}, what, "ns/a")
    charged = taken(four)
    assert sum(cores for cores, _ in charged) in (4, 2, 16)
    four.release("n1", "placed")
    four.hold("n1", "held", held, ())
    assert taken(four) == charged
    assert with_made(placement.grants, held) == held


def test_containers_share_what_the_pod_is_given():
    four = cluster(npus(count=4))
    grants = four.place(CONTAINERS[2]).grants
    assert [(grant.container, [(each.index, each.cores) for each in grant.devices]) for grant in grants] == [
        ("a", [(0, 4)]),
        ("b", [(0, 4), (1, 8)]),
    ]
    sidecar, init, main = four.place(CONTAINERS[6]).grants
    assert [each.devices[0].index for each in (sidecar, init, main)] == [0, 1, 1], "init is done when main begins"
    init, main = four.place(CONTAINERS[3]).grants
    assert (init.stage, init.devices[0].cores, main.devices[0].cores) == (INIT, 4, 1)
    assert {each.detail for grant in (init, main) for each in grant.devices} == {"vir04_3c"}


def test_the_larger_of_init_containers_and_the_others_counts():
    init = (container("i", **{CORES: 2}),)
    assert given(cluster(npus()).place(labelled(container(**{CORES: 4}), init_containers=init))) == "0-vir04_3c"
    assert given(cluster(npus()).place(labelled(container(**{CORES: 1}), init_containers=init))) == "0-vir02_1c"


@pytest.mark.parametrize("text", ["0-vir02", "0,1", "0"])
def test_more_than_the_pod_asks_is_not_believed(text):
    with pytest.raises(FormatError, match="1 AI cores, as the pod asks") as raised:
        MINDCLUSTER.held({CORES: text}, asks(1), "ns/a")
    assert not isinstance(raised.value, HeldInPart)


@pytest.mark.parametrize(
    ("what", "text", "charged"),
    [
        (labelled(container("a", **{CORES: 4}), container("b", **{CORES: 4})), "0-vir04", (4, 4)),
        (labelled(container("a", **{CORES: 1}), container("b", **{CORES: 8})), "0-vir01", (1, 1)),
        (labelled(container(**{CORES: 2}), init_containers=(container("i", **{CORES: 4}),)), "0-vir02", (2, 2)),
    ],
    ids=["equal containers", "a smaller container first", "a larger init container"],
)
def test_a_pod_that_volcano_gave_less_than_it_asks_holds_what_it_was_given(what, text, charged):
    with pytest.raises(HeldInPart, match="AI cores, as the pod asks") as raised:
        MINDCLUSTER.held({CORES: text, REAL: made("x", 0)}, what, "ns/a")
    one = cluster(npus())
    one.hold("n1", "a", raised.value.grants, ())
    assert taken(one) == [charged]
    assert one.place(asks(8)) is None, "nobody else has the chip whole"


def test_an_annotation_without_a_request_means_nothing():
    assert MINDCLUSTER.held({CORES: "0,1"}, ask(container(cpu=1)), "ns/a") == ()


def test_a_part_by_an_unknown_template_has_its_chip_alone():
    with pytest.raises(HeldInPart, match="one of the templates vir01") as raised:
        MINDCLUSTER.held({CORES: "0-vir03"}, asks(2), "ns/a")
    one = cluster(npus())
    one.hold("n1", "a", raised.value.grants, ())
    assert taken(one) == [(8, 7)]


def test_what_the_plugin_injects():
    two = cluster(npus(count=2))
    (part,), (whole,) = two.place(asks(2)).grants, two.place(asks(16)).grants
    assert MINDCLUSTER.environment(part, ()) == {"ASCEND_RUNTIME_OPTIONS": "VIRTUAL"}
    assert MINDCLUSTER.environment(whole, ()) == {"ASCEND_VISIBLE_DEVICES": "0,1"}


def test_the_plugin_serves_no_pod_with_cores_in_several_containers():
    two = cluster(npus(count=2))
    (caveat,) = MINDCLUSTER.caveats(two.place(CONTAINERS[1]).grants)
    assert "2 containers (a, c)" in caveat
    assert MINDCLUSTER.caveats(two.place(CONTAINERS[0]).grants) == ()


# Whatever happens


SIZES = [asks(1), asks(2), asks(2, "high"), asks(4), asks(4, "high"), asks(4, dvpp="yes"), asks(4, dvpp="no"), asks(8)]
SIZES += [asks(16), CONTAINERS[1], CONTAINERS[3]]


class Chips(RuleBasedStateMachine):
    """Pods come, are bound, served and go, chips fall sick: no chip is overdrawn, and the annotations tell it all."""

    def __init__(self):
        super().__init__()
        self.placed: dict[str, tuple[str, PodRequest, dict[str, str]]] = {}
        self.count = 0

    @initialize()
    def start(self):
        self.nodes = {name: npus(name, count) for name, count in (("a", 1), ("b", 3))}
        self.allocator = cluster(*self.nodes.values())

    @rule(what=st.sampled_from(SIZES))
    def place(self, what):
        placement = self.allocator.place(what)
        if placement is None:
            assert self.allocator.why_not(what).refusals
            return
        self.count += 1
        uid = f"p{self.count}"
        self.placed[uid] = placement.node, what, annotations(placement)
        self.hold(uid)

    @precondition(lambda self: self.placed)
    @rule(at=st.integers(0, 20), group=st.integers(0, 3))
    def serve(self, at, group):
        uid = sorted(self.placed)[at % len(self.placed)]
        where, what, written = self.placed[uid]
        self.placed[uid] = where, what, written | {REAL: made("x", group)}
        self.hold(uid)

    @precondition(lambda self: self.placed)
    @rule(at=st.integers(0, 20))
    def release(self, at):
        uid = sorted(self.placed)[at % len(self.placed)]
        where, _, _ = self.placed.pop(uid)
        assert self.allocator.release(where, uid)

    @rule(name=st.sampled_from("ab"), sick=st.sets(st.integers(0, 2), max_size=1))
    def fall_sick(self, name, sick):
        self.nodes[name] = npus(name, len(self.nodes[name].cards), sick=sick)
        self.allocator.set_node(self.nodes[name])

    def hold(self, uid):
        hold(self.allocator, uid, *self.placed[uid])

    @invariant()
    def no_chip_gives_more_than_it_has(self):
        for name in self.nodes if hasattr(self, "nodes") else ():
            assert all(cores <= 8 and cpus <= 7 for cores, cpus in taken(self.allocator, name))

    @invariant()
    def an_allocator_made_anew_from_the_annotations_knows_the_same(self):
        if not hasattr(self, "nodes"):
            return
        anew = cluster(*self.nodes.values())
        for uid, held in self.placed.items():
            hold(anew, uid, *held)
        for name in self.nodes:
            assert anew.used_cards(name) == self.allocator.used_cards(name)
            for key in STATE:
                assert anew.card_state(name, key) == self.allocator.card_state(name, key)
        assert [anew.place(what) for what in SIZES] == [self.allocator.place(what) for what in SIZES]


def hold(allocator, uid, where, what, written):
    allocator.hold(where, uid, MINDCLUSTER.held(written, what, "ns/a"), ())


Chips.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestChips = Chips.TestCase
