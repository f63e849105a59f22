"""Required and preferred node affinity of pods."""

import pytest
from deviceshare.model import Preference, Requirement
from support.pod_objects import pod


def affinity(*terms):
    required = {"nodeSelectorTerms": list(terms)}
    return pod({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})


def test_required_node_affinity():
    fact = affinity(
        {
            "matchExpressions": [
                {"key": "gpu", "operator": "In", "values": ["t4", "a100"]},
                {"key": "old", "operator": "DoesNotExist"},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["-3"]}]},
    )
    assert fact.problems == ()
    assert fact.ask.node_terms == (
        (Requirement("gpu", "In", ("t4", "a100")), Requirement("old", "DoesNotExist", ())),
        (Requirement("metadata.name", "In", ("n1",), field=True),),
        (Requirement("rank", "Gt", ("-3",)),),
    )


def test_no_affinity_is_not_the_same_as_an_affinity_that_nothing_satisfies():
    assert (
        pod({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}).ask.node_terms
        is None
    )
    assert affinity({}).ask.node_terms == ()
    assert affinity().ask.node_terms == ()


@pytest.mark.parametrize(
    ("requirement", "hint"),
    [
        ({"key": "a", "operator": "Is", "values": ["x"]}, "one of In, NotIn"),
        ({"operator": "In", "values": ["x"]}, "name of a label"),
        ({"key": "a", "operator": "In"}, "at least one value"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "no values"),
        ({"key": "a", "operator": "Gt", "values": ["many"]}, "one whole number"),
        ({"key": "a", "operator": "Lt", "values": ["1", "2"]}, "one whole number"),
        ({"key": "a", "operator": "Gt", "values": ["1_0"]}, "one whole number"),
    ],
)
def test_a_requirement_that_cannot_be_evaluated_is_a_problem_and_its_term_matches_nothing(requirement, hint):
    fact = affinity({"matchExpressions": [requirement, {"key": "ok", "operator": "Exists"}]})
    assert fact.ask.node_terms == ()
    (problem,) = fact.problems
    assert "nodeSelectorTerms[0].matchExpressions" in problem.field
    assert hint in problem.expected


def test_a_field_has_one_name():
    for values in ([], ["n1", "n2"]):
        fact = affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]})
        assert fact.ask.node_terms == ()
        (problem,) = fact.problems
        assert (problem.field, problem.expected) == (
            "spec.affinity.nodeAffinity.required.nodeSelectorTerms[0].matchFields[metadata.name].values",
            "one name for In",
        )


def preferring(*terms):
    return pod({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}})


SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}


def test_preferred_node_affinity():
    fact = preferring(
        {"weight": 10, "preference": {"matchExpressions": [SSD]}},
        {"weight": 1, "preference": {}},
        {
            "weight": 100,
            "preference": {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]},
        },
    )
    assert fact.problems == ()
    assert fact.ask.preferences == (
        Preference(10, (Requirement("disk", "In", ("ssd",)),)),
        Preference(100, (Requirement("metadata.name", "NotIn", ("n",), field=True),)),
    )


@pytest.mark.parametrize("weight", [0, 101, -1, None])
def test_a_weight_is_from_1_to_100(weight):
    fact = preferring({"weight": weight, "preference": {"matchExpressions": [SSD]}})
    assert fact.ask.preferences == ()
    assert [problem.field for problem in fact.problems] == ["spec.affinity.nodeAffinity.preferred[0].weight"]
