"""Facts of DeviceClasses, ResourceSlices and ResourceClaims."""

import json
from typing import Any

import pytest
from deviceshare.model import FormatError
from deviceshare.objects.devices import decode_device_claim, decode_device_slice
from deviceshare_bus.messages.codec import decode_fact, encode
from fuzz import corpus

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
    del invalid["status"]
    with pytest.raises(FormatError, match="count"):
        decode_device_claim(json.dumps(invalid).encode())


def test_every_field_of_a_slice_arrives() -> None:
    fact = decode_device_slice(json.dumps(corpus.RESOURCE_SLICE).encode())
    assert decode_fact(encode(fact)) == fact
    assert {each.name for each in fact.spec.devices} == {
        each["name"] for each in corpus.RESOURCE_SLICE["spec"]["devices"]
    }
