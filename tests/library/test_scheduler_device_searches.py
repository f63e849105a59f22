"""How many searches for the devices of ResourceClaims the scheduler makes, for which nodes, and when again."""

import json

import pytest
from deviceshare.allocation import device_filter
from deviceshare.families.dra import cluster_devices, slice_kinds
from deviceshare.model import (
    DeviceClaimFact,
    DeviceSliceFact,
    NodeFact,
    Now,
)
from deviceshare.objects.devices import decode_device_slice
from msgspec.structs import replace
from support.builders import node
from support.decided_devices import Json, decided, names
from support.devices import (
    DRIVER,
    NOW,
    claim,
    count_steps,
    gpu_class,
    gpus,
    key_of,
    scheduler_with,
    using,
)


def test_nodes_with_equal_devices_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count_steps(monkeypatch)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(60)]
    slices = [gpus(each.name, 4) for each in nodes]
    pods = [using(f"p{at}", f"c{at}", template="t") for at in range(30)]
    claims = [claim(f"c{at}", owner=f"uid-p{at}") for at in range(30)]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), *claims, *pods)
    found = decided(scheduler)
    assert len(found) == 30
    assert len(asked) == 5, "once for each number of devices in use"
    taken = [each.id for _, devices in found.values() for of_claim in devices for each in of_claim.results]
    assert len(set(taken)) == 30


def test_the_searches_of_a_round_for_one_class_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim of 9 requests that differ, on nodes with 8 devices each that differ, has 8! orders on each node."""
    tried = count_steps(monkeypatch)
    by_uuid = [{"cel": {"expression": 'device.attributes["gpu.example.com"].uuid != "x"'}}]
    exactly = {"deviceClassName": "gpu", "count": 1, "selectors": by_uuid}
    requests = [{"name": f"r{at}", "exactly": exactly} for at in range(9)]
    hard = claim("hard", spec={"devices": {"requests": requests}})
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(6)]
    slices = [gpus(each.name, 8) for each in nodes]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), hard, using("p", "hard"))
    most = cluster_devices.ROUND_STEPS + len(nodes) * (device_filter.NODE_STEPS + 1)
    for at in range(8):
        assert decided(scheduler, Now(20.0 * (1 + at), 1e9)) == {}
        message = scheduler.explain("uid-p", NOW).message
        assert sum(tried) <= most, at
        if not at:
            assert "5 node(s) were not searched to the end" in message
        tried.clear()
        hard = replace(hard, revision=f"{at}")
        scheduler.apply(key_of(hard), hard, NOW)
    assert "6 node(s) have no answer after 20000 devices that were tried" in message


def test_a_claim_that_takes_the_first_devices_is_answered_on_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 0)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(5)]
    slices = [gpus(each.name, 8 + at) for at, each in enumerate(nodes)]
    claims = [claim(f"c{at}", 8) for at in range(6)]
    pods = [using(f"p{at}", f"c{at}") for at in range(6)]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), *claims, *pods)
    assert len(decided(scheduler)) == 5


def hard_claim(name: str) -> DeviceClaimFact:
    """Return a claim for more devices than a node has, in requests to which each device may belong."""
    by_uuid = [{"cel": {"expression": f'device.attributes["gpu.example.com"].uuid != "{name}"'}}]
    exactly = {"deviceClassName": "gpu", "count": 1, "selectors": by_uuid}
    return claim(name, spec={"devices": {"requests": [{"name": f"r{at}", "exactly": exactly} for at in range(9)]}})


def test_the_searches_of_all_classes_have_a_limit_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = count_steps(monkeypatch)
    names_of = [f"hard{at}" for at in range(12)]
    pods = [using(f"p-{name}", name) for name in names_of]
    scheduler = scheduler_with(node("n"), gpus("n", 8), gpu_class(), *map(hard_claim, names_of), *pods)
    assert decided(scheduler) == {}
    assert len(tried) == len(names_of)
    assert sum(tried) <= cluster_devices.ROUND_STEPS + len(names_of) * (device_filter.NODE_STEPS + 1)


def test_nodes_for_which_a_round_had_no_time_are_searched_again_after_a_pause() -> None:
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(6)]
    slices = [gpus(each.name, 8) for each in nodes]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), hard_claim("hard"), using("p", "hard"))
    now, pauses = NOW, []
    while True:
        assert decided(scheduler, now) == {}
        due = min(scheduler.rounds_due(now), default=None)
        if "6 node(s) have no answer" in scheduler.explain("uid-p", now).message:
            break
        assert due is not None
        pauses.append(due - now.monotonic)
        now = Now(due, now.wall)
    assert [each for each in pauses if each][:3] == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "expression",
    [
        f'device.attributes["{DRIVER}"].uuid == "n7-2"',
        f'device.attributes["{DRIVER}"].exists(name, device.attributes["{DRIVER}"][name] == "n7-2")',
    ],
)
def test_a_claim_for_one_device_does_not_change_the_search_for_others(
    monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    """The uuids of devices are apart: they differ on all nodes."""
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(12)]
    scheduler = scheduler_with(*nodes, *(gpus(each.name, 3) for each in nodes), gpu_class())
    devices = scheduler.cluster.allocator.devices
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    one = claim("one", spec={"devices": {"requests": [{"name": "r", "exactly": exactly}]}})
    for fact in (one, using("p", "one")):
        scheduler.apply(key_of(fact), fact, NOW)
    where, found = decided(scheduler)["p"]
    assert (where, names(found)) == ("n7", [["gpu-2"]])
    assert len({devices.seen(row).layout for row in range(12)}) == 1
    tried = count_steps(monkeypatch)
    for fact in (claim("plain"), using("q", "plain")):
        scheduler.apply(key_of(fact), fact, NOW)
    assert "q" in decided(scheduler)
    assert len(tried) == 2, "once for the node with a device in use, once for the others"


def test_a_claim_for_one_device_waits_with_the_reasons_of_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round reads the attributes of some nodes; the others follow after a pause."""
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 10 * device_filter.WHOLE_STEPS)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(24)]
    one = claim("one", spec=of_uuid("none"))
    scheduler = scheduler_with(*nodes, *(gpus(each.name, 3) for each in nodes), gpu_class(), one, using("p", "one"))
    now, rounds = NOW, 0
    while "24 node(s) had no device that matches request r" not in scheduler.explain("uid-p", now).message:
        assert decided(scheduler, now) == {}
        rounds += 1
        due = min(scheduler.rounds_due(now), default=None)
        assert due is not None, scheduler.explain("uid-p", now).message
        now = Now(max(due, now.monotonic), now.wall)
    assert rounds >= 3, "5 nodes a round at most"


def test_hard_claims_for_single_devices_end_and_leave_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    monkeypatch.setattr(device_filter, "MAX_STEPS", 500)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 1000)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(3)]
    claims = [hard_claim(f"h{at}") for at in range(12)]
    pods = [using(f"p{at}", f"h{at}") for at in range(12)]
    scheduler = scheduler_with(*nodes, *(gpus(each.name, 8) for each in nodes), gpu_class(), *claims, *pods)
    one = claim("one", spec=of_uuid("n1-3"))
    for fact in (one, using("p", "one")):
        scheduler.apply(key_of(fact), fact, NOW)
    assert any("p" in decided(scheduler, Now(20.0 * (1 + at), 1e9)) for at in range(8))
    for at in range(8, 60):
        decided(scheduler, Now(20.0 * (1 + at), 1e9))
    assert "were not searched to the end" not in scheduler.explain("uid-p0", NOW).message


def test_nodes_that_were_postponed_are_searched_before_those_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each round more nodes change than a round may search."""
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 10 * device_filter.WHOLE_STEPS)
    nodes: list[NodeFact] = [node(f"n{at:02d}") for at in range(24)]
    scheduler = scheduler_with(
        *nodes,
        *(gpus(each.name, 3) for each in nodes),
        gpu_class(),
        claim("one", spec=of_uuid("n04-2")),
        using("p", "one"),
    )
    rounds = 0
    while "p" not in decided(scheduler, Now(100.0 * (1 + rounds), 1e9)):
        rounds += 1
        assert rounds < 24
        for at in range(12, 24):
            changed = gpus(f"n{at:02d}", 3, generation=1 + rounds)
            scheduler.apply(key_of(changed), changed, NOW)


def test_the_chosen_node_is_searched_once_more_for_a_claim_for_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    tried = count_steps(monkeypatch)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(4)]
    facts = [*(gpus(each.name, 3) for each in nodes), gpu_class(), claim("one", spec=of_uuid("n2-1"))]
    assert decided(scheduler_with(*nodes, *facts, using("p", "one")))["p"][0] == "n2"
    assert len(tried) == len(nodes) + 1


def of_uuid(uuid: str) -> Json:
    selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].uuid == "{uuid}"'}}]
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}]}}


def test_a_waiting_claim_is_searched_anew_when_no_more_attributes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attribute that it names is apart, since its name came after too many others."""
    monkeypatch.setattr(slice_kinds, "MAX_NAMES", 2)
    scheduler = scheduler_with(node("a"), gpu_class(), claim("one", spec=of_uuid("a-1")), using("p", "one"))
    others = {"name": "x", "attributes": {name: {"string": "1"} for name in ("one", "two")}}
    assert decided(scheduler) == {}
    for fact in (node("b"), with_devices("b", others)):
        scheduler.apply(key_of(fact), fact, NOW)
    assert decided(scheduler) == {}
    late = gpus("a", 2)
    scheduler.apply(key_of(late), late, NOW)
    assert decided(scheduler)["p"][0] == "a"


def with_devices(name: str, *devices: Json) -> DeviceSliceFact:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return decode_device_slice(json.dumps({"metadata": {"name": f"{name}-others"}, "spec": spec}).encode())


def test_a_claim_may_name_an_attribute_that_nothing_named_before() -> None:
    """The uuids of devices are kept once for nodes that are equal but for them."""
    scheduler = scheduler_with(node("a"), node("b"), gpus("a", 3), gpus("b", 3), gpu_class())
    one = claim("one", spec=of_uuid("b-2"))
    for fact in (one, using("p", "one")):
        scheduler.apply(key_of(fact), fact, NOW)
    where, devices = decided(scheduler)["p"]
    assert (where, names(devices)) == ("b", [["gpu-2"]])
