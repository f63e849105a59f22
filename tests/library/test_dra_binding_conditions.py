"""Binding conditions of devices: what is read of ResourceClaims, and what a pod waits for."""

import json
from typing import Any

import pytest
from deviceshare.families.dra import DeviceBinding, binding_of
from deviceshare.objects.devices import decode_device_claim
from deviceshare_bus.messages.codec import decode_fact, encode
from msgspec.structs import replace

Json = dict[str, Any]
DEVICE = {"driver": "d", "pool": "p", "device": "gpu-0"}
WAITS = {"bindingConditions": ["Attached", "Powered"], "bindingFailureConditions": ["Failed"]}
AT = "1970-01-01T00:01:40Z"


def claim_of(*results: Json, devices: tuple[Json, ...] = ()) -> Any:
    allocation = {"devices": {"results": [{"request": "r", **DEVICE, **each} for each in results]}}
    status = {"allocation": {**allocation, "allocationTimestamp": AT}, "devices": list(devices)}
    fact = decode_device_claim(json.dumps({"metadata": {"name": "c"}, "status": status}).encode())
    assert decode_fact(encode(fact)) == fact
    return fact


def device(*true: str, **more: Any) -> Json:
    conditions = [{"type": each, "status": "True", "reason": "R", "message": "m"} for each in true]
    return {**DEVICE, "conditions": [*conditions, {"type": "Powered", "status": "False"}], **more}


@pytest.mark.parametrize(
    ("devices", "failed", "waits"),
    [
        ((), "", "Attached"),
        ((device(),), "", "Attached"),
        ((device("Powered"),), "", "Attached"),
        ((device("Attached"),), "", "Powered"),
        ((device("Attached", "Powered"),), "", ""),
        ((device("Attached", "Powered", "Failed"),), "Failed", ""),
        ((device("Failed"),), "Failed", ""),
        ((device("Attached", "Powered", device="gpu-1"),), "", "Attached"),
        ((device("Attached", "Powered", shareID="s"),), "", "Attached"),
    ],
)
def test_a_device_is_ready_with_all_of_its_conditions(devices: tuple[Json, ...], failed: str, waits: str) -> None:
    found = binding_of(claim_of(WAITS, devices=devices))
    assert found.failed == (f"device d/p/gpu-0 has the condition {failed!r} (R: m)" if failed else "")
    assert found.waits == (f"device d/p/gpu-0 lacks the condition {waits!r}" if waits else "")
    assert found.since == (100.0 if waits else 0.0)


def test_the_failure_of_any_device_counts() -> None:
    shares = [{**WAITS, "shareID": name} for name in ("one", "two")]
    assert binding_of(claim_of(*shares, devices=(device("Failed", shareID="two"),))).failed
    both = [device("Attached", "Powered", shareID=name) for name in ("one", "two")]
    assert binding_of(claim_of(*shares, devices=(both[0],))).waits
    assert binding_of(claim_of(*shares, devices=(*both,))) == DeviceBinding()


def test_what_is_not_waited_for_is_not_kept() -> None:
    plain = claim_of({}, devices=(device("Attached", "Ready"),))
    assert plain.device_statuses == ()
    assert plain.allocation.allocation_timestamp == ""
    assert binding_of(plain) == DeviceBinding()
    long = device("Attached", "Ready")
    long["conditions"][0]["message"] = "x" * 32_768
    long["conditions"] *= 3
    kept = claim_of(WAITS, {**WAITS, "device": "gpu-1"}, devices=(long, device(device="gpu-1"), device(pool="q")))
    ((condition,),) = (each.conditions for each in kept.device_statuses)
    assert condition.type == "Attached"
    assert len(condition.message) == 200


def test_without_an_allocation_or_its_time() -> None:
    fact = claim_of(WAITS)
    assert binding_of(replace(fact, allocation=None)) == DeviceBinding()
    for at in ("", "yesterday"):
        assert binding_of(replace(fact, allocation=replace(fact.allocation, allocation_timestamp=at))).since == 0.0
