"""Problems of the devices of bound pods: missing and unhealthy cards, deleted nodes, pods without devices."""

import json

import pytest
from deviceshare.formats import vgpu
from deviceshare.model import Gone
from deviceshare_bus.core import Now
from deviceshare_bus.subjects import fact
from deviceshare_cluster.interface import Change, ChangeType, EventRecord
from deviceshare_inventory.core.reports import SETTLE
from support.inventory import gone, started, work_off

BOTH = "GPU-0,10,32000,V100,true,hami-core:GPU-1,10,32000,V100,true,hami-core:"
ONE = "GPU-1,10,32000,V100,true,hami-core:"
SICK = BOTH.replace("V100,true", "V100,false", 1)


def node(revision=1, register=BOTH):
    metadata = {"name": "n1", "uid": "n", "annotations": {vgpu.REGISTER: register}}
    status = {"allocatable": {"volcano.sh/vgpu-number": "20"}, "conditions": [{"type": "Ready", "status": "True"}]}
    raw = json.dumps({"metadata": metadata, "status": status}).encode()
    return Change(ChangeType.APPLIED, "Node", "", "n1", revision, raw)


def pod(revision=2, ids="GPU-0,NVIDIA,3000,0:", phase="Running", node="n1", limits=None):
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000} if limits is None else limits
    metadata = {"name": "a", "namespace": "default", "uid": "u1", "resourceVersion": str(revision)}
    raw = {
        "metadata": metadata | ({"annotations": {vgpu.IDS: ids}} if ids else {}),
        "spec": {
            "schedulerName": "x",
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"limits": limits}}],
        },
        "status": {"phase": phase},
    }
    return Change(ChangeType.APPLIED, "Pod", "default", "a", revision, json.dumps(raw).encode())


def problems(bus):
    return [str(problem) for problem in bus.fact(fact("pod", "u1")).problems]


def events(said):
    return [(one.kind, one.reason, one.message) for one in said if isinstance(one, EventRecord)]


MISSING = "Pod default/a: the pod holds GPU-0, and node n1 does not register it any more"
UNHEALTHY = "Pod default/a: the pod holds GPU-0, and node n1 marks it as unhealthy"
DELETED = "Pod default/a: node n1 does not exist"
WITHOUT = "Pod default/a: the pod runs on n1 without the devices that it requests"


@pytest.mark.parametrize(
    ("register", "of_pod", "of_node"),
    [
        (ONE, MISSING, "Node n1: GPU-0, which pods hold, is not registered any more"),
        (SICK, UNHEALTHY, "Node n1: GPU-0, which pods hold, is unhealthy"),
    ],
)
def test_a_card_that_is_lost_under_a_pod_is_a_problem_of_both_until_it_is_back(register, of_pod, of_node):
    core, bus, said = started([node(), pod()], 5)
    assert (problems(bus), events(said)) == ([], [])
    core.deliver([node(6, register)])
    said = work_off(core, bus)
    assert problems(bus) == [of_pod]
    assert sorted(events(said)) == [("Node", "DeviceProblem", of_node), ("Pod", "DeviceProblem", of_pod)]
    core.deliver([pod(7), node(8)])
    assert events(work_off(core, bus)) == []
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
    core.deliver([gone("Node", "n1", 6)])
    assert events(work_off(core, bus)) == [("Pod", "DeviceProblem", DELETED)]
    assert problems(bus) == [DELETED]
    core.deliver([pod(7)])
    work_off(core, bus)
    assert problems(bus) == [DELETED]
    core.deliver([gone("Pod", "a", 8)])
    work_off(core, bus)
    assert isinstance(bus.fact(fact("pod", "u1")), Gone)
    core.deliver([pod(9)])
    work_off(core, bus)
    assert problems(bus) == [], "a node that is not known yet may follow its pods"


def test_a_pod_that_is_bound_without_devices_is_a_problem():
    core, bus, said = started([node(), pod(ids="")], 5)
    assert problems(bus) == [WITHOUT]
    assert events(said) == [("Pod", "DeviceProblem", WITHOUT)]
    core.deliver([pod(6)])
    work_off(core, bus)
    assert problems(bus) == []
    core.deliver([pod(7, ids="", limits={"cpu": 1, "example.com/x": 1})])
    work_off(core, bus)
    assert WITHOUT not in problems(bus)


def test_a_pod_without_devices_on_a_node_that_does_not_exist_misses_the_node():
    absent = "Pod default/a: node nowhere does not exist"
    core, bus, _ = started([node()], 5)
    core.deliver([pod(6, ids="", node="nowhere")])
    said = work_off(core, bus)
    assert problems(bus) == [absent]
    assert events(said) == [("Pod", "DeviceProblem", absent)]
    _, bus, _ = started([pod(ids=""), node()], 5)
    assert problems(bus) == [WITHOUT], "a list may name pods before their nodes"


def test_an_ended_pod_has_no_problems():
    core, bus, _ = started([node(), pod()], 5)
    core.deliver([pod(6, phase="Succeeded"), node(7, ONE)])
    work_off(core, bus)
    assert problems(bus) == []


def test_cards_that_are_missing_while_their_plugin_registers_again_are_no_events():
    """Of a kubelet that restarts, allocatable is 0 until its device plugins have registered again."""
    core, bus, _ = started([node(), pod()], 5)
    core.deliver([node(6, "")])
    assert events(work_off(core, bus)) == []
    assert problems(bus) == [MISSING], "shown meanwhile"
    core.now = Now(core.now.monotonic + SETTLE / 2, core.now.wall)
    core.deliver([node(7)])
    assert events(work_off(core, bus)) == []
    assert problems(bus) == []
    core.now = Now(core.now.monotonic + 2 * SETTLE, core.now.wall)
    assert events(work_off(core, bus)) == []
    assert core.core.next_due(core.now) is None


@pytest.mark.parametrize("back", [None, ONE])
def test_cards_that_stay_missing_are_events_after_a_while_or_once_their_plugin_registers_others(back):
    core, bus, _ = started([node(), pod()], 5)
    core.deliver([node(6, "")])
    assert events(work_off(core, bus)) == []
    if back is None:
        core.now = Now(core.now.monotonic + SETTLE, core.now.wall)
    else:
        core.deliver([node(7, back)])
    of_node = "Node n1: GPU-0, which pods hold, is not registered any more"
    said = events(work_off(core, bus))
    assert sorted(said) == [("Node", "DeviceProblem", of_node), ("Pod", "DeviceProblem", MISSING)]
    core.now = Now(core.now.monotonic + 2 * SETTLE, core.now.wall)
    assert events(work_off(core, bus)) == [], "once"
