"""Annotations and environment of vNPUs in MindCluster's format: written for a pod, and read back."""

import pytest
from deviceshare.families import HeldInPart
from deviceshare.model import INIT, FormatError, with_made
from support.builders import ask, cluster, container, take
from support.mindcluster import (
    CONTAINERS,
    CORES,
    MINDCLUSTER,
    REAL,
    annotations,
    asks,
    given,
    labelled,
    made,
    npus,
    taken,
)


def test_what_is_written():
    two = cluster(npus(count=2))
    time = {"predicate-time": "1500000000"}
    assert annotations(two.place(asks(2))) == {CORES: "0-vir02_1c", **time}
    assert annotations(two.place(asks(16))) == {CORES: "0,1", **time}


@pytest.mark.parametrize("what", CONTAINERS)
def test_the_held_devices_are_the_placed_devices(what):
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
def test_devices_beyond_the_request_are_not_trusted(text):
    with pytest.raises(FormatError, match="1 AI cores, as the pod requests") as raised:
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
def test_a_pod_that_volcano_gave_less_than_it_requests_holds_what_it_was_given(what, text, charged):
    with pytest.raises(HeldInPart, match="AI cores, as the pod requests") as raised:
        MINDCLUSTER.held({CORES: text, REAL: made("x", 0)}, what, "ns/a")
    one = cluster(npus())
    one.hold("n1", "a", raised.value.grants, ())
    assert taken(one) == [charged]
    assert one.place(asks(8)) is None, "the chip is not available as a whole"


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
