"""What pods and PodDisruptionBudgets say about evictions."""

import json
from typing import Any

import msgspec
import pytest
from deviceshare.model import DisruptionLimit, FormatError, PodDisruptionBudgetFact, PodFact, Requirement
from deviceshare.objects import decode_disruption_budget, decode_pod, decode_podgroup
from msgspec.structs import replace

PREEMPTABLE, COOLDOWN = "volcano.sh/preemptable", "volcano.sh/cooldown-time"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}
AT = 1767225610.0


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> PodFact:
    metadata = {"name": "a", "namespace": "ml", "uid": "u1", **metadata}
    return decode_pod(json.dumps({"metadata": metadata, "spec": spec or {}, "status": status or {}}).encode())


def budget(spec: dict[str, Any], **rest: Any) -> PodDisruptionBudgetFact:
    return decode_disruption_budget(
        json.dumps({"metadata": {"name": "b", "namespace": "ml"}, "spec": spec, **rest}).encode()
    )


@pytest.mark.parametrize(
    ("value", "preemptable"),
    [("true", True), ("1", True), ("T", True), ("false", False), ("0", False), ("no", False), ("", False)],
)
def test_an_annotation_or_else_a_label_says_whether_a_pod_may_go_and_what_is_no_boolean_protects_it(value, preemptable):
    assert pod(annotations={PREEMPTABLE: value}).preemptable is preemptable
    assert pod(labels={PREEMPTABLE: value}).preemptable is preemptable
    assert pod(annotations={PREEMPTABLE: value}, labels={PREEMPTABLE: "true"}).preemptable is preemptable


def test_a_pod_that_says_nothing_may_go_and_preempts():
    fact = pod({"nodeName": "n"}, {"conditions": [SCHEDULED]})
    assert (fact.preemptable, fact.cooldown, fact.scheduled_at, fact.never_preempts) == (True, 0.0, 0.0, False)


def test_what_a_pod_leaves_to_the_defaults_is_left_out_of_messages():
    usual = msgspec.msgpack.encode(pod({"nodeName": "n"}))
    assert msgspec.msgpack.encode(pod({"nodeName": "n", "terminationGracePeriodSeconds": 30})) == usual
    assert not {"cooldown", "scheduled_at", "grace"} & msgspec.msgpack.decode(usual).keys()


@pytest.mark.parametrize(
    ("labels", "annotations", "cooldown"),
    [
        ({COOLDOWN: "90s"}, {}, 90.0),
        ({}, {COOLDOWN: "1h30m"}, 5400.0),
        ({COOLDOWN: "1s"}, {COOLDOWN: "1h"}, 1.0),
        ({COOLDOWN: "soon"}, {COOLDOWN: "1h"}, 0.0),
        ({}, {COOLDOWN: "999999999999h" * 9}, 2.0**53),
    ],
)
def test_a_cooldown_is_that_of_the_label_or_else_of_the_annotation(labels, annotations, cooldown):
    fact = pod({"nodeName": "n"}, {"conditions": [SCHEDULED]}, labels=labels, annotations=annotations)
    assert fact.cooldown == cooldown
    assert fact.scheduled_at == (AT if cooldown else 0.0)
    assert not fact.problems


@pytest.mark.parametrize(
    ("status", "at"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}, SCHEDULED]}, AT),
        ({"conditions": [SCHEDULED | {"status": "False"}]}, 0.0),
        ({"conditions": [SCHEDULED | {"lastTransitionTime": None}]}, 0.0),
        ({"conditions": None}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_cooldown_of_a_bound_pod_begins_when_it_was_scheduled(status, at):
    assert pod({"nodeName": "n"}, status, labels={COOLDOWN: "1h"}).scheduled_at == at


@pytest.mark.parametrize("conditions", [7, "x", [None], [7], {"a": 1}])
def test_conditions_of_another_form_are_a_problem_and_nothing_else_is_lost(conditions):
    fact = pod({"nodeName": "n"}, {"phase": "Running", "conditions": conditions}, labels={COOLDOWN: "1h"})
    assert (fact.node, fact.cooldown, fact.scheduled_at) == ("n", 3600.0, 0.0)
    assert fact.problems


@pytest.mark.parametrize(("policy", "never"), [("Never", True), ("PreemptLowerPriority", False), (None, False)])
def test_no_pod_goes_for_one_with_the_policy_never(policy, never):
    assert pod({"preemptionPolicy": policy}).never_preempts is never


def test_a_budget_selects_pods_of_its_namespace_by_labels():
    fact = budget({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}})
    assert fact == PodDisruptionBudgetFact(
        key="ml/b", selector=(Requirement("app", "In", ("a",)),), limit=DisruptionLimit(1)
    )
    chosen = pod(labels={"app": "a", "tier": "x"})
    assert fact.selects(chosen)
    assert not fact.selects(pod(labels={"app": "b"}))
    assert not fact.selects(replace(chosen, namespace="other"))
    assert budget({"minAvailable": 1, "selector": {}}).selects(chosen)
    assert not budget({"minAvailable": 1}).selects(chosen)


@pytest.mark.parametrize(
    ("spec", "selected", "healthy", "allowed"),
    [
        ({"minAvailable": 2}, 3, 3, 1),
        ({"minAvailable": 2}, 3, 1, 0),
        ({"minAvailable": "50%"}, 3, 3, 1),
        ({"minAvailable": "100%"}, 3, 3, 0),
        ({"maxUnavailable": 1}, 3, 3, 1),
        ({"maxUnavailable": 1}, 3, 2, 0),
        ({"maxUnavailable": "34%"}, 3, 3, 2),
        ({"maxUnavailable": 5}, 3, 2, 2),
        ({}, 3, 3, 0),
    ],
)
def test_a_budget_that_no_controller_has_counted_allows_what_its_spec_says(spec, selected, healthy, allowed):
    assert budget(spec).disruptions(selected, healthy) == allowed
    assert budget(spec, status={"disruptionsAllowed": 2}).disruptions(selected, healthy) == 2
    assert budget(spec, status={"disruptionsAllowed": -1}).disruptions(selected, healthy) == 0


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"minAvailable": "half"}, "spec.minAvailable"),
        ({"maxUnavailable": "5000%"}, "spec.maxUnavailable"),
        ({"maxUnavailable": [1]}, "spec.maxUnavailable"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "spec.selector.matchExpressions"),
        ({"selector": {"matchLabels": {f"l{at}": "x" for at in range(3000)}}}, "spec.selector"),
    ],
)
def test_a_budget_with_an_invalid_field_allows_nothing(spec, field):
    fact = budget(spec, status={"disruptionsAllowed": 3})
    assert fact.disruptions(9, 9) == 0
    assert [problem.field.startswith(field) for problem in fact.problems] == [True]


@pytest.mark.parametrize(
    ("annotations", "limit"),
    [
        ({}, None),
        ({"jdb-min-available": "2"}, DisruptionLimit(min_available=2)),
        ({"jdb-max-unavailable": "30%"}, DisruptionLimit(max_unavailable=30, percent=True)),
        ({"jdb-min-available": "1", "jdb-max-unavailable": "2"}, DisruptionLimit(min_available=1)),
        ({"jdb-min-available": "some"}, DisruptionLimit()),
        ({"jdb-max-unavailable": "-1"}, DisruptionLimit()),
        ({"jdb-max-unavailable": "9" * 40}, DisruptionLimit()),
    ],
)
def test_the_budget_of_a_job_is_that_of_its_podgroup(annotations, limit):
    metadata = {"name": "g", "annotations": {f"volcano.sh/{name}": text for name, text in annotations.items()}}
    fact = decode_podgroup(json.dumps({"metadata": metadata, "spec": {}}).encode())
    assert fact.disruption_limit == limit
    assert bool(fact.caveats) is (limit == DisruptionLimit())
    assert not fact.problems, "its pods are placed all the same"


def test_an_object_without_a_name_is_no_budget():
    with pytest.raises(FormatError, match=r"metadata\.name"):
        decode_disruption_budget(b'{"metadata": {}}')
