"""Decoding of inter-pod affinity and topology spread, and of namespaces."""

import json

import pytest
from deviceshare.model import (
    FormatError,
    NamespaceFact,
    PodSelection,
    PodTerm,
    Requirement,
    SpreadConstraint,
    WeightedPodTerm,
    matches_labels,
)
from deviceshare.objects import decode_namespace, decode_pod

ZONE = "topology.kubernetes.io/zone"
DB = {"matchLabels": {"app": "db"}}
IS_DB = (Requirement("app", "In", ("db",)),)


def decoded(spec, *, labels=None, namespace="ml"):
    metadata = {"name": "a", "namespace": namespace, "uid": "u1", "labels": labels or {}}
    containers = [{"name": "c", "image": "i"}]
    return decode_pod(json.dumps({"metadata": metadata, "spec": {"containers": containers, **spec}}).encode())


def affinity(*terms, kind="podAffinity", preferred=()):
    found = {}
    if terms:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = list(terms)
    if preferred:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = list(preferred)
    return {"affinity": {kind: found}}


def problems(fact):
    return [(problem.field, problem.value, problem.expected) for problem in fact.problems]


def test_a_term_is_about_the_namespace_of_its_pod_unless_it_names_others() -> None:
    terms = (
        {"topologyKey": ZONE, "labelSelector": DB},
        {"topologyKey": ZONE, "labelSelector": DB, "namespaces": ["b", "a", "b"]},
        {"topologyKey": ZONE, "labelSelector": {}, "namespaceSelector": {}},
        {"topologyKey": ZONE},
    )
    topology = decoded(affinity(*terms)).ask.topology
    assert topology.affinity == (
        PodTerm(ZONE, PodSelection(IS_DB, ("ml",))),
        PodTerm(ZONE, PodSelection(IS_DB, ("a", "b"))),
        PodTerm(ZONE, PodSelection((), (), ())),
        PodTerm(ZONE, PodSelection(None, ("ml",))),
    )


def test_preferred_terms_of_anti_affinity_have_negative_weights() -> None:
    preferred = [{"weight": 7, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": DB}}]
    topology = decoded(affinity(kind="podAntiAffinity", preferred=preferred)).ask.topology
    assert topology.preferred == (WeightedPodTerm(-7, PodTerm(ZONE, PodSelection(IS_DB, ("ml",)))),)


def test_label_keys_are_added_to_the_selector_of_a_spread() -> None:
    constraint = {
        "maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": DB,
        "matchLabelKeys": ["hash", "missing"], "minDomains": 3, "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
    }  # fmt: skip
    topology = decoded({"topologySpreadConstraints": [constraint]}, labels={"app": "db", "hash": "x", "b": "c"}).ask
    selector = (*IS_DB, Requirement("hash", "In", ("x",)))
    assert topology.topology.spread == (SpreadConstraint(ZONE, 2, selector, True, 3, False, True),)
    assert topology.topology.labels == (("app", "db"), ("hash", "x")), "only labels that selectors name"
    without = {**constraint, "labelSelector": None}
    (found,) = decoded({"topologySpreadConstraints": [without]}, labels={"hash": "x"}).ask.topology.spread
    assert found.selector is None


def test_pods_that_differ_in_other_labels_share_a_request() -> None:
    spec = affinity({"topologyKey": ZONE, "labelSelector": DB}, kind="podAntiAffinity")
    one = decoded(spec, labels={"app": "db", "pod": "1"})
    other = decoded(spec, labels={"app": "db", "pod": "2"})
    assert one.ask == other.ask
    assert decoded(spec, labels={"app": "web"}).ask != one.ask
    assert decoded(spec, labels={"app": "db"}, namespace="other").ask != one.ask


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            affinity({"labelSelector": DB}),
            ("spec.affinity.podAffinity.required[0].topologyKey", "", "the name of a label of nodes"),
        ),
        (
            affinity({"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}),
            (
                "spec.affinity.podAffinity.required[0].labelSelector.matchExpressions[a].operator",
                "Gt",
                "one of In, NotIn, Exists, DoesNotExist",
            ),
        ),
        (
            affinity(preferred=[{"weight": 101, "podAffinityTerm": {"topologyKey": ZONE}}]),
            ("spec.affinity.podAffinity.preferred[0].weight", "101", "from 1 to 100"),
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 0, "whenUnsatisfiable": "ScheduleAnyway"}]},
            ("spec.topologySpreadConstraints[0].maxSkew", "0", "a positive number"),
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": ZONE, "maxSkew": 1}]},
            ("spec.topologySpreadConstraints[0].whenUnsatisfiable", "", "one of DoNotSchedule, ScheduleAnyway"),
        ),
    ],
)
def test_an_invalid_constraint_is_a_problem_of_the_pod(spec, expected) -> None:
    fact = decoded(spec)
    assert problems(fact) == [expected]
    assert fact.ask.topology is None


@pytest.mark.parametrize(
    ("selector", "labels", "matched"),
    [
        (None, {}, False),
        ((), {"a": "b"}, True),
        ((Requirement("a", "In", ("b", "c")),), {"a": "c"}, True),
        ((Requirement("a", "In", ("b",)),), {}, False),
        ((Requirement("a", "NotIn", ("b",)),), {}, True),
        ((Requirement("a", "NotIn", ("b",)),), {"a": "b"}, False),
        ((Requirement("a", "Exists", ()),), {"a": ""}, True),
        ((Requirement("a", "DoesNotExist", ()),), {"a": ""}, False),
        ((Requirement("a", "DoesNotExist", ()),), {}, True),
    ],
)
def test_label_selectors(selector, labels, matched) -> None:
    assert matches_labels(selector, labels) is matched


def test_namespaces() -> None:
    raw = json.dumps({"metadata": {"name": "ml", "resourceVersion": "7", "labels": {"b": "c", "a": "b"}}}).encode()
    assert decode_namespace(raw) == NamespaceFact(name="ml", revision="7", labels=(("a", "b"), ("b", "c")))
    with pytest.raises(FormatError, match=r"metadata\.name"):
        decode_namespace(b'{"metadata": {}}')
