"""The binder looks for devices that two ResourceClaims have: which it refuses, and whom it informs."""

import json

import pytest
from deviceshare.objects.devices import decode_device_slice
from deviceshare_binder.core.commands import BindPod, RecordEvent
from deviceshare_binder.core.events import (
    ClaimsAllocated,
)
from deviceshare_bus.cores.core import Count, Log
from msgspec.structs import replace
from support.binder_devices import CLAIM, FACT, GPU, MINE, ONE, Scene
from support.devices import DRIVER, allocated, claim, gpus, sharing


def test_of_two_claims_with_one_device_the_one_without_a_bound_pod_is_refused() -> None:
    core = Scene()
    core.take(0.0)
    core.fact(allocated(claim("two"), [("n1", "gpu-0")], "other"), 0.1)
    core.handle(ClaimsAllocated("c1"), 0.1)
    core.fact(MINE, 0.2)
    assert "has another one as well" in core.refusal(0.2)


def informed(core: Scene) -> list[tuple[str, str]]:
    """Return the uids and names of the pods that have an Event about a conflict, since the last call."""
    records = [each.record for each in core.written_reports() if isinstance(each, RecordEvent)]
    return sorted((each.uid, each.name) for each in records if each.reason == "DeviceConflict")


def test_a_conflict_is_counted_and_the_pods_of_both_claims_are_informed_once() -> None:
    core, theirs = Scene(MINE), allocated(claim("two"), [("n1", "gpu-0")], "other")
    (bind,) = core.take(0.0)
    assert isinstance(bind, BindPod)
    core.fact(theirs, 0.1)
    core.take(0.1)
    assert informed(core) == [("other", "pod-other"), ("u1", "pod-u1")], "also where the pod may be bound already"
    assert core.notes.count(Count("device_conflicts")) == 1
    core.fact(replace(theirs, reserved_for=("other", "more")), 0.2)
    core.fact(allocated(claim("three"), [("n1", "gpu-1")], "third"), 0.2)
    core.take(0.2)
    assert informed(core) == []
    assert core.notes.count(Count("device_conflicts")) == 1


def test_a_claim_in_conflict_with_many_is_reported_once_and_at_a_start_none() -> None:
    known = [allocated(claim(f"t{number}"), [("n1", "gpu-0")], f"o{number}") for number in range(4)]
    core = Scene(MINE, *known)
    core.take(0.0)
    assert (informed(core), core.notes.count(Count("device_conflicts"))) == ([], 0), "known at the start"
    core.fact(allocated(claim("two"), [("n1", "gpu-0")], "other"), 0.1)
    core.take(0.1)
    assert informed(core) == [("other", "pod-other"), ("u1", "pod-u1")]
    assert core.notes.count(Count("device_conflicts")) == 1


def test_pods_are_informed_of_a_conflict_about_whichever_device() -> None:
    core = Scene(MINE, allocated(claim("two"), [("n1", "gpu-1")], "second"))
    core.take(0.0)
    core.fact(allocated(claim("three", 2), [("n1", "gpu-0"), ("n1", "gpu-1")], "third"), 0.1)
    core.take(0.1)
    assert {uid for uid, _ in informed(core)} == {"u1", "second", "third"}
    assert core.notes.count(Count("device_conflicts")) == 2


def test_a_conflict_is_looked_for_among_the_claims_of_the_pool() -> None:
    """A claim that has the device no more, and those of other pools, are none."""
    core, two = Scene(MINE), claim("two")
    core.take(0.0)
    core.fact(gpus("n2", 1), 0.1)
    core.fact(MINE, 0.1)
    core.fact(allocated(two, [("n2", "gpu-0")], "other"), 0.1)
    core.fact(allocated(two, [("n2", "gpu-0"), ("n1", "gpu-0")], "other"), 0.2)
    core.take(0.2)
    assert informed(core) == [("other", "pod-other"), ("u1", "pod-u1")]
    core.fact(two, 0.3)
    core.fact(allocated(claim("three"), [("n2", "gpu-0")], "third"), 0.4)
    core.take(0.4)
    assert informed(core) == []
    core.fact(allocated(two, [("n2", "gpu-0")], "other"), 0.5)
    core.take(0.5)
    assert informed(core) == [("other", "pod-other"), ("third", "pod-third")]


def test_an_event_names_no_claim_of_another_namespace() -> None:
    core, theirs = Scene(MINE), allocated(claim("two"), [("n1", "gpu-0")], "other")
    core.take(0.0)
    core.fact(replace(theirs, key="secret/two"), 0.1)
    core.take(0.1)
    records = [each.record for each in core.written_reports() if isinstance(each, RecordEvent)]
    said = {each.namespace: each.message for each in records if each.reason == "DeviceConflict"}
    assert said.keys() == {"ns", "secret"}
    assert "ResourceClaim ns/one and a ResourceClaim of another namespace have" in said["ns"]
    assert "ResourceClaim secret/two and a ResourceClaim of another namespace have" in said["secret"]
    logged = [each.message for each in core.notes if isinstance(each, Log) and each.level == "warning"]
    assert any("ResourceClaims secret/two and ns/one have" in each for each in logged)


def test_counters_that_others_consume_are_in_conflict() -> None:
    """A partition of a card and the whole card have different names."""
    core = Scene()
    core.take(0.0)
    whole, part = (
        {"name": name, "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]}
        for name, amount in (("gpu-0", "40"), ("part", "10"))
    )
    spec = {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "40"}}}],
        "devices": [whole, part],
    }
    core.fact(decode_device_slice(json.dumps({"metadata": {"name": "n1-gpus"}, "spec": spec}).encode()))
    core.handle(ClaimsAllocated("c1"), 0.1)
    core.fact(MINE, 0.2)
    core.fact(allocated(claim("two"), [("n1", "part")], "other"), 0.2)
    assert "consumes counters of which others have the rest" in core.refusal(0.2)
    assert core.notes.count(Count("device_conflicts")) == 1


@pytest.mark.parametrize("amount", ["bogus", "1e99999"])
def test_a_device_of_which_a_share_cannot_be_read_is_not_allocated(amount: str) -> None:
    core = Scene(FACT, sharing(claim("two"), "n1", "gpu-0", {"memory": amount}))
    assert core.take(0.0) == []
    assert "cannot have the devices gpu-0 of node n1" in core.refusal(10.1)


def test_a_share_of_a_capacity_that_the_device_has_no_more_is_one_as_well() -> None:
    core = Scene(MINE, sharing(claim("two"), "n1", "gpu-0", {"memory": "1"}))
    assert "has another one as well" in core.refusal(0.2)
    shares = sharing(claim("two"), "n1", "gpu-1", {"memory": "1"})
    devices = Scene(MINE, shares).core._claims.facts.devices
    of_gpu = replace(GPU, device="gpu-1", shared=True, consumed=(("memory", "1"),))
    assert devices.conflict(replace(CLAIM, devices=(replace(ONE, results=(of_gpu,)),)), "n1") == ""


def test_access_of_administrators_is_in_no_conflict() -> None:
    devices = Scene(FACT).core._claims.facts.devices
    for name in ("x", "y"):
        devices.put(None, allocated(claim(name), [("n1", "gpu-0")], name))
    access = replace(CLAIM, devices=(replace(ONE, results=(replace(GPU, admin=True),)),))
    assert devices.conflict(access, "n1") == ""
    assert "has another one as well" in devices.conflict(CLAIM, "n1")
