"""Problems of the devices of bound pods: missing and unhealthy cards, deleted nodes, pods without devices."""

import pytest
from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.model import Gone
from deviceshare_bus.cores.core import Now
from deviceshare_bus.messages.subjects import fact
from deviceshare_cluster.interface import EventRecord
from deviceshare_inventory.core.reports import SETTLE
from support.inventory import REGISTER, gone, started, work_off
from support.inventory import vgpu_node as node
from support.inventory import vgpu_pod as pod

ONE = "GPU-1,10,32000,V100,true,hami-core:"
NPUS = {f"{hami_vnpu_wire.REGISTER}Ascend910B3": '[{"id":"npu","count":10,"devmem":65536,"devcore":20,"health":true}]'}
SICK = REGISTER.replace("V100,true", "V100,false", 1)


def problems(bus):
    return [str(problem) for problem in bus.fact(fact("pod", "u1")).problems]


def events(said):
    return [(one.kind, one.reason, one.message) for one in said if isinstance(one, EventRecord)]


MISSING = "Pod default/a: the pod holds GPU-0, and node n1 does not register it any more"
UNHEALTHY = "Pod default/a: the pod holds GPU-0, and node n1 marks it as unhealthy"
DELETED = "Pod default/a: node n1 does not exist"
WITHOUT = "Pod default/a: the pod runs on n1 without the devices that it requests"


def lost(of_pod):
    """Return the Events about a lost card, of the node and of the pod."""
    why = {MISSING: "is not registered any more", UNHEALTHY: "is unhealthy"}[of_pod]
    of_node = f"Node n1: GPU-0, which pods hold, {why}"
    return [("Node", "DeviceProblem", of_node), ("Pod", "DeviceProblem", of_pod)]


@pytest.mark.parametrize(("register", "of_pod"), [(ONE, MISSING), (SICK, UNHEALTHY)])
def test_a_card_that_is_lost_under_a_pod_is_a_problem_of_both_until_it_is_back(register, of_pod):
    core, bus, said = started([node(), pod()], 5)
    assert (problems(bus), events(said)) == ([], [])
    said = work_off(core, bus, node(6, register))
    assert problems(bus) == [of_pod]
    assert sorted(events(said)) == lost(of_pod)
    assert events(work_off(core, bus, pod(revision=7), node(8))) == []
    assert problems(bus) == []


@pytest.mark.parametrize("order", [1, -1])
def test_what_happened_while_inventory_did_not_run_is_found_at_the_end_of_the_list(order):
    _, bus, said = started([node(register=ONE), pod()][::order], 5)
    assert problems(bus) == [MISSING]
    assert len(events(said)) == 2
    _, bus, _ = started([pod()], 9, bus)
    assert problems(bus) == [DELETED]


def test_a_deleted_node_is_a_problem_of_its_pods_while_they_exist():
    core, bus, _ = started([node(), pod()], 5)
    assert events(work_off(core, bus, gone("Node", "n1", 6))) == [("Pod", "DeviceProblem", DELETED)]
    assert problems(bus) == [DELETED]
    work_off(core, bus, pod(revision=7))
    assert problems(bus) == [DELETED]
    work_off(core, bus, gone("Pod", "a", 8))
    assert isinstance(bus.fact(fact("pod", "u1")), Gone)
    work_off(core, bus, pod(revision=9))
    assert problems(bus) == [], "a node that is not known yet may follow its pods"


def test_a_pod_that_is_bound_without_devices_is_a_problem():
    core, bus, said = started([node(), pod(ids="")], 5)
    assert problems(bus) == [WITHOUT]
    assert events(said) == [("Pod", "DeviceProblem", WITHOUT)]
    work_off(core, bus, pod(revision=6))
    assert problems(bus) == []
    work_off(core, bus, pod(revision=7, ids="", limits={"cpu": 1, "example.com/x": 1}))
    assert WITHOUT not in problems(bus)


def test_a_pod_without_devices_on_a_node_that_does_not_exist_misses_the_node():
    absent = "Pod default/a: node nowhere does not exist"
    core, bus, _ = started([node()], 5)
    said = work_off(core, bus, pod(revision=6, ids="", node="nowhere"))
    assert problems(bus) == [absent]
    assert events(said) == [("Pod", "DeviceProblem", absent)]
    _, bus, _ = started([pod(ids=""), node()], 5)
    assert problems(bus) == [WITHOUT], "a list may name pods before their nodes"


def test_an_ended_pod_has_no_problems():
    core, bus, _ = started([node(), pod()], 5)
    work_off(core, bus, pod(revision=6, phase="Succeeded"), node(7, ONE))
    assert problems(bus) == []


REGISTERING = [({"register": ""}, MISSING), ({"offered": 0}, UNHEALTHY)]
"""A node while its device plugin registers again: the annotation is empty, or kubelet offers 0 after a restart."""


@pytest.mark.parametrize(("registering", "shown"), REGISTERING)
@pytest.mark.parametrize("others", [{}, NPUS])
def test_cards_that_are_lost_while_their_plugin_registers_again_are_no_events(registering, shown, others):
    core, bus, _ = started([node(**others), pod()], 5)
    assert events(work_off(core, bus, node(6, **registering, **others))) == []
    assert problems(bus) == [shown], "shown meanwhile"
    core.now = Now(core.now.monotonic + SETTLE / 2, core.now.wall)
    assert events(work_off(core, bus, node(7))) == []
    assert problems(bus) == []
    core.now = Now(core.now.monotonic + 2 * SETTLE, core.now.wall)
    assert events(work_off(core, bus)) == []
    assert core.core.next_due(core.now) is None


@pytest.mark.parametrize("registering", [registering for registering, _ in REGISTERING])
@pytest.mark.parametrize(("back", "of_pod"), [(ONE, MISSING), (SICK, UNHEALTHY)])
def test_cards_that_stay_lost_are_events_once_their_plugin_registers_others(registering, back, of_pod):
    core, bus, _ = started([node(), pod()], 5)
    assert events(work_off(core, bus, node(6, **registering))) == []
    assert sorted(events(work_off(core, bus, node(7, back)))) == lost(of_pod)


@pytest.mark.parametrize(("registering", "of_pod"), REGISTERING)
def test_cards_that_stay_lost_are_events_after_a_while(registering, of_pod):
    core, bus, _ = started([node(), pod()], 5)
    assert events(work_off(core, bus, node(6, **registering))) == []
    core.now = Now(core.now.monotonic + SETTLE, core.now.wall)
    assert sorted(events(work_off(core, bus))) == lost(of_pod)
    core.now = Now(core.now.monotonic + 2 * SETTLE, core.now.wall)
    assert events(work_off(core, bus)) == [], "once"
