"""Pods that others bound: what they name counts as far as they ask, and does not change any more."""

import json
import re

import pytest
from deviceshare.formats import vgpu
from deviceshare.model import Gone, sign
from deviceshare_bus.subjects import fact
from deviceshare_cluster.interface import Change, ChangeType, EventRecord, Listed
from support.inventory import config_map, gone, started, work_off

KEY = b"a key of ours 123"
REGISTER = "GPU-0,10,32000,V100,true,hami-core:GPU-1,10,32000,V100,true,hami-core:"


def node(name="n1", revision=1, register=REGISTER):
    metadata = {"name": name, "uid": name, "annotations": {vgpu.REGISTER: register}}
    status = {"allocatable": {"volcano.sh/vgpu-number": "20"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return Change(
        ChangeType.APPLIED, "Node", "", name, revision, json.dumps({"metadata": metadata, "status": status}).encode()
    )


def pod(ids=None, revision=2, node="n1", phase="Running", limits=None, uid="u1", **annotations):
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000} if limits is None else limits
    named = {} if ids is None else {vgpu.IDS: ids}
    metadata = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": str(revision)}
    spec = {"schedulerName": "other", "containers": [{"name": "c", "resources": {"limits": limits}}]}
    raw = {
        "metadata": metadata | {"annotations": named | annotations},
        "spec": spec | ({"nodeName": node} if node else {"schedulerName": "volcano"}),
        "status": {"phase": phase},
    }
    return Change(ChangeType.APPLIED, "Pod", "default", "a", revision, json.dumps(raw).encode())


def one(card, memory=3000, cores=0):
    return f"{card},NVIDIA,{memory},{cores}:"


def held(bus, uid="u1"):
    standing = bus.fact(fact("pod", uid))
    if isinstance(standing, Gone):
        return None
    return [(device.id, device.memory, device.cores) for grant in standing.held for device in grant.devices]


def told(said):
    """Return the reason and the value of each problem that was recorded."""
    reports = [one for one in said if isinstance(one, EventRecord)]
    return [(report.reason, re.findall("'(.*)' is not valid", report.message)[0]) for report in reports]


def test_a_pod_that_was_bound_before_keeps_what_it_names_and_asks():
    _, bus, said = started([pod(one("GPU-0")), node()], 5)
    assert (held(bus), told(said)) == ([("GPU-0", 3000, 0)], [])


@pytest.mark.parametrize("order", [1, -1])
def test_what_it_does_not_ask_does_not_count_whichever_object_comes_first(order):
    """Its node and the configuration may be listed after the pod."""
    config = config_map(
        "nvidia:\n  resourceMemoryName: volcano.sh/vgpu-memory\n", 3, "volcano-vgpu-device-config", "device-config.yaml"
    )
    changes = [pod(one("GPU-0", 32000, 100) + one("GPU-1", 32000, 100)), node(), config]
    _, bus, said = started(changes[::order], 5)
    assert held(bus) == [("GPU-0", 3000, 0)]
    assert told(said) == [("InvalidDeviceAnnotation", "GPU-0 32000 100, GPU-1 32000 100")]
    assert [subject for subject, _, _ in bus.log].count(fact("pod", "u1")) == 1


def test_before_binding_nothing_counts_and_after_it_nothing_more():
    core, bus, _ = started([node(), pod(one("GPU-1"), node=None)], 3)
    assert held(bus) == []
    core.deliver([pod(one("GPU-0"), 4)])
    work_off(core, bus)
    assert held(bus) == [("GPU-0", 3000, 0)]
    core.deliver([pod(one("GPU-1"), 5)])
    said = work_off(core, bus)
    assert held(bus) == [("GPU-0", 3000, 0)]
    assert told(said) == [("InvalidDeviceAnnotation", "GPU-1")]
    core.deliver([pod(None, 6)])
    work_off(core, bus)
    assert held(bus) == [("GPU-0", 3000, 0)]


def test_what_was_named_first_counts_over_a_new_list():
    core, bus, _ = started([node(), pod(one("GPU-0"))], 3)
    core.begin_list()
    core.deliver([node(), pod(one("GPU-1"), 8), Listed(9)])
    work_off(core, bus)
    assert held(bus) == [("GPU-0", 3000, 0)]


def test_a_scheduler_that_writes_after_it_binds_is_heard():
    core, bus, _ = started([node(), pod(None)], 3)
    assert held(bus) == []
    core.deliver([pod(one("GPU-1"), 4)])
    work_off(core, bus)
    assert held(bus) == [("GPU-1", 3000, 0)]


def test_a_pod_that_asks_nothing_holds_nothing():
    _, bus, said = started([node(), pod(one("GPU-0", 32000), limits={})], 3)
    assert held(bus) == []
    ((reason, value),) = told(said)
    assert (reason, value) == ("InvalidDeviceAnnotation", "GPU-0 32000 0")


def waits_for(named, **asks):
    """Return what a plugin is said to owe a pod that names these cards and is not served."""
    waiting = {vgpu.TO_ALLOCATE: named, vgpu.NODE: "n1", vgpu.TIME: "1", vgpu.BIND_PHASE: vgpu.ALLOCATING}
    _, bus, _ = started([node(), pod(named, phase="Pending", **asks, **waiting)], 3)
    return [key for _, key in bus.fact(fact("pod", "u1")).unserved]


def test_a_plugin_owes_a_pod_what_it_asks_and_nothing_that_it_names_beside():
    """Else whoever may write annotations could hold back all hand-overs of a node."""
    assert waits_for(one("GPU-0")) == ["1 vGPU"]
    assert waits_for(one("GPU-0") + one("GPU-1")) == ["1 vGPU"]
    assert waits_for(one("GPU-0"), limits={}) == []


def test_what_is_asked_goes_by_the_configuration_that_holds():
    asks = {"gpu.example/count": 1, "gpu.example/memory": 3000}
    core, bus, _ = started([node(), pod(one("GPU-0"), limits=asks)], 3)
    assert held(bus) == []
    text = "nvidia:\n  resourceCountName: gpu.example/count\n  resourceMemoryName: gpu.example/memory\n"
    core.deliver([config_map(text, 4, "volcano-vgpu-device-config", "device-config.yaml")])
    work_off(core, bus)
    assert held(bus) == [("GPU-0", 3000, 0)]


def test_a_share_of_a_card_goes_by_the_card():
    asks = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 50}
    core, bus, _ = started([node(), pod(one("GPU-0", 32000), limits=asks)], 3)
    assert held(bus) == [("GPU-0", 16000, 0)]
    core.deliver([node(revision=4, register=REGISTER.replace("32000", "24000"))])
    work_off(core, bus)
    assert held(bus) == [("GPU-0", 12000, 0)]


def test_what_we_signed_counts_whole_also_when_its_signature_is_gone():
    ids = {vgpu.IDS: one("GPU-0", 8000)}
    ours = pod(one("GPU-0", 8000), **sign([KEY], "u1", "n1", ids))
    core, bus, _ = started([node(), ours], 3, keys=[KEY])
    assert held(bus) == [("GPU-0", 8000, 0)]
    core.deliver([pod(one("GPU-1"), 4)])
    work_off(core, bus)
    assert held(bus) == [("GPU-0", 8000, 0)]


def test_an_end_gives_everything_back():
    core, bus, _ = started([node(), pod(one("GPU-0"))], 3)
    core.deliver([pod(one("GPU-0"), 4, phase="Failed")])
    work_off(core, bus)
    assert held(bus) == []
    core.deliver([gone("Pod", "a", 5)])
    work_off(core, bus)
    assert held(bus) is None
