"""DeviceTaintRules: which devices they taint, and what pods get of them. The rules are those of Kubernetes' tracker."""

import json
import random
from typing import Any

import pytest
from deviceshare.families.dra import ClusterDevices, taint_rules
from deviceshare.families.dra.taint_rules import selects_pool
from deviceshare.kernels import Changes
from deviceshare.model import DeviceClaimFact, DeviceSliceFact, DeviceTaintRuleFact, FormatError, NodeFact, Now
from deviceshare.model.device_objects import TaintRuleSpec
from deviceshare.objects.devices import decode_device_slice, decode_device_taint_rule
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace
from support.builders import node
from support.devices import DRIVER, NOW, claim, gpu_class, gpus, scheduler_with, using

OTHER = "nic.example.com"
MODEL = f'device.attributes["{DRIVER}"].model == "a"'
WRONG = f'device.attributes["{DRIVER}"].absent == "a"'
Json = dict[str, Any]


def taint_rule(name: str, selector: Json | None, effect: str = "NoSchedule") -> DeviceTaintRuleFact:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "value": name, "effect": effect}}
    return decode_device_taint_rule(json.dumps({"metadata": {"name": name}, "spec": spec}).encode())


def cel(*expressions: str) -> Json:
    return {"selectors": [{"cel": {"expression": each}} for each in expressions]}


def some(driver: str, pool: str, devices: dict[str, str], taints: tuple[Json, ...] = ()) -> DeviceSliceFact:
    """Return the slice of a node with devices, each of a model, and taints of the driver on all of them."""
    found = [
        {"name": name, "attributes": {"model": {"string": model}}, "taints": list(taints)}
        for name, model in devices.items()
    ]
    of_pool = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": "n", "pool": of_pool, "devices": found}
    return decode_device_slice(json.dumps({"metadata": {"name": f"{driver}-{pool}"}, "spec": spec}).encode())


GPUS = some(DRIVER, "n", {"one": "a", "two": "b"})
NICS = some(OTHER, "n", {"one": "a"})
MORE = some(DRIVER, "m", {"one": "a"})


def known(*facts: Any) -> ClusterDevices:
    nodes: list[NodeFact | None] = [node("n")]
    found = ClusterDevices(Changes(), nodes, {"n": 0})
    for fact in facts:
        found.put(fact)
    return found


def tainted(devices: ClusterDevices) -> set[tuple[str, str, str]]:
    """Return the devices with a taint."""
    return {each.id for each in (device.candidate for device in devices.seen(0).layout.devices) if each.device.taints}


ALL = {(DRIVER, "n", "one"), (DRIVER, "n", "two"), (OTHER, "n", "one"), (DRIVER, "m", "one")}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, ALL),
        ({}, ALL),
        ({"driver": DRIVER}, {each for each in ALL if each[0] == DRIVER}),
        ({"pool": "m"}, {(DRIVER, "m", "one")}),
        ({"driver": OTHER, "pool": "m"}, set()),
        ({"device": "one"}, {each for each in ALL if each[2] == "one"}),
        ({"driver": DRIVER, "pool": "n", "device": "one"}, {(DRIVER, "n", "one")}),
        ({"driver": DRIVER, **cel(MODEL)}, {(DRIVER, "n", "one"), (DRIVER, "m", "one")}),
        (cel(MODEL, "true"), {(DRIVER, "n", "one"), (DRIVER, "m", "one")}),
        (cel(MODEL, "false"), set()),
        (cel(WRONG), set()),
        ({"pool": "m", **cel("invalid(")}, {(DRIVER, "m", "one")}),
        ({"deviceClassName": "gpu"}, {(DRIVER, "n", "one"), (DRIVER, "m", "one")}),
        ({"deviceClassName": "gpu", "pool": "m"}, {(DRIVER, "m", "one")}),
        ({"deviceClassName": "absent"}, set()),
    ],
)
def test_a_rule_taints_the_devices_that_meet_all_of_its_criteria(selector: Json | None, expected: set[Any]) -> None:
    facts = gpu_class(expression=MODEL), taint_rule("r", selector), GPUS, NICS, MORE
    for order in (facts, facts[::-1]):
        devices = known(*order)
        assert tainted(devices) == expected


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_devices_have_the_taints_of_the_rules_of_now(seed: int) -> None:
    """Compared with facts that come at once, in the order in which nothing has to be applied again."""
    rng = random.Random(seed)
    selectors: list[Json] = [{}, {"driver": DRIVER}, {"pool": "m"}, {"deviceClassName": "gpu"}, {"device": "two"}]
    own = {"key": "broken", "value": "r0", "effect": "NoSchedule"}
    slices = [GPUS, NICS, MORE, some(DRIVER, "n", {"one": "a", "two": "b"}, (own,))]
    devices, now = known(), dict[str, Any]()
    for _ in range(60):
        fact = rng.choice(
            [taint_rule(f"r{rng.randrange(3)}", rng.choice(selectors)), rng.choice(slices), gpu_class(expression=MODEL)]
        )
        key = f"{type(fact).__name__}/{fact.name}"
        if key in now and rng.random() < 0.4:
            devices.drop(now.pop(key))
        else:
            devices.put(fact)
            now[key] = fact
        ranked = ("DeviceClassFact", "DeviceTaintRuleFact", "DeviceSliceFact")
        fresh = known(*sorted(now.values(), key=lambda each: ranked.index(type(each).__name__)))
        assert taints(devices) == taints(fresh)


def taints(devices: ClusterDevices) -> dict[Any, list[tuple[str, str, str]]]:
    found = (each.candidate for each in devices.seen(0).layout.devices)
    return {each.id: sorted((one.key, one.value, one.effect) for one in each.device.taints) for each in found}


def placed(scheduler: Scheduler, now: Now = NOW) -> set[str]:
    return {fact.name for fact, _, _ in scheduler.round(now).placed}


def tolerant(name: str) -> DeviceClaimFact:
    exactly = {"deviceClassName": "gpu", "count": 1, "tolerations": [{"key": "broken", "operator": "Exists"}]}
    return claim(name, spec={"devices": {"requests": [{"name": "r", "exactly": exactly}]}})


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "None"])
def test_a_tainted_device_is_given_to_claims_that_tolerate_it(effect: str) -> None:
    rule = taint_rule("r", {"driver": DRIVER}, effect)
    facts = node("a"), gpu_class(), gpus("a", 1), rule
    assert placed(scheduler_with(*facts, claim("one"), using("p", "one"))) == ({"p"} if effect == "None" else set())
    assert placed(scheduler_with(*facts, tolerant("one"), using("p", "one"))) == {"p"}


def test_a_pod_is_tried_again_when_the_rule_is_gone() -> None:
    rule = taint_rule("r", {"pool": "a"})
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 1), rule, claim("one"), using("p", "one"))
    assert placed(scheduler) == set()
    assert "only tainted devices for request r (gpu)" in scheduler.explain("uid-p", NOW).message
    scheduler.apply("DeviceTaintRuleFact r", taint_rule("r", {"pool": "b"}), Now(20.0, 1e9))
    assert placed(scheduler, Now(20.0, 1e9)) == {"p"}


def test_nodes_whose_devices_have_equal_taints_share_their_answers_though_each_has_a_rule_of_its_own() -> None:
    def rule(name: str, pool: str, value: str) -> DeviceTaintRuleFact:
        fact = taint_rule(name, {"pool": pool})
        return replace(fact, spec=replace(fact.spec, taint=replace(fact.spec.taint, value=value)))

    rules = rule("a1", "a", "x"), rule("a2", "a", "y"), rule("a3", "a", "y"), rule("b1", "b", "y"), rule("b2", "b", "x")
    nodes: list[NodeFact | None] = [node("a"), node("b")]
    devices = ClusterDevices(Changes(), nodes, {"a": 0, "b": 1})
    for name in ("a", "b"):
        fact = some(DRIVER, name, {"one": "a"})
        devices.put(replace(fact, spec=replace(fact.spec, node_name=name)))
    for each in rules:
        devices.put(each)
    assert devices.seen(0).layout is devices.seen(1).layout
    for each in rules[:3]:
        devices.drop(each)
    assert devices.seen(0).layout is not devices.seen(1).layout
    for each in rules[3:]:
        devices.drop(each)
    assert devices.seen(0).layout is devices.seen(1).layout


def test_a_slice_is_compared_with_the_rules_of_its_pool_only(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[str | None]()

    def selects(rule: TaintRuleSpec, driver: str, pool: str) -> bool:
        compared.append(rule.device_selector.pool)
        return selects_pool(rule, driver, pool)

    monkeypatch.setattr(taint_rules, "selects_pool", selects)
    devices = known(*(taint_rule(f"r{number}", {"pool": f"p{number}"}) for number in range(50)))
    devices.put(taint_rule("m", {"pool": "m"}))
    devices.put(taint_rule("any", {"driver": OTHER}))
    devices.put(MORE)
    assert compared == [None, "m"]
    assert tainted(devices) == {(DRIVER, "m", "one")}


@pytest.mark.parametrize("length", [63, 253])
def test_the_key_of_a_taint_is_as_long_as_the_name_of_a_label(length: int) -> None:
    def decoded(key: str) -> str:
        spec = {"taint": {"key": key, "effect": "NoSchedule"}}
        return decode_device_taint_rule(json.dumps({"metadata": {"name": "r"}, "spec": spec}).encode()).spec.taint.key

    key = f"{'p' * length}/{'k' * 63}"
    assert decoded(key) == key
    with pytest.raises(FormatError, match=r"spec\.taint\.key.* at most 317 characters, not 318"):
        decoded(key.rjust(318, "p"))


def test_a_rule_without_a_key_is_invalid() -> None:
    with pytest.raises(FormatError, match=r"DeviceTaintRule r: spec\.taint\.key"):
        decode_device_taint_rule(b'{"metadata": {"name": "r"}, "spec": {"taint": {"effect": "NoSchedule"}}}')
