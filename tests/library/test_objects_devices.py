"""Facts of DeviceClasses, ResourceSlices and ResourceClaims."""

import json
from typing import Any

import pytest
from deviceshare.model import FormatError
from deviceshare.objects.devices import decode_device_claim, decode_device_slice
from deviceshare_bus.messages.codec import decode_fact, encode
from fuzz import corpus
from support.builders import node
from support.devices import NOW, gpu_class, gpus, scheduler_with, using

RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
ALLOCATED = {
    "metadata": {
        "name": "c",
        "namespace": "ml",
        "uid": "u",
        "resourceVersion": "7",
        "ownerReferences": [{"uid": "other"}, {"uid": "pod", "controller": True}],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    "status": {
        "allocation": {"devices": {"results": [RESULT]}},
        "reservedFor": [
            {"resource": "pods", "name": "p", "uid": "pod"},
            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "group"},
        ],
    },
}


def test_an_allocated_claim() -> None:
    fact = decode_device_claim(json.dumps(ALLOCATED).encode())
    assert (fact.key, fact.uid, fact.revision, fact.owner, fact.terminating) == ("ml/c", "u", "7", "pod", True)
    assert (fact.reserved_for, fact.reserved_names) == (("pod",), ("p",)), "a PodGroup is none of the pods"
    assert fact.allocation is not None
    assert [each.device for each in fact.allocation.devices.results] == ["gpu-0"]
    assert decode_fact(encode(fact)) == fact


def test_a_claim_with_finalizers() -> None:
    for finalizers, none in ([], True), (["example.com/x"], False):
        raw = json.dumps({**ALLOCATED, "metadata": {**ALLOCATED["metadata"], "finalizers": finalizers}}).encode()
        assert decode_device_claim(raw).no_finalizers == none


def test_a_claim_with_an_invalid_request_still_uses_its_devices() -> None:
    invalid: dict[str, Any] = json.loads(json.dumps(ALLOCATED))
    invalid["spec"]["devices"]["requests"][0]["exactly"]["count"] = "many"
    fact = decode_device_claim(json.dumps(invalid).encode())
    assert fact.allocation is not None
    assert [each.device for each in fact.allocation.devices.results] == ["gpu-0"]
    assert fact.devices.requests == ()
    assert len(fact.problems) == 1


def test_a_pod_waits_with_the_problem_of_its_claim() -> None:
    invalid: dict[str, Any] = json.loads(json.dumps(ALLOCATED))
    invalid["metadata"] = {"name": "c", "namespace": "ns"}
    invalid["spec"]["devices"]["requests"][0]["exactly"]["count"] = "many"
    for status in (None, {"allocation": 1}):
        fact = decode_device_claim(json.dumps({**invalid, "status": status}).encode())
        assert fact.allocation is None
        scheduler = scheduler_with(node("n"), gpu_class(), gpus("n", 1), fact, using("p", "c"))
        scheduler.round(NOW)
        message = scheduler.explain("uid-p", NOW).message
        field = "spec.devices.requests[0].exactly.count"
        assert f"ResourceClaim ns/c: {field}: 'many' is not valid: expected" in message


def test_a_claim_whose_name_cannot_be_read_is_no_fact() -> None:
    with pytest.raises(FormatError, match=r"metadata\.name"):
        decode_device_claim(b'{"metadata": {"name": 7}, "spec": {}}')


def test_every_field_of_a_slice_arrives() -> None:
    fact = decode_device_slice(json.dumps(corpus.RESOURCE_SLICE).encode())
    assert decode_fact(encode(fact)) == fact
    assert {each.name for each in fact.spec.devices} == {
        each["name"] for each in corpus.RESOURCE_SLICE["spec"]["devices"]
    }
