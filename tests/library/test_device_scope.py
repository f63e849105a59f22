"""``deviceshare.ResourceClaimsScope``: which devices are given where another scheduler allocates some as well."""

import json

import pytest
from deviceshare.conf import DeviceScope, default_conf, parse_conf
from deviceshare.model import ConfigError, DeviceSliceFact, Now
from deviceshare.objects.devices import decode_device_slice
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace
from support.builders import node
from support.devices import DRIVER, NOW, allocated, claim, gpu_class, gpus, scheduler_with, using

LABELS = {"example.com/scheduler": "deviceshare"}
OURS = DeviceScope(guarded=False, nodes=tuple(LABELS.items()))


def scope_of(value: str) -> DeviceScope:
    arguments = f"{{deviceshare.ResourceClaimsEnable: true, deviceshare.ResourceClaimsScope: {value}}}"
    found = parse_conf(f"- {{name: deviceshare, arguments: {arguments}}}", "File x")
    assert found.warnings == ()
    return found.device_scope


def network() -> DeviceSliceFact:
    """Return a slice that all nodes see."""
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "allNodes": True, "pool": pool, "devices": [{"name": "disk"}]}
    return decode_device_slice(json.dumps({"metadata": {"name": "net"}, "spec": spec}).encode())


def node_of(scheduler: Scheduler, pod: str, now: Now = NOW) -> str:
    return next((placement.node for fact, placement, _ in scheduler.round(now).placed if fact.name == pod), "")


def test_a_scope_is_a_word_or_labels_of_nodes() -> None:
    assert scope_of("") == scope_of("guarded") == default_conf().device_scope == DeviceScope(guarded=True)
    assert scope_of("exclusive") == DeviceScope(guarded=False)
    assert scope_of("{nodes: {b: x, a: y}}") == DeviceScope(guarded=False, nodes=(("a", "y"), ("b", "x")))


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        ("exclusiv", "", "guarded, exclusive, or nodes"),
        ("{node: {a: b}}", "", "guarded, exclusive, or nodes"),
        ("[exclusive]", "", "guarded, exclusive, or nodes"),
        ("{nodes: {}}", ".nodes", "labels and their values, at least one"),
        ("{nodes: {a: on}}", ".nodes[a]", "the value of a label as text, in quotes"),
    ],
)
def test_another_scope_is_an_error(value: str, field: str, expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        scope_of(value)
    problem = raised.value.problem
    assert problem.field.endswith(f"[deviceshare.ResourceClaimsScope]{field}")
    assert expected in problem.expected


def test_devices_are_given_only_of_nodes_in_the_scope_and_none_that_several_nodes_see() -> None:
    facts = gpu_class(), gpus("a", 1), gpus("b", 1), network(), node("a"), node("b", labels=LABELS)
    scheduler = scheduler_with(*facts, claim("one"), claim("two"), using("p", "one"), using("q", "two"))
    scheduler.configure(replace(scheduler.conf, device_scope=OURS))
    placed = scheduler.round(NOW).placed
    assert {placement.node for _, placement, _ in placed} == {"b"}
    (waits,) = {"p", "q"} - {fact.name for fact, _, _ in placed}
    message = scheduler.explain(f"uid-{waits}", NOW).message
    assert "1 node(s) were not among those of deviceshare.ResourceClaimsScope" in message
    scheduler.apply("a", node("a", labels=LABELS), NOW)
    assert node_of(scheduler, waits, Now(20.0, 1e9)) == "a", "a node that gets the labels is in the scope"


def test_a_claim_that_has_devices_is_followed_whatever_the_scope_is() -> None:
    has = allocated(claim("one"), [("a", "gpu-0")], "other")
    scheduler = scheduler_with(gpu_class(), gpus("a", 1), node("a"), node("b", labels=LABELS), has, using("p", "one"))
    scheduler.configure(replace(scheduler.conf, device_scope=OURS))
    assert node_of(scheduler, "p") == "a"


def test_a_pod_is_tried_again_when_the_scope_has_changed() -> None:
    scheduler = scheduler_with(gpu_class(), gpus("a", 1), node("a"), claim("one"), using("p", "one"))
    scheduler.configure(replace(scheduler.conf, device_scope=OURS))
    assert node_of(scheduler, "p") == ""
    scheduler.configure(replace(scheduler.conf, device_scope=DeviceScope()))
    assert node_of(scheduler, "p", Now(20.0, 1e9)) == "a"
