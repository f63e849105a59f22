"""Rules of Kubernetes' allocator of devices that its recorded answers do not fix, as its source has them."""

from typing import Any

import msgspec
import pytest
from deviceshare.families.dra.best_fit import DeviceOrder
from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.pools import Features, Place
from deviceshare.families.dra.selectors import Selectors
from deviceshare.model import DeviceResult, parse_quantity
from deviceshare.model.device_objects import DeviceClass, ResourceClaim, ResourceSlice
from deviceshare_lab.conformance.devices.command import Used
from deviceshare_lab.conformance.devices.command import used as used_devices
from support.devices import NO_FEATURES, UNUSED, solve

NONE = NO_FEATURES
ALL = Features(
    frozenset({"AdminAccess", "CompatibilityGroups", "ConsumableCapacity", "DeviceTaints", "PartitionableDevices"})
)
DRIVER = "d.example.com"
COUNTERS = {"sharedCounters": [{"name": "c", "counters": {"units": {"value": "2"}}}]}


def resource_slice(name: str, count: int = 1, generation: int = 1, **spec: Any) -> dict[str, Any]:
    pool = {"name": "p", "generation": generation, "resourceSliceCount": count}
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": pool, "nodeName": "n", **spec}}


def consumer(name: str, units: str = "1", groups: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    use = {"counterSet": "c", "counters": {"units": {"value": units}}, "compatibilityGroups": groups}
    return {"name": name, "consumesCounters": [use], **fields}


def claim(*requests: dict[str, Any], name: str = "claim") -> dict[str, Any]:
    asked = [
        {"name": f"r{at}", "exactly": {"deviceClassName": "any", **request}} for at, request in enumerate(requests)
    ]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": asked}}}


def given(
    slices: list[dict[str, Any]], *claims: dict[str, Any], used: Used = UNUSED, features: Features = ALL
) -> list[list[str]] | None:
    """Return the names of the devices of each claim."""
    classes = {"any": msgspec.convert({"metadata": {"name": "any"}}, DeviceClass)}
    read = msgspec.convert(slices, list[ResourceSlice])
    asked = msgspec.convert(list(claims), list[ResourceClaim])
    answer = solve(Place("n", {}), read, classes, asked, used=used, features=features, selectors=Selectors(None)).claims
    return None if answer is None else [[each.device.candidate.device.name for each in of_claim] for of_claim in answer]


ONE: dict[str, Any] = {"count": 1}
EVERY: dict[str, Any] = {"allocationMode": "All"}
ADMIN: dict[str, Any] = {"adminAccess": True}


def test_without_partitions_a_slice_of_counters_counts_for_completeness() -> None:
    """Source: GatherPools skips it, checkSlicesInPool counts it."""
    plain = resource_slice("a", 2, devices=[{"name": "d0"}])
    assert given([plain, resource_slice("b", 2, **COUNTERS)], claim(ONE), features=NONE) == [["d0"]]
    assert given([plain], claim(ONE), features=NONE) is None


def test_a_newer_slice_of_a_feature_that_is_off_makes_a_pool_obsolete() -> None:
    """Source: checkSlicesInPool looks for newer generations before slices with groups are left out."""
    old = resource_slice("a", 2, devices=[{"name": "d0"}])
    other = resource_slice("b", 2, nodeName="other")
    newer = resource_slice("c", 1, 2, nodeName="other", devices=[consumer("d1", groups=("g",))])
    assert given([old, other], claim(ONE), features=NONE) == [["d0"]]
    assert given([old, other, newer], claim(ONE), features=NONE) is None


def test_slices_of_other_nodes_are_looked_at_only_if_the_number_differs() -> None:
    """Source: GatherPools builds a pool from the slices that the node sees if their number is right."""
    seen = resource_slice("a", devices=[consumer("d0")])
    with pytest.raises(AllocationError) as caught:
        given([seen, resource_slice("b", nodeName="other", **COUNTERS)], claim(ONE))
    assert caught.value.kind == "invalid-pools"


def test_a_slice_of_the_node_says_how_many_a_pool_has() -> None:
    """Source: Allocate looks at the slices of the node before those that several nodes see."""
    shared = resource_slice("a", 1, nodeName="", allNodes=True, devices=[{"name": "d0"}])
    own = resource_slice("b", 2, devices=[{"name": "d1"}])
    assert given([shared, own], claim(ONE)) == [["d0"]]
    assert given([{**shared, "spec": {**shared["spec"], "pool": own["spec"]["pool"]}}, own], claim(ONE)) == [["d0"]]
    own["spec"]["pool"] = {**own["spec"]["pool"], "resourceSliceCount": 3}
    assert given([shared, own], claim(ONE)) is None


@pytest.mark.parametrize("constraint", ["matchAttribute", "distinctAttribute"])
@pytest.mark.parametrize(
    ("attributes", "devices"),
    [
        (({"ints": [1]},), 1),
        (({"ints": [1]}, {"ints": [2]}), None),
        (({"ints": [1]}, {"int": 1}), {"distinctAttribute": 2}),
        (({"int": 1}, {"int": 1}), {"matchAttribute": 2}),
        (({"int": 1}, {"int": 2}), {"distinctAttribute": 2}),
        (({"int": 1}, {"string": "1"}), {"distinctAttribute": 2}),
    ],
)
def test_without_lists_a_list_is_a_value_for_the_first_device(
    constraint: str, attributes: tuple[dict[str, Any], ...], devices: int | dict[str, int] | None
) -> None:
    """Source: add of both constraints; distinctAttribute does not ask for ConsumableCapacity."""
    names = [f"d{number}" for number in range(len(attributes))]
    made = [{"name": name, "attributes": {"a": value}} for name, value in zip(names, attributes, strict=True)]
    asking = claim({"count": len(names)})
    asking["spec"]["devices"]["constraints"] = [{constraint: f"{DRIVER}/a"}]
    number = devices.get(constraint) if isinstance(devices, dict) else devices
    assert given([resource_slice("a", devices=made)], asking, features=NONE) == (number and [names])


def test_devices_of_features_that_are_off_prevent_mode_all() -> None:
    """Source: allocateDevice refuses what isSelectable has counted."""
    devices = [{"name": "d0"}, consumer("d1")]
    assert given([resource_slice("a", devices=devices)], claim(EVERY), features=NONE) is None
    assert given([resource_slice("a", devices=devices)], claim({"count": 2}), features=NONE) is None
    assert given([resource_slice("a", devices=devices[:1])], claim(EVERY), features=NONE) == [["d0"]]
    skips = resource_slice("b", devices=[{"name": "d0"}], skipNodeOperations=["*"])
    assert given([skips], claim(EVERY)) is None
    assert given([skips], claim(ONE)) is None


def test_a_device_that_is_no_longer_shared_has_room_beside_its_shares_only() -> None:
    """Source: CmpRequestOverCapacity adds what is allocated, whatever the device is now."""
    slices = [resource_slice("a", devices=[{"name": "d0", "capacity": {"memory": {"value": "2"}}}])]
    used = used_devices([DeviceResult("", DRIVER, "p", "d0", shared=True, consumed=(("memory", "1"),))])
    assert given(slices, claim(ONE), used=used) is None
    assert given(slices, claim({"capacity": {"requests": {"memory": "1"}}}), used=used) == [["d0"]]


def test_an_amount_that_is_an_error_comes_before_what_excludes_a_device() -> None:
    """Source: allocateOne compares capacities before allocateDevice looks at taints."""
    device = {"name": "d0", "capacity": {"memory": {"value": "2"}}, "taints": [{"key": "k", "effect": "NoSchedule"}]}
    with pytest.raises(AllocationError) as caught:
        given([resource_slice("a", devices=[device])], claim({"capacity": {"requests": {"memory": "-1"}}}))
    assert caught.value.kind == "capacity-negative"


def test_an_incomplete_pool_is_not_invalid() -> None:
    assert given([resource_slice("a", 2, devices=[{"name": "d0"}, {"name": "d0"}])], claim(ONE)) is None


def test_access_of_administrators_to_a_device_in_use_consumes_its_counters_again() -> None:
    """Source: allocateDevice skips the counters for further shares of a shared device only."""
    slices = [resource_slice("a", 2, **COUNTERS), resource_slice("b", 2, devices=[consumer("d0"), consumer("d1")])]
    used = used_devices([DeviceResult("", DRIVER, "p", "d0")])
    assert given(slices, claim(ADMIN), used=used) == [["d0"]]
    assert given(slices, claim(ADMIN, ONE), used=used) is None  # 1 in use, 1 for the administrator, 0 left
    assert given(slices, claim(ONE), used=used) == [["d1"]]


def test_access_of_administrators_may_have_a_shared_device_twice_in_one_claim() -> None:
    """Source: allocateDevice marks dedicated devices only."""
    shared = {"name": "d0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "2"}}}
    memory = {"capacity": {"requests": {"memory": "1"}}}
    slices = [resource_slice("a", devices=[shared])]
    assert given(slices, claim({**ADMIN, **memory}, {**ADMIN, **memory})) == [["d0", "d0"]]
    assert given(slices, claim({**ADMIN, **memory, "count": 2})) is None
    assert given([resource_slice("a", devices=[{"name": "d0"}])], claim(ADMIN, ADMIN)) is None


@pytest.mark.parametrize(("before", "every", "fits"), [(0, 32, True), (0, 33, False), (1, 31, True), (1, 32, False)])
def test_devices_of_mode_all_count_as_others_do(before: int, every: int, fits: bool) -> None:
    """Source: Allocate compares the number of all devices with what is left of 32, and the claim is an error."""
    devices = [{"name": f"d{number:02}"} for number in range(every)]
    slices = [resource_slice("a", devices=devices)]
    if not fits:
        with pytest.raises(AllocationError) as caught:
            given(slices, claim(*[{**ADMIN, "count": 1}] * before, {**EVERY, **ADMIN}))
        assert caught.value.kind == "too-many-devices"
    else:
        answer = given(slices, claim(*[{**ADMIN, "count": 1}] * before, {**EVERY, **ADMIN}))
        # The device of the first request is one of all, and an administrator gets it once in a claim.
        assert answer == (None if before else [[device["name"] for device in devices]])


def test_a_further_share_is_given_although_a_counter_is_negative() -> None:
    """Source: allocateDevice, skipCounterCheck."""
    capacity = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "2"}}}
    devices = [consumer("d0", "3", **capacity), consumer("d1", "0", **capacity)]
    slices = [resource_slice("a", 2, **COUNTERS), resource_slice("b", 2, devices=devices)]
    memory = {"capacity": {"requests": {"memory": "1"}}}
    used = used_devices([DeviceResult("", DRIVER, "p", "d0", shared=True)])
    assert given(slices, claim(memory), used=used) == [["d0"]]
    assert given(slices, claim({**memory, "count": 2}), used=used) is None


def test_devices_in_use_that_contradict_each_other_hinder_their_counter_set_only() -> None:
    """Source: compatibilityGroupsBaselineForPool adds them, checkAndConsumeCompatibilityGroups looks at own sets."""
    sets = [{"name": name, "counters": {"units": {"value": "9"}}} for name in ("c", "e")]
    other = consumer("d3")
    other["consumesCounters"][0]["counterSet"] = "e"
    devices = [consumer("d0", groups=("g",)), consumer("d1", groups=("h",)), consumer("d2", groups=("g",)), other]
    slices = [resource_slice("a", 2, sharedCounters=sets), resource_slice("b", 2, devices=devices)]
    used = used_devices([DeviceResult("", DRIVER, "p", name) for name in ("d0", "d1")])
    assert given(slices, claim(ONE), used=used) == [["d3"]]


@pytest.mark.parametrize(
    ("policy", "asked", "answer"),
    [
        ({"default": "2", "validRange": {"min": "1500m"}}, "1700m", "1700m"),
        ({"default": "2", "validRange": {"min": "1500m"}}, "1", "1500m"),
        ({"default": "2", "validRange": {"min": "1", "step": "2"}}, "2", "3"),
        ({"default": "2", "validRange": {"min": "1"}}, "-1", "1"),
        ({"default": "2", "validValues": ["1", "2"]}, "1500m", "2"),
        ({"default": "2", "validValues": ["1", "2"]}, "3", None),
        ({"default": "2", "validRange": {"min": "1", "max": "2"}}, "3", None),
    ],
)
def test_requests_for_capacity_are_rounded(policy: dict[str, Any], asked: str, answer: str | None) -> None:
    """Source: calculateConsumedCapacity and violatesPolicy."""
    capacity = {"memory": {"value": "8", "requestPolicy": policy}}
    slices = [resource_slice("a", devices=[{"name": "d", "allowMultipleAllocations": True, "capacity": capacity}])]
    classes = {"any": msgspec.convert({"metadata": {"name": "any"}}, DeviceClass)}
    asking = msgspec.convert([claim({"capacity": {"requests": {"memory": asked}}})], list[ResourceClaim])
    read = msgspec.convert(slices, list[ResourceSlice])
    solved = solve(Place("n", {}), read, classes, asking, features=ALL, selectors=Selectors(None)).claims
    assert (solved and solved[0][0].consumed) == (answer and {"memory": parse_quantity(answer)})


PACKED = DeviceOrder(packed=1.0)
SHARED: dict[str, Any] = {"allowMultipleAllocations": True}


def score(used: Used, *requests: dict[str, Any]) -> float:
    """Return what a card scores of which half is a device with shares: the whole card is the other device."""
    counters = {"sharedCounters": [{"name": "c", "counters": {"units": {"value": "4"}}}]}
    devices = [consumer("half", "2", **SHARED), consumer("whole", "4")]
    read = [resource_slice("a", 2, devices=devices), resource_slice("b", 2, **counters)]
    half = {"selectors": [{"cel": {"expression": "device.allowMultipleAllocations"}}]}
    asked = claim(*({**half, **request} for request in requests))
    answer = solve(
        Place("n", {}),
        msgspec.convert(read, list[ResourceSlice]),
        {"any": msgspec.convert({"metadata": {"name": "any"}}, DeviceClass)},
        [msgspec.convert(asked, ResourceClaim)],
        used=used,
        features=ALL,
        selectors=Selectors(evaluator()),
        order=PACKED,
    )
    assert answer.claims is not None
    return answer.score


@pytest.mark.parametrize("shares", [1, 2])
@pytest.mark.parametrize("in_use", [False, True])
def test_the_counters_of_a_shared_device_count_once_in_scores(shares: int, in_use: bool) -> None:
    """The whole card, of size 1, has no room any more, the half of it, of size 1/2, has: a third is left."""
    share = DeviceResult("r", DRIVER, "p", "half", shared=True, consumed=())
    used = used_devices([share]) if in_use else UNUSED
    assert score(used, *[ONE] * shares) == pytest.approx(100 * 2 / 3)
