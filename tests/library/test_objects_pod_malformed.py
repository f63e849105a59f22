"""Pods with fields of a wrong type, and text that is not a pod."""

import msgspec
import pytest
from deviceshare.model import ContainerRequest, FormatError, PodFact
from deviceshare.objects import decode_pod
from hypothesis import given
from hypothesis import strategies as st
from support.pod_objects import METADATA, container, pod


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"priority": "high"}, "spec.priority", "high"),
        ({"priority": 2**40}, "spec.priority", str(2**40)),
        ({"containers": {}}, "spec.containers", "{}"),
        ({"tolerations": [{"key": 5}]}, "spec.tolerations[0].key", "5"),
        ({"nodeSelector": {"a": "x", "b": True}}, "spec.nodeSelector[b]", "true"),
        ({"topologySpreadConstraints": "all"}, "spec.topologySpreadConstraints", "all"),
        (
            {"containers": [container(resources={"limits": {"x/y": None}})]},
            "spec.containers[0].resources.limits[x/y]",
            "null",
        ),
    ],
)
def test_a_field_of_a_wrong_type_is_a_problem_and_the_rest_is_kept(spec, field, value):
    fact = pod({"nodeName": "n1", "schedulerName": "volcano"} | spec, annotations={"volcano.sh/queue-name": "q"})
    assert [(problem.subject, problem.field, problem.value) for problem in fact.problems] == [
        ("Pod ml/a", field, value)
    ]
    assert (fact.node, fact.scheduler, fact.queue) == ("n1", "volcano", "q")


def test_a_container_of_a_wrong_type_keeps_its_position():
    fact = pod({"containers": ["oops", container("b")]})
    assert [ask.name for ask in fact.ask.containers] == ["", "b"]
    assert fact.problems[0].field == "spec.containers[0]"


def test_several_wrong_fields_are_each_reported():
    fact = pod({"priority": "x", "containers": [container()], "volumes": 3}, annotations={"a": 1, "b": "ok", "c": None})
    assert {problem.field for problem in fact.problems} == {
        "spec.priority", "spec.volumes", "metadata.annotations[a]", "metadata.annotations[c]",
    }  # fmt: skip
    assert fact.ask.containers == (ContainerRequest("c", ()),)


def test_an_object_that_is_all_wrong_keeps_its_identity():
    fact = pod({"tolerations": [{"key": number} for number in range(100)]})
    assert (fact.ref, fact.uid) == ("ml/a", "u1")
    assert fact.problems[-1].expected.startswith("fewer than")


def test_a_malformed_time_is_a_problem():
    fact = pod({}, creationTimestamp="yesterday")
    assert fact.created == 0.0
    assert [problem.field for problem in fact.problems] == ["metadata.creationTimestamp"]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"", r"\$"),
        (b"[]", r"\$"),
        (b"{", r"\$"),
        (b"\xff", r"\$"),
        (b"[" * 5000, r"\$"),
        (b"{}", r"\$"),
        (b'{"metadata": null}', "metadata"),
        (b'{"metadata": {"uid": "u"}}', r"metadata\.name"),
        (b'{"metadata": {"name": "a"}}', r"metadata\.uid"),
        (b'{"metadata": {"name": 5, "uid": "u"}}', r"metadata\.name"),
        (b'{"metadata": {"name": "\xff", "uid": "u"}}', r"\$"),
    ],
)
def test_only_a_missing_identity_is_an_error(raw, field):
    with pytest.raises(FormatError, match=rf"^Pod.*: {field}: "):
        decode_pod(raw)


field_names = st.sampled_from(
    [
        "name",
        "containers",
        "resources",
        "limits",
        "cpu",
        "key",
        "tolerations",
        "affinity",
        "nodeAffinity",
        "annotations",
        "nodeName",
        "volumes",
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(field_names, inner, max_size=4),
    max_leaves=12,
)


@given(json_values, json_values, json_values)
def test_an_identified_pod_always_becomes_a_fact_that_can_be_sent(spec, annotations, status):
    tree = {"metadata": METADATA | {"annotations": annotations}, "spec": spec, "status": status}
    fact = decode_pod(msgspec.json.encode(tree))
    assert fact.ref == "ml/a"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(fact), type=PodFact) == fact
