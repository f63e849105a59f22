"""Pods of one template share one request, and are decoded as without it."""

import copy
import json

import pytest
from deviceshare.model import FormatError
from deviceshare.objects import decode_pod, pod, pod_template
from hypothesis import given
from hypothesis import strategies as st
from support import mixed

OBJECTS = [each for each in mixed.workloads(0, 60, "default") if each["kind"] == "Pod"]
GROUP, SPREAD = "scheduling.k8s.io/group-name", "volcano.sh/vgpu-podgroup-policy"
CHANGES = st.sampled_from(
    [
        ("spec", "nodeName", "n1"),
        ("spec", "nodeName", 5),
        ("spec", "priority", 2**40),
        ("spec", "priority", None),
        ("spec", "schedulingGates", [{"name": "wait"}]),
        ("spec", "containers", None),
        ("spec", "containers", [{"name": "x", "resources": {"limits": {"cpu": "many"}}}]),
        ("spec", "containers", [{"name": "x", "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}}]),
        ("spec", "containers", "none"),
        ("spec", "initContainers", [{"name": "i", "restartPolicy": "Always", "ports": [{"hostPort": 80}]}]),
        ("spec", "resources", {"requests": {"cpu": "2", "volcano.sh/vgpu-number": "1"}}),
        ("spec", "overhead", {"cpu": "100m"}),
        ("spec", "nodeSelector", {"b": "1", "a": "2"}),
        ("spec", "affinity", {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
        ("spec", "tolerations", [{"operator": "Sometimes"}]),
        ("spec", "topologySpreadConstraints", [{"whenUnsatisfiable": "DoNotSchedule"}]),
        ("spec", "volumes", [{"name": "v", "persistentVolumeClaim": {}}]),
        ("spec", "resourceClaims", [{}]),
        ("spec", "hostNetwork", True),
        ("metadata", "uid", ""),
        ("metadata", "name", None),
        ("metadata", "creationTimestamp", "yesterday"),
        ("metadata", "labels", {"b": "1", "vnpu-level": "high"}),
        ("metadata", "annotations", {GROUP: "g", SPREAD: "spread"}),
        ("metadata", "annotations", {GROUP: "g", SPREAD: "else"}),
        ("metadata", "annotations", {GROUP: "g", "nvidia.com/use-gputype": "A100"}),
        ("metadata", "annotations", None),
        ("status", "phase", "Failed"),
        ("status", "phase", 3),
    ]
)


def decoded(raw: bytes) -> object:
    try:
        return decode_pod(raw)
    except FormatError as error:
        return error.problem


@given(st.integers(0, len(OBJECTS) - 1), st.lists(CHANGES, max_size=4))
def test_a_pod_is_decoded_as_without_templates(which, changes) -> None:
    obj = copy.deepcopy(OBJECTS[which])
    obj["metadata"]["uid"] = "u1"
    for part, key, value in changes:
        obj.setdefault(part, {})[key] = value
    raw = json.dumps(obj).encode()
    first, again = decoded(raw), decoded(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod, "shared_request", lambda *_: None)
        assert first == again == decoded(raw)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"metadata": {"name": "a", "uid": "u"}, "spec": null}', b"\xff"])
def test_what_is_no_pod(raw) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod, "shared_request", lambda *_: None)
        expected = decoded(raw)
    assert decoded(raw) == expected


def test_pods_of_one_template_share_one_request() -> None:
    obj = copy.deepcopy(OBJECTS[0])
    requests = []
    for number, node in enumerate(("", "n1", "n2")):
        obj["metadata"] |= {"name": f"p-{number}", "uid": f"u-{number}", "resourceVersion": str(number)}
        obj["spec"]["nodeName"] = node
        requests.append(decode_pod(json.dumps(obj).encode()).ask)
    assert requests[0] is requests[1] is requests[2]
    obj["spec"]["containers"][0]["name"] = "other"
    assert decode_pod(json.dumps(obj).encode()).ask is not requests[0]


def test_the_number_of_templates_is_bounded() -> None:
    assert pod_template._request.cache_info().maxsize == pod_template.MAX_TEMPLATES
