"""Constraints of Volcano about topology are refused by name; nothing is placed as if they had not been asked."""

import json

import pytest
from deviceshare.objects import decode_pod, decode_podgroup

NUMA, MODE = "volcano.sh/numa-topology-policy", "volcano.sh/network-topology-mode"


def group(**spec):
    return decode_podgroup(json.dumps({"metadata": {"name": "g", "namespace": "ml"}, "spec": spec}).encode())


def pod(annotations, node=""):
    metadata = {"name": "a", "namespace": "ml", "uid": "u", "annotations": annotations}
    spec = {"containers": [{"name": "c"}], "nodeName": node}
    return decode_pod(json.dumps({"metadata": metadata, "spec": spec}).encode())


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, "spec.networkTopology.mode", "hard"),
        ({"networkTopology": {"highestTierAllowed": 1}}, "spec.networkTopology.mode", "hard"),
        ({"networkTopology": {"mode": "Soft"}}, "spec.networkTopology.mode", "Soft"),
        (
            {"subGroupPolicy": [{"name": "a"}, {"name": "b", "networkTopology": {"mode": "hard"}}]},
            "spec.subGroupPolicy[1].networkTopology.mode",
            "hard",
        ),
    ],
)
def test_a_network_topology_that_nodes_must_meet_is_a_problem_of_the_podgroup(spec, field, value):
    fact = group(minMember=2, **spec)
    assert [(each.subject, each.field, each.value) for each in fact.problems] == [("PodGroup ml/g", field, value)]
    assert fact.problems[0].expected.startswith("soft, or no network topology")
    assert (fact.min_member, fact.caveats) == (2, ())


def test_a_soft_network_topology_is_a_caveat():
    fact = group(networkTopology={"mode": "soft"}, subGroupPolicy=[{"networkTopology": {"mode": "soft"}}])
    assert fact.problems == ()
    (caveat,) = fact.caveats
    assert caveat.startswith("PodGroup ml/g: spec.networkTopology and 1 more: 'soft' has no effect")
    many = group(subGroupPolicy=[{"networkTopology": {"mode": "soft"}}] * 20_000)
    assert len("".join(many.caveats)) < 200
    assert [each.field for each in many.problems] == ["spec.subGroupPolicy"]
    assert group(networkTopology=None, subGroupPolicy=None) == group()


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node", "other"])
def test_a_numa_policy_is_a_problem_of_a_waiting_pod(policy):
    (problem,) = pod({NUMA: policy}).problems
    assert (problem.subject, problem.field, problem.value) == ("Pod ml/a", f"metadata.annotations[{NUMA}]", policy)
    assert problem.expected.startswith("none")
    assert pod({NUMA: policy}, node="n1").problems == ()


@pytest.mark.parametrize(
    ("annotations", "value"),
    [({MODE: "Hard"}, "Hard"), ({"volcano.sh/network-topology-highest-tier": "1"}, "hard"), ({MODE: "near"}, "near")],
)
def test_a_network_topology_in_annotations_is_a_problem_of_a_waiting_pod(annotations, value):
    (problem,) = pod(annotations).problems
    assert (problem.field, problem.value) == (f"metadata.annotations[{MODE}]", value)


@pytest.mark.parametrize("annotations", [{}, {NUMA: "none"}, {NUMA: ""}, {MODE: "soft"}])
def test_annotations_that_exclude_no_node_are_no_problem(annotations):
    assert pod(annotations).problems == ()
