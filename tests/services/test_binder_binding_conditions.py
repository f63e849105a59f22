"""The binder waits for the binding conditions of devices that it allocated, and takes devices back that fail."""

import json

import pytest
from deviceshare_binder.core.commands import BindPod, FencePod, RecordEvent, ReleaseClaims
from deviceshare_binder.core.events import ClaimsAllocated
from msgspec.structs import replace
from support.binder_devices import CLAIM, FACT, MINE, ONE, Scene, status_of
from support.devices import DRIVER, allocated, attaching, gpus, with_conditions

DEVICE = f"ResourceClaim ns/one: device {DRIVER}/n1/gpu-0"
SLICE = with_conditions(gpus("n1", 2))


def binds(core: Scene, at: float) -> bool:
    """Return whether the pod is bound at a time."""
    return [type(each) for each in core.take(at)] == [BindPod]


def allocating() -> Scene:
    """Return a binder that has allocated a device with binding conditions at 0.1 s; facts show it at 0.2 s."""
    core = Scene(SLICE, FACT)
    (request,) = core.take(0.0)
    (result,) = status_of(request)["devices"]["results"]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["Attached", "Powered"], ["Failed"])
    core.handle(ClaimsAllocated("c1"), 0.1)
    core.fact(attaching(MINE), 0.2)
    return core


def test_a_pod_is_bound_when_all_conditions_are_true() -> None:
    core = allocating()
    assert not binds(core, 0.2)
    core.fact(attaching(MINE, "Attached"), 300.0)
    assert not binds(core, 300.0)
    core.fact(attaching(MINE, "Attached", "Powered"), 599.0)
    assert binds(core, 599.0)


def test_the_pod_has_an_event_once() -> None:
    core = allocating()
    for at, true in ((0.2, ()), (1.0, ("Attached",))):
        core.fact(attaching(MINE, *true), at)
        core.take(at)
    (record,) = [each.record for each in core.written_reports() if isinstance(each, RecordEvent)]
    assert (record.reason, record.warning) == ("BindingConditionsPending", False)
    assert record.message == f"waits for binding conditions of devices on n1: {DEVICE} lacks the condition 'Attached'"


def test_a_claim_that_changes_often_while_it_waits_has_one_timer() -> None:
    core = allocating()
    for at in range(1, 500):
        core.fact(attaching(MINE, *["Attached"][: at % 2], at="1970-01-01T00:00:00.5Z"), float(at))
        assert not binds(core, float(at))
    assert len(core.core._claims._tasks._timers._heap) < 100
    assert core.next_due() == 600.5


def test_a_failure_ends_the_wait() -> None:
    core = allocating()
    assert core.take(0.2) == []
    core.fact(attaching(MINE, "Attached", "Failed"), 5.0)
    assert core.refusal(5.0) == f"{DEVICE} has the condition 'Failed' (Because: it is so)"


@pytest.mark.parametrize(
    ("allocated_at", "ends"),
    [("", 600.2), ("1970-01-01T00:00:01Z", 600.2), ("1970-01-01T00:00:00.1Z", 600.1), ("2026-01-01T00:00:00Z", 600.2)],
)
def test_the_wait_ends_ten_minutes_after_the_allocation(allocated_at: str, ends: float) -> None:
    """Where its time is not known, or in the future, it ends as long after facts showed it."""
    core = allocating()
    core.fact(attaching(MINE, at=allocated_at), 0.2)
    core.take(0.2)
    assert core.take(ends - 0.01) == []
    assert core.refusal(ends + 0.01) == f"{DEVICE} lacks the condition 'Attached' after 600 s"


def test_a_successor_waits_no_longer() -> None:
    core = Scene(SLICE, attaching(MINE, at="1970-01-01T00:01:00Z"))
    assert core.take(400.0) == []
    assert core.refusal(660.1).endswith("after 600 s")
    assert binds(Scene(SLICE, attaching(MINE, "Attached", "Powered", at="1970-01-01T00:00:10Z")), 5000.0)


SHARED = replace(CLAIM, devices=(replace(ONE, results=()),))


def test_a_claim_that_another_pod_waited_for_too_long_is_not_reserved() -> None:
    """Else the pods that share it would keep each other from taking its devices back."""
    late = attaching(replace(MINE, reserved_for=("other",)), at="1970-01-01T00:00:10Z")
    assert Scene(SLICE, late, made=SHARED).refusal(610.0) == f"{DEVICE} lacks the condition 'Attached' after 600 s"


def released(core: Scene) -> str:
    """Return the allocation that is to be taken back, '' if only the reservation is."""
    assert [type(each) for each in core.take(1.0)] == [FencePod]
    core.read_answered("c1", "", 1.0, {}, "2")
    (release,) = core.take(1.0)
    assert isinstance(release, ReleaseClaims)
    return release.claims[0].allocation


@pytest.mark.parametrize("pods", [("u1",), ("other",), ("other", "u1"), ()])
def test_devices_that_another_pod_allocated_are_taken_back_too(pods: tuple[str, ...]) -> None:
    """Nothing is taken from the other pod: that is where the last one gives the claim back."""
    failed = attaching(allocated(FACT, [("n1", "gpu-0")], *pods), "Failed")
    shared = replace(failed.allocation.devices.results[0], share_id="s") if failed.allocation else None
    assert failed.allocation is not None
    assert shared is not None
    devices = replace(failed.allocation.devices, results=(shared,))
    statuses = tuple(replace(each, share_id="s") for each in failed.device_statuses)
    failed = replace(failed, allocation=replace(failed.allocation, devices=devices), device_statuses=statuses)
    found = json.loads(released(Scene(SLICE, failed, made=SHARED)))
    assert found["devices"]["results"] == [
        {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0", "shareID": "s"}
    ]


def test_devices_of_another_pod_that_are_ready_are_left() -> None:
    ready = attaching(allocated(FACT, [("n1", "gpu-0")], "u1", "other"), "Attached", "Powered")
    core = Scene(SLICE, ready, made=SHARED)
    assert binds(core, 0.0)
    core.ledger("n1", [replace(SHARED, withdraw=True)])
    core.failed("c1", 0.5, 0.0)
    assert released(core) == ""


def test_a_pod_is_not_bound_where_the_api_server_dropped_the_conditions() -> None:
    core = Scene(SLICE, FACT)
    core.take(0.0)
    core.handle(ClaimsAllocated("c1"), 0.1)
    core.fact(MINE, 0.2)
    assert core.refusal(0.2) == (
        f"ResourceClaim ns/one: the binding conditions of device {DRIVER}/n1/gpu-0 were dropped "
        "(are the feature gates DRADeviceBindingConditions and DRAResourceClaimDeviceStatus on?)"
    )


def test_devices_without_conditions_are_bound_at_once() -> None:
    assert binds(Scene(MINE), 0.0)
