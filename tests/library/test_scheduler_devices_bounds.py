"""Devices of ResourceClaims where a bound of what is remembered or tried is reached, and amounts of any sign."""

import json
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from deviceshare.allocation import device_filter, pod_classes
from deviceshare.conf import default_conf
from deviceshare.families.dra import Layout, cluster_devices
from deviceshare.families.dra.layout import MAX_ROOMS
from deviceshare.families.dra.layout import _room as room_of
from deviceshare.families.dra.pools import Place
from deviceshare.model import DeviceSliceFact, NodeFact, Now
from deviceshare.model.device_objects import Metadata, ResourceSlice
from deviceshare.objects.devices import decode_device_slice
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace
from support.builders import node
from support.devices import DRIVER, NOW, claim, count_steps, gpu_class, gpus, key_of, scheduler_with, using


def sliced(name: str, node_name: str = "a", count: int = 2, **spec: Any) -> DeviceSliceFact:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": count}
    full = {"driver": DRIVER, "nodeName": node_name, "pool": pool, **spec}
    return decode_device_slice(json.dumps({"metadata": {"name": name}, "spec": full}).encode())


def values(amounts: dict[str, int]) -> dict[str, dict[str, str]]:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def take(scheduler: Scheduler) -> list[str]:
    """Decide a round, let its decisions stand, and return the devices that were given."""
    found = []
    for fact, placement, decision in scheduler.round(NOW).placed:
        made = scheduler.new_claim(f"claim-{fact.uid}", fact, placement, decision, NOW)
        scheduler.claim(placement.node, [*scheduler.cluster.ledger(placement.node).claims.values(), made])
        found += [each.device for of_claim in placement.devices for each in of_claim.results]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_counters_are_summed_whatever_the_sign_of_what_devices_consume(seed: int) -> None:
    random = Random(seed)
    left = {name: random.randint(0, 5) for name in "ab"}
    needs = {
        f"d{at}": {
            name: random.choice((-9, -3, -1, 0, 1, 2, 9, 12)) for name in random.sample("ab", random.randint(1, 2))
        }
        for at in range(5)
    }
    devices = [
        {"name": name, "consumesCounters": [{"counterSet": "s", "counters": values(need)}]}
        for name, need in needs.items()
    ]
    counters = sliced("counters", sharedCounters=[{"name": "s", "counters": values(left)}])
    scheduler = scheduler_with(node("a"), gpu_class(), counters, sliced("devices", devices=devices))
    for at in range(6):
        for fact in (claim(f"c{at}"), using(f"p{at}", f"c{at}")):
            scheduler.apply(key_of(fact), fact, NOW)
        possible = {name for name, need in needs.items() if all(left[key] >= each for key, each in need.items())}
        given = take(scheduler)
        assert bool(given) == bool(possible), at
        if not given:
            break
        assert given[0] in possible
        for key, amount in needs.pop(given[0]).items():
            left[key] -= amount


def waiting(*slices: DeviceSliceFact) -> str:
    """Return why a claim for 5 devices waits, in a cluster of nodes with these slices."""
    nodes = [node(name) for name in sorted({str(each.spec.node_name) for each in slices})]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), claim("c", 5), using("p", "c"))
    assert take(scheduler) == []
    return scheduler.explain("uid-p", NOW).message


def test_reasons_are_the_same_if_what_searches_know_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [gpus(name, at) for at, name in enumerate("abc", 1)]
    expected = waiting(*few)
    monkeypatch.setattr(device_filter, "MAX_SOLVERS", 1)
    assert waiting(*few) == expected


def test_a_reason_that_nodes_share_names_none_of_them() -> None:
    unknown = [{"name": "d", "consumesCounters": [{"counterSet": "none", "counters": values({"a": 1})}]}]
    message = waiting(*(sliced(f"{name}-devices", name, 1, devices=unknown) for name in ("node-a", "node-b")))
    assert "2 node(s) could not be asked for devices: a resource pool is invalid" in message
    assert "node-" not in message


def refused(count: int, **exactly: Any) -> str:
    """Return why a claim waits on two nodes, of which the pools lack slices if there are to be more than one."""
    devices = {name: [{"name": f"of-{name}"}] for name in ("node-a", "node-b")}
    slices = [sliced(f"{name}-devices", name, count, devices=of_node) for name, of_node in devices.items()]
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]}}
    scheduler = scheduler_with(
        node("node-a"), node("node-b"), *slices, gpu_class(), claim("c", spec=spec), using("p", "c")
    )
    assert take(scheduler) == []
    return scheduler.explain("uid-p", NOW).message


def test_a_reason_names_no_device_and_no_pool_of_a_node() -> None:
    absent = [{"cel": {"expression": f'device.attributes["{DRIVER}"].absent == "x"'}}]
    for message in (refused(1, selectors=absent), refused(2, allocationMode="All")):
        assert "2 node(s) could not be asked for devices: " in message
        assert "node-" not in message


@pytest.mark.parametrize("changes", [["a"], ["b"], []])
def test_devices_are_given_though_the_answer_was_forgotten(monkeypatch: pytest.MonkeyPatch, changes: list[str]) -> None:
    """The answer of one node is forgotten for that of the other, and nothing is left to be tried."""
    monkeypatch.setattr(device_filter, "MAX_STATES", 1)
    monkeypatch.setattr(device_filter, "NODE_STEPS", 1)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 32)
    slices = {"a": gpus("a", 9), "b": gpus("b", 10)}
    scheduler = scheduler_with(node("a"), node("b"), *slices.values(), gpu_class(), claim("c", 8), using("p", "c"))
    for name in changes:  # it is searched last
        scheduler.apply(key_of(slices[name]), gpus(name, 11), NOW)
    assert len(take(scheduler)) == 8


def hard(name: str, count: int) -> Any:
    """Return a claim of ``count`` requests that differ, of which each order is tried where devices differ."""
    by_uuid = [{"cel": {"expression": f'device.attributes["{DRIVER}"].uuid != "{name}"'}}]
    exactly = {"deviceClassName": "gpu", "count": 1, "selectors": by_uuid}
    requests = [{"name": f"r{at}", "exactly": exactly} for at in range(count)]
    return claim(name, spec={"devices": {"requests": requests}})


def test_all_classes_together_try_no_more_than_a_round_may(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = count_steps(monkeypatch)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 4000)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(3)]
    claims = [hard(f"hard-{at}", 9) for at in range(4)]
    pods = [using(f"p{at}", f"hard-{at}") for at in range(4)]
    scheduler = scheduler_with(*nodes, *(gpus(each.name, 8) for each in nodes), gpu_class(), *claims, *pods)
    for at in range(3):
        tried.clear()
        scheduler.round(Now(20.0 * (1 + at), 1e9))
        assert scheduler.cluster.allocator.devices.steps_left >= 0
        assert sum(tried) <= 4000 + len(nodes) * len(claims) * (device_filter.NODE_STEPS + 1), at
        for each in claims:
            changed = replace(each, revision=f"{at}")
            scheduler.apply(key_of(changed), changed, NOW)
    easy = (claim("easy"), using("e", "easy"))
    for fact in easy:
        scheduler.apply(key_of(fact), fact, NOW)
    assert [fact.name for fact, *_ in scheduler.round(Now(100.0, 1e9)).placed] == ["e"]


def test_all_nodes_together_remember_no_more_rooms_than_the_bound() -> None:
    """Each node has a layout of its own: they differ in the number of devices, of which half have room."""
    for at in range(1, 6):
        uses = [{"counterSet": "s", "counters": values({"a": need})} for need in (1, 3) for _ in range(at)]
        devices = [
            {"name": f"d{number}", "attributes": {"size": {"int": number}}, "consumesCounters": [use]}
            for number, use in enumerate(uses)
        ]
        counters = sliced("counters", sharedCounters=[{"name": "s", "counters": values({"a": 10_000})}])
        slices = [each.spec for each in (counters, sliced("devices", devices=devices))]
        layout = Layout(
            [ResourceSlice(metadata=Metadata(name="s"), spec=each) for each in slices],
            Place("a", {}),
            cluster_devices.FEATURES,
        )
        (counted,) = layout.sets
        rooms = [counted.room(counted.total - counted.packed({"a": Fraction(used)})) for used in range(10_000)]
        assert rooms[0] == rooms[9_997] == 1.0
        assert rooms[9_998] == pytest.approx(1 / 4), "those that take 1 of 10,000, beside those that take 3"
    assert room_of.cache_info().currsize <= MAX_ROOMS < 5 * 10_000


def test_what_is_remembered_for_all_classes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def place_all() -> tuple[list[str], int, int]:
        """Return the devices that 20 classes get, the most that was remembered on the way, and what is left at last."""
        slices = [gpus(name, 3 + at) for at, name in enumerate("abcdefgh")]
        scheduler = scheduler_with(*map(node, "abcdefgh"), *slices, gpu_class())
        devices, found, most = scheduler.cluster.allocator.devices, list[str](), 0
        for at in range(20):
            for fact in (hard(f"c{at}", 2), using(f"p{at}", f"c{at}")):
                scheduler.apply(key_of(fact), fact, NOW)
            found += take(scheduler)
            most = max(most, devices.remembered)
        scheduler.configure(replace(default_conf(), dra=True, policy="spread"))
        return found, most, devices.remembered

    given, unbounded, left = place_all()
    assert (len(given), left) == (40, 0), "nothing is remembered under another configuration"
    monkeypatch.setattr(pod_classes, "COUNTED_BYTES", unbounded // 4)
    again, most, left = place_all()
    assert (again, left) == (given, 0)
    assert unbounded // 8 < most <= unbounded // 4 + unbounded // 20, "one class above the bound"


@pytest.mark.parametrize(("on_node", "first"), [(2, "gpu-0"), (3, "gpu-0"), (32, "gpu-1")])
def test_best_fit_tries_no_more_than_a_round_may(monkeypatch: pytest.MonkeyPatch, on_node: int, first: str) -> None:
    """The first of 20 devices is the largest: others are better, and it is given where too few can be compared."""
    tried = count_steps(monkeypatch)
    monkeypatch.setattr(device_filter, "NODE_STEPS", on_node)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 0)
    devices = [{"name": f"gpu-{at}", "capacity": values({"memory": 1 if at else 4})} for at in range(20)]
    scheduler = scheduler_with(node("a"), gpu_class(), sliced("a", count=1, devices=devices))
    scheduler.configure(replace(default_conf(), dra=True, policy="binpack"))
    for fact in (claim("c", 2), using("p", "c")):
        scheduler.apply(key_of(fact), fact, NOW)
    assert min(take(scheduler)) == first
    assert 2 <= max(tried) <= on_node + 20 // 8 + 1
