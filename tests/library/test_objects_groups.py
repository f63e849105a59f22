import json

import pytest
from deviceshare.model import FormatError
from deviceshare.objects import decode_podgroup, decode_queue


def raw(spec=None, status=None, **metadata) -> bytes:
    return json.dumps({"metadata": {"name": "x"} | metadata, "spec": spec, "status": status}).encode()


def test_a_podgroup():
    fact = decode_podgroup(
        raw(
            {"minMember": 3, "minTaskMember": {"worker": 2, "ps": 1}, "queue": "training"},
            namespace="ml",
            uid="u",
            creationTimestamp="1970-01-01T00:01:00Z",
        )
    )
    assert (fact.key, fact.uid, fact.queue, fact.min_member, fact.created) == ("ml/x", "u", "training", 3, 60.0)
    assert fact.min_task_member == {"worker": 2, "ps": 1}
    assert fact.problems == ()


def test_a_podgroup_that_says_nothing_is_a_gang_of_one_in_the_default_queue():
    fact = decode_podgroup(raw())
    assert (fact.key, fact.queue, fact.min_member, fact.min_task_member) == ("default/x", "default", 1, {})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": -1}, "spec.minMember"),
        ({"minMember": "3"}, "spec.minMember"),
        ({"minMember": 2.5}, "spec.minMember"),
        ({"minMember": 2**40}, "spec.minMember"),
        ({"minTaskMember": {"w": -2}}, "spec.minTaskMember[w]"),
        ({"minTaskMember": {"w": "many"}}, "spec.minTaskMember[w]"),
    ],
)
def test_numbers_that_cannot_be_meant_are_problems(spec, field):
    fact = decode_podgroup(raw({"queue": "q"} | spec, namespace="ml"))
    assert [(problem.subject, problem.field) for problem in fact.problems] == [("PodGroup ml/x", field)]
    assert (fact.queue, fact.min_member, fact.min_task_member) == ("q", 1, {})


@pytest.mark.parametrize(
    ("state", "is_open"),
    [(None, False), ("", False), ("Open", True), ("Closed", False), ("Closing", False), ("Unknown", False)],
)
def test_only_open_queues_are_served(state, is_open):
    assert decode_queue(raw({"weight": 4}, {"state": state})).open is is_open


def test_a_queue():
    fact = decode_queue(raw({"weight": 4, "parent": "y"}, {"state": "Open"}, resourceVersion="7"))
    assert (fact.name, fact.parent, fact.weight, fact.open, fact.revision) == ("x", "y", 4, True, "7")
    assert decode_queue(raw()).weight == 1
    nothing = decode_queue(raw({"weight": 0}))
    assert (nothing.weight, nothing.problems) == (0, ())


def in_hierarchy(path, weights=None):
    annotations = {"volcano.sh/hierarchy": path} | (
        {} if weights is None else {"volcano.sh/hierarchy-weights": weights}
    )
    return decode_queue(raw({}, annotations=annotations))


@pytest.mark.parametrize(
    ("path", "weights", "expected"),
    [
        ("root/eng/dev", "100/50/2.5", (("eng", 50.0), ("dev", 2.5))),
        ("root", "1", ()),
        ("", "", ()),
        ("", "7", ()),
    ],
)
def test_the_path_of_a_queue_is_in_its_annotations(path, weights, expected):
    fact = in_hierarchy(path, weights)
    assert (fact.hierarchy, fact.problems) == (expected, ())


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (None, (("eng", 1.0), ("dev", 1.0))),
        ("1/2", (("eng", 2.0), ("dev", 1.0))),
        ("1/2/3/4", (("eng", 2.0), ("dev", 3.0))),
        ("1/x/3", (("eng", 1.0), ("dev", 3.0))),
        ("1/0.5/3", (("eng", 1.0), ("dev", 3.0))),
        ("1/-2/inf", (("eng", 1.0), ("dev", 1.0))),
        ("1/nan/3", (("eng", 1.0), ("dev", 3.0))),
    ],
)
def test_weights_of_a_path_that_cannot_be_meant_are_a_problem_and_count_1(weights, expected):
    fact = in_hierarchy("root/eng/dev", weights)
    assert fact.hierarchy == expected
    (problem,) = fact.problems
    assert str(problem) == (
        f"Queue x: metadata.annotations[volcano.sh/hierarchy-weights]: {weights or ''!r} is not valid: "
        "expected 3 numbers from 1, one for each part of 'root/eng/dev', separated by '/'"
    )


def test_a_path_has_a_bound():
    fact = in_hierarchy("root" + "/x" * 32, "1" + "/1" * 32)
    assert fact.hierarchy == ()
    assert [problem.field for problem in fact.problems] == ["metadata.annotations[volcano.sh/hierarchy]"]


@pytest.mark.parametrize("weight", [-1, "4", 1.5])
def test_a_weight_that_cannot_be_meant_is_a_problem(weight):
    fact = decode_queue(raw({"weight": weight}))
    assert fact.weight == 1
    assert [(problem.subject, problem.field) for problem in fact.problems] == [("Queue x", "spec.weight")]


@pytest.mark.parametrize("decode", [decode_podgroup, decode_queue])
def test_an_object_without_a_name_is_an_error(decode):
    with pytest.raises(FormatError, match=r"metadata\.name"):
        decode(b'{"metadata": {}}')


def test_a_queue_has_bounds_in_the_units_of_facts():
    fact = decode_queue(
        raw(
            {
                "priority": 3,
                "capability": {"cpu": "2", "memory": "1Gi", "volcano.sh/vgpu-memory": 65536},
                "deserved": {"volcano.sh/vgpu-memory": "32k"},
                "guarantee": {"resource": {"cpu": "500m"}},
                "reclaimable": False,
            },
            {"state": "Closing"},
            creationTimestamp="1970-01-01T00:01:00Z",
        )
    )
    assert fact.capability == {"cpu": 2000, "memory": 2**30, "volcano.sh/vgpu-memory": 65536}
    assert (fact.deserved, fact.guarantee) == ({"volcano.sh/vgpu-memory": 32000}, {"cpu": 500})
    assert (fact.priority, fact.reclaimable, fact.created, fact.state) == (3, False, 60.0, "Closing")


def test_a_bound_that_cannot_be_meant_is_a_problem_and_no_bound():
    fact = decode_queue(raw({"capability": {"cpu": "2", "volcano.sh/vgpu-memory": "1.5"}}))
    assert fact.capability == {"cpu": 2000}
    (problem,) = fact.problems
    assert (problem.field, problem.value) == ("spec.capability[volcano.sh/vgpu-memory]", "1.5")


def test_a_podgroup_says_what_it_needs_at_least_and_whether_it_was_admitted():
    fact = decode_podgroup(raw({"minResources": {"cpu": "500m", "volcano.sh/vgpu-number": "4"}}, {"phase": "Pending"}))
    assert (fact.min_resources, fact.admitted) == ({"cpu": 500, "volcano.sh/vgpu-number": 4}, False)
    assert decode_podgroup(raw()).min_resources is None
    assert decode_podgroup(raw({}, {"phase": "Inqueue"})).admitted
    assert not decode_podgroup(raw({}, {})).admitted


def test_names_of_a_quota_in_min_resources_are_passed_by_as_in_volcano():
    # As vc-controller-manager writes it for pods that request 250m CPU.
    quota = {
        "count/pods": "2",
        "cpu": "500m",
        "limits.cpu": "3500m",
        "limits.memory": "2Gi",
        "memory": "1Gi",
        "pods": "2",
        "requests.cpu": "500m",
        "requests.memory": "1Gi",
        "requests.volcano.sh/vgpu-memory": "6k",
        "volcano.sh/vgpu-memory": "6k",
    }
    fact = decode_podgroup(raw({"minResources": quota}))
    assert fact.min_resources == {"cpu": 500, "memory": 2**30, "volcano.sh/vgpu-memory": 6000}
    assert fact.problems == ()


@pytest.mark.parametrize(
    ("resource", "counted"),
    [
        ("cpu", True),
        ("ephemeral-storage", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-aws-ebs", True),
        ("nvidia.com/gpu", True),
        ("example.kubernetes.io/thing", True),
        ("limits.ephemeral-storage", False),
        ("requests.hugepages-2Mi", False),
        ("requests.nvidia.com/gpu", False),
        ("count/jobs.batch", False),
        ("services", False),
    ],
)
def test_which_resources_of_a_list_are_counted(resource, counted):
    assert (resource in decode_queue(raw({"capability": {resource: "1"}})).capability) is counted


def test_a_podgroup_says_how_long_it_may_wait():
    assert decode_podgroup(raw(annotations={"sla-waiting-time": "1h30m"})).waiting_time == 5400.0
    fact = decode_podgroup(raw(annotations={"sla-waiting-time": "soon"}))
    assert fact.waiting_time is None
    assert [problem.field for problem in fact.problems] == ["metadata.annotations[sla-waiting-time]"]
