"""Requests for vNPUs in MindCluster's format: the template of each, and invalid ones."""

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.families.mindcluster.wire import TEMPLATES
from msgspec.structs import replace
from support.builders import ask, cluster, conf, container, take
from support.mindcluster import CORES, LABELS, asks, bound, given, labelled, made, npus, taken

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


def test_a_pod_that_requests_no_npu_is_not_concerned():
    assert cluster(npus()).place(ask(container(cpu=100), labels=tuple(LABELS.items()))).grants == ()
