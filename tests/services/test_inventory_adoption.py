"""Pods that others bound: what they name counts as far as they ask, and does not change any more."""

import re

import pytest
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.model import ContainerGrant, DeviceGrant, Gone, PodFact, sign
from deviceshare_bus.cores.core import CaughtUp
from deviceshare_bus.messages.subjects import SYNCED, fact
from deviceshare_cluster.interface import EventRecord, Listed
from deviceshare_inventory.core.adoption import Adoption
from support.inventory import REGISTER, Driver, config_map, gone, started, work_off
from support.inventory import node as any_node
from support.inventory import vgpu_node as node
from support.inventory import vgpu_pod as pod

KEY = b"a key of ours 123"


def one(card, memory=3000, cores=0):
    return f"{card},NVIDIA,{memory},{cores}:"


def held(bus, uid="u1"):
    fact_on_bus = bus.fact(fact("pod", uid))
    if isinstance(fact_on_bus, Gone):
        return None
    return [(device.id, device.memory, device.cores) for grant in fact_on_bus.held for device in grant.devices]


def reported(said):
    """Return the reason and the value of each problem that was recorded."""
    reports = [one for one in said if isinstance(one, EventRecord)]
    return [(report.reason, re.findall("'(.*)' is not valid", report.message)[0]) for report in reports]


def test_a_pod_that_was_bound_before_keeps_what_it_names_and_asks():
    _, bus, said = started([pod(one("GPU-0")), node()], 5)
    assert (held(bus), reported(said)) == ([("GPU-0", 3000, 0)], [])


@pytest.mark.parametrize("order", [1, -1])
def test_what_it_does_not_ask_does_not_count_whichever_object_comes_first(order):
    """Its node and the configuration may be listed after the pod."""
    config = config_map(
        "nvidia:\n  resourceMemoryName: volcano.sh/vgpu-memory\n", 3, "volcano-vgpu-device-config", "device-config.yaml"
    )
    changes = [pod(one("GPU-0", 32000, 100) + one("GPU-1", 32000, 100)), node(), config]
    _, bus, said = started(changes[::order], 5)
    assert held(bus) == [("GPU-0", 3000, 0)]
    assert reported(said) == [("InvalidDeviceAnnotation", "GPU-0 32000 100, GPU-1 32000 100")]
    assert [subject for subject, _, _ in bus.log].count(fact("pod", "u1")) == 1


def test_devices_named_before_the_binding_or_added_after_it_do_not_count():
    core, bus, _ = started([node(), pod(one("GPU-1"), node=None)], 3)
    assert held(bus) == []
    work_off(core, bus, pod(one("GPU-0"), 4))
    assert held(bus) == [("GPU-0", 3000, 0)]
    said = work_off(core, bus, pod(one("GPU-1"), 5))
    assert held(bus) == [("GPU-0", 3000, 0)]
    assert reported(said) == [("InvalidDeviceAnnotation", "GPU-1")]
    work_off(core, bus, pod(None, 6))
    assert held(bus) == [("GPU-0", 3000, 0)]


def test_what_was_named_first_counts_over_a_new_list():
    core, bus, _ = started([node(), pod(one("GPU-0"))], 3)
    core.begin_list()
    work_off(core, bus, node(), pod(one("GPU-1"), 8), Listed(9))
    assert held(bus) == [("GPU-0", 3000, 0)]


def test_a_scheduler_that_writes_after_it_binds_is_heard():
    core, bus, _ = started([node(), pod(None)], 3)
    assert held(bus) == []
    work_off(core, bus, pod(one("GPU-1"), 4))
    assert held(bus) == [("GPU-1", 3000, 0)]


def waits_for(named, **asks):
    """Return the unserved devices of the fact of a pod that names these cards."""
    waiting = {
        vgpu_wire.TO_ALLOCATE: named,
        vgpu_wire.NODE: "n1",
        vgpu_wire.TIME: "1",
        vgpu_wire.BIND_PHASE: vgpu_wire.ALLOCATING,
    }
    _, bus, _ = started([node(), pod(named, phase="Pending", **asks, **waiting)], 3)
    return [key for _, key in bus.fact(fact("pod", "u1")).unserved]


def test_unserved_devices_are_those_that_the_pod_requests_and_no_others_that_it_names():
    """Otherwise a user who can write annotations could block all handoffs of a node."""
    assert waits_for(one("GPU-0")) == ["1 vGPU"]
    assert waits_for(one("GPU-0") + one("GPU-1")) == ["1 vGPU"]
    assert waits_for(one("GPU-0"), limits={}) == []


def test_the_request_depends_on_the_configuration_in_effect():
    asks = {"gpu.example/count": 1, "gpu.example/memory": 3000}
    core, bus, _ = started([node(), pod(one("GPU-0"), limits=asks)], 3)
    assert held(bus) == []
    text = "nvidia:\n  resourceCountName: gpu.example/count\n  resourceMemoryName: gpu.example/memory\n"
    work_off(core, bus, config_map(text, 4, "volcano-vgpu-device-config", "device-config.yaml"))
    assert held(bus) == [("GPU-0", 3000, 0)]


@pytest.mark.parametrize("lists", [False, True])
def test_what_a_pod_holds_by_a_new_configuration_is_published_before_it(lists):
    """Otherwise placement could give it away by the new configuration."""
    objects = [node(), pod(one("GPU-0"), limits={"gpu.example/count": 1, "gpu.example/memory": 3000})]
    core, bus, _ = started(objects, 3)
    text = "nvidia:\n  resourceCountName: gpu.example/count\n  resourceMemoryName: gpu.example/memory\n"
    config = config_map(text, 4, "volcano-vgpu-device-config", "device-config.yaml")
    if lists:
        core, _, _ = started([*objects, config], 5, bus)
    else:
        work_off(core, bus, config)
    written = [subject for subject, _, _ in bus.log if subject != SYNCED]
    assert written[-2:] == [fact("pod", "u1"), fact("config", "devices")]


def test_the_request_depends_on_the_configuration_in_effect_also_after_a_takeover():
    """The fact of another replica has the revision of the pod, which the configuration does not change."""
    objects = [node(), pod(one("GPU-0"), limits={"gpu.example/count": 1, "gpu.example/memory": 3000})]
    _, bus, _ = started(objects, 3)
    successor = Driver()
    successor.handle(CaughtUp("CLUSTER"))
    successor.begin_list()
    work_off(successor, bus, *objects, Listed(3))
    assert held(bus) == []
    text = "nvidia:\n  resourceCountName: gpu.example/count\n  resourceMemoryName: gpu.example/memory\n"
    work_off(successor, bus, config_map(text, 4, "volcano-vgpu-device-config", "device-config.yaml"))
    assert held(bus) == [("GPU-0", 3000, 0)]


def test_what_a_bound_pod_holds_does_not_depend_on_the_families_that_are_enabled():
    """Otherwise the cards would look free once ``deviceshare.HAMiGPUEnable`` is set."""
    annotations = {"hami.io/node-nvidia-register": "GPU-a,10,16384,100,T4,0,true,0,hami-core:"}
    hami = any_node(annotations=annotations, allocatable={"nvidia.com/gpu": "10"})
    bound = pod("", limits={"nvidia.com/gpu": 1}, **{"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,16384,0:;"})
    settings = (
        "actions: allocate\ntiers:\n- plugins:\n  - name: deviceshare\n    arguments:\n      deviceshare.{}: true\n"
    )
    core, bus, said = started([hami, bound, config_map(settings.format("VGPUEnable"), 3)], 5)
    assert (held(bus), reported(said)) == ([("GPU-a", 16384, 0)], [])
    core.deliver([config_map(settings.format("HAMiGPUEnable"), 4)])
    assert (reported(work_off(core, bus)), held(bus)) == ([], [("GPU-a", 16384, 0)])


def test_a_share_of_a_card_goes_by_the_card():
    asks = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 50}
    core, bus, _ = started([node(), pod(one("GPU-0", 32000), limits=asks)], 3)
    assert held(bus) == [("GPU-0", 16000, 0)]
    work_off(core, bus, node(revision=4, register=REGISTER.replace("32000", "24000")))
    assert held(bus) == [("GPU-0", 12000, 0)]


def test_signed_devices_count_in_full_also_after_the_signature_is_removed():
    ids = {vgpu_wire.IDS: one("GPU-0", 8000)}
    ours = pod(one("GPU-0", 8000), **sign([KEY], "u1", "n1", ids))
    core, bus, _ = started([node(), ours], 3, keys=[KEY])
    assert held(bus) == [("GPU-0", 8000, 0)]
    work_off(core, bus, pod(one("GPU-1"), 4))
    assert held(bus) == [("GPU-0", 8000, 0)]


def test_a_pod_that_ends_releases_all_its_devices():
    core, bus, _ = started([node(), pod(one("GPU-0"))], 3)
    work_off(core, bus, pod(one("GPU-0"), 4, phase="Failed"))
    assert held(bus) == []
    work_off(core, bus, gone("Pod", "a", 5))
    assert held(bus) is None


def test_nodes_without_pods_are_forgotten():
    adoption = Adoption()
    for number in range(3):
        grants = (ContainerGrant("c", 0, "hami-core", (DeviceGrant("GPU-0", 0, 3000, 0),)),)
        bound = PodFact(uid=f"u{number}", namespace="default", name="a", node=f"n{number}", held=grants)
        adoption.pod(bound)
        adoption.forget(bound.uid)
    assert not adoption._on
