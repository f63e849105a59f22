import json

import pytest
from deviceshare.errors import FormatError
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
    [(None, True), ("", True), ("Open", True), ("Closed", False), ("Closing", False), ("Unknown", False)],
)
def test_only_open_queues_are_served(state, is_open):
    assert decode_queue(raw({"weight": 4}, {"state": state})).open is is_open


def test_a_queue():
    fact = decode_queue(raw({"weight": 4}, resourceVersion="7"))
    assert (fact.name, fact.weight, fact.open, fact.revision) == ("x", 4, True, "7")
    assert decode_queue(raw()).weight == 1


@pytest.mark.parametrize("weight", [0, -1, "4", 1.5])
def test_a_weight_that_cannot_be_meant_is_a_problem(weight):
    fact = decode_queue(raw({"weight": weight}))
    assert fact.weight == 1
    assert [(problem.subject, problem.field) for problem in fact.problems] == [("Queue x", "spec.weight")]


@pytest.mark.parametrize("decode", [decode_podgroup, decode_queue])
def test_an_object_without_a_name_is_an_error(decode):
    with pytest.raises(FormatError, match=r"metadata\.name"):
        decode(b'{"metadata": {}}')
