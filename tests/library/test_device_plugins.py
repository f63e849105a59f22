"""Which pods device plugins may still serve, as their annotations and statuses say.

What is written when one is served is read as that.
"""

import json

import pytest
from deviceshare.families import BY_NAME
from deviceshare.model import DEVICES_DIFFER, Claim, ContainerGrant, DeviceGrant
from deviceshare.objects import decode_node, decode_pod

CASES = {
    "hami-core": ({"volcano.sh/vgpu-number": "2"}, ("GPU-a", "GPU-b"), "", "2 vGPUs"),
    "gpu-share": ({"volcano.sh/gpu-memory": "1024"}, ("1",), "", "1024 volcano.sh/gpu-memory"),
    "gpu-number": ({"volcano.sh/gpu-number": "2"}, ("0", "1"), "", "2 volcano.sh/gpu-number"),
    "hami-vnpu": ({"huawei.com/Ascend310P": "1"}, ("D0",), "Ascend310P/vir01", "vNPUs"),
    "hami-gpu": ({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "1024"}, ("GPU-a", "GPU-b"), "", "HAMi GPUs"),
    "mindcluster": ({"huawei.com/npu-core": "2"}, ("Ascend310P-0",), "vir02", "2 huawei.com/npu-core"),
}


def bound(family, *stages, **changes):
    """Return the annotations with which a pod of the family is bound; beside c0, containers at stages have devices."""
    _, ids, detail, _ = CASES[family]
    cores = 2 if family == "mindcluster" else 0
    devices = tuple(DeviceGrant(each, at, 1024, cores, detail) for at, each in enumerate(ids))
    grants = [ContainerGrant("c0", 0, family, devices)]
    for stage in stages:
        if family == "gpu-number" and not stage:  # whole cards are exclusive
            devices = tuple(DeviceGrant(str(at), at, 1024, 0) for at in range(len(ids), 2 * len(ids)))
        grants.append(ContainerGrant("i0" if stage else "c1", 0 if stage else 1, family, devices, stage))
    claim = Claim(id="c", uid="u", namespace="ns", name="p", grants=tuple(grants))
    mains, inits = ["c0", *("c1" for stage in stages if not stage)], ["i0" for stage in stages if stage]
    return BY_NAME[family].annotations(claim, "n1", mains, 1_700_000_000.0, inits) | changes


def container(family, name):
    limits = CASES[family][0]
    return {"name": name, "resources": {"limits": limits, "requests": limits}}


STARTED = {"startTime": "2023-11-14T22:13:20Z"}
"""In the first status that kubelet writes of a pod, after it has admitted it."""


def fact(family, annotations, phase="Pending", node="n1", stages=(), **status):
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "annotations": annotations,
            "labels": {"ring-controller.atlas": "ascend-310P"},
        },
        "spec": {
            "nodeName": node,
            "containers": [container(family, name) for name in ("c0", *("c1" for stage in stages if not stage))],
            "initContainers": [container(family, "i0") for stage in stages if stage],
        },
        "status": {"phase": phase, **status},
    }
    return decode_pod(json.dumps(pod).encode())


def unserved(family, annotations, phase="Pending", node="n1", stages=(), **status):
    return fact(family, annotations, phase, node, stages, **status).unserved


@pytest.mark.parametrize("family", CASES)
def test_a_bound_pod_waits_until_its_plugin_has_served_it_and_kubelet_has_admitted_it(family):
    annotations = bound(family)
    served = annotations | BY_NAME[family].plugin.once_served(annotations)
    waits = ((family, CASES[family][3]),)
    assert unserved(family, annotations) == waits
    assert unserved(family, annotations, node="") == ()
    assert unserved(family, served) == waits, "a kubelet that ends now requests the devices again"
    assert unserved(family, annotations, **STARTED) == waits, "the plugin may take it for another pod"
    assert unserved(family, served, **STARTED) == ()


@pytest.mark.parametrize(
    ("status", "admitted"),
    [
        ({}, False),
        ({"phase": ""}, False),
        ({"phase": None, "startTime": None, "containerStatuses": None}, False),
        ({"containerStatuses": []}, False),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, False),
        (STARTED, True),
        ({"containerStatuses": [{"name": "c0", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, True),
        ({"phase": "Running"}, True),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, True),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_status_of_kubelet_shows_that_it_does_not_request_the_devices_of_the_pod_again(status, admitted, whole):
    served = bound("gpu-share", **{"volcano.sh/gpu-assigned": "true"})
    if whole:  # a pod whose inter-pod constraints have a problem is decoded as a whole
        status = {**status, "resize": 1}
    assert bool(unserved("gpu-share", served, **{"phase": "Pending", **status})) is not admitted


@pytest.mark.parametrize("family", CASES)
def test_what_is_served_is_served_once_and_keeps_its_devices(family):
    plugin, annotations = BY_NAME[family].plugin, bound(family)
    after = annotations | plugin.once_served(annotations)
    assert plugin.once_served(after) == {}
    assert plugin.same(annotations, after)
    assert not plugin.same(annotations, {})


@pytest.mark.parametrize("stage", ["", "init"])
@pytest.mark.parametrize("family", ["hami-core", "gpu-share", "gpu-number"])
def test_a_pod_with_several_containers_is_served_when_kubelet_has_admitted_it(family, stage):
    """kubelet asks for the second container when the plugin has marked the pod for the first."""
    annotations = bound(family, stage)
    served = annotations | BY_NAME[family].plugin.once_served(annotations)
    waits = unserved(family, served, stages=[stage])
    assert (family, CASES[family][3]) in waits
    assert unserved(family, served, stages=[stage], **STARTED) == ()
    assert unserved(family, served, phase="Running", stages=[stage]) == ()
    assert unserved(family, served, phase="Failed", stages=[stage]) == ()


def test_an_init_container_alone_is_no_container_that_the_vgpu_plugin_serves():
    devices = (DeviceGrant("GPU-a", 0, 1024, 0),)
    claim = Claim(
        id="c", uid="u", namespace="ns", name="p", grants=(ContainerGrant("i0", 0, "hami-core", devices, "init"),)
    )
    annotations = BY_NAME["hami-core"].annotations(claim, "n1", ["c0"], 1_700_000_000.0, ["i0"])
    assert unserved("hami-core", annotations, stages=["init"]) == (("hami-core", "1 vGPU"),)


@pytest.mark.parametrize("stage", ["", "init"])
def test_of_vnpus_in_several_containers_the_pod_says_what_is_left(stage):
    annotations = bound("hami-vnpu", stage)
    key = "hami.io/Ascend310P-devices-to-allocate"
    keys = (("hami-vnpu", "vNPUs"), ("hami-vnpu", "vNPUs in several containers"))
    assert unserved("hami-vnpu", annotations, stages=[stage]) == keys
    first, second, _ = annotations[key].split(";")
    assert first == second
    after_first = annotations | {key: f";{second};", "hami.io/bind-phase": "success"}
    assert unserved("hami-vnpu", after_first, stages=[stage], **STARTED) == keys
    after_second = after_first | {key: ";;"}
    assert unserved("hami-vnpu", after_second, stages=[stage], **STARTED) == ()
    failed = after_first | {"hami.io/bind-phase": "failed"}
    assert unserved("hami-vnpu", failed, stages=[stage], **STARTED) == ()


def test_for_a_second_container_the_ascend_plugin_may_take_a_pod_that_it_has_served_until_that_runs():
    annotations = bound("hami-vnpu")
    assert fact("hami-vnpu", annotations).until_running == ()
    served = annotations | BY_NAME["hami-vnpu"].plugin.once_served(annotations)
    assert fact("hami-vnpu", served).until_running == ("vNPUs in several containers",)
    assert fact("hami-vnpu", served, phase="Running").until_running == ()
    assert fact("hami-vnpu", served, node="").until_running == ()
    assert fact("gpu-share", bound("gpu-share", **{"volcano.sh/gpu-assigned": "true"})).until_running == ()


def test_a_pod_that_ended_unserved_stays_in_sight_of_the_vgpu_plugin_alone():
    for family in CASES:
        expected = ((family, CASES[family][3]),) if family == "hami-core" else ()
        assert unserved(family, bound(family), phase="Failed") == expected
    given_up = bound("hami-core") | BY_NAME["hami-core"].plugin.given_up
    assert unserved("hami-core", given_up, phase="Failed") == ()


@pytest.mark.parametrize("family", ["gpu-share", "gpu-number", "hami-vnpu"])
def test_a_pod_that_runs_is_served_where_the_plugin_looks_at_pending_pods_only(family):
    assert unserved(family, bound(family), phase="Running") == ()


@pytest.mark.parametrize("phase", ["allocating", "success", "failed"])
@pytest.mark.parametrize(("left", "waits"), [("GPU-a,NVIDIA,1024,0:;", True), (";", False), ("", False)])
def test_the_vgpu_plugin_selects_pods_by_what_is_left_whatever_their_phase(phase, left, waits):
    annotations = bound("hami-core", **{"volcano.sh/bind-phase": phase, "volcano.sh/devices-to-allocate": left})
    assert bool(unserved("hami-core", annotations, **STARTED)) is waits
    assert bool(unserved("hami-core", annotations, phase="Failed")) is waits


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
def test_the_vgpu_plugin_selects_pods_of_no_node_or_another_one_by_their_annotations(phase):
    annotations = bound("hami-core")
    assert fact("hami-core", annotations, phase).selectable == ()
    for node in ("", "n2"):
        there = fact("hami-core", annotations, phase, node)
        assert there.selectable == (("n1", "hami-core", "2 vGPUs"),)
        assert (there.unserved == ()) is (node == "" or phase != "Pending"), "its kubelet asks the plugin of its node"
        one_left = annotations | {"volcano.sh/devices-to-allocate": ";GPU-b,NVIDIA,1024,0:"}
        assert fact("hami-core", one_left, phase, node).selectable == (("n1", "hami-core", "1 vGPU"),)
        for erased in ({"volcano.sh/devices-to-allocate": ";"}, {"volcano.sh/vgpu-node": ""}):
            assert fact("hami-core", annotations | erased, phase, node).selectable == ()


def test_a_text_that_is_no_name_of_a_node_selects_no_pod():
    annotations = bound("hami-core") | {"volcano.sh/vgpu-node": "n" * 254}
    assert fact("hami-core", annotations, node="").selectable == ()


@pytest.mark.parametrize("family", [name for name in CASES if name != "hami-core"])
def test_other_plugins_read_the_pods_of_their_node_only(family):
    assert fact(family, bound(family), node="").selectable == ()
    assert fact(family, bound(family), node="n2").selectable == ()


def test_the_lock_of_a_node_names_its_holder():
    locks = {"hami.io/mutex.lock": "2023-11-14T22:13:20Z,ns,p", "hamivgpu": "2023-11-14T22:13:20Z"}
    raw = json.dumps({"metadata": {"name": "n1", "annotations": {**locks, "else": "1"}}}).encode()
    assert dict(decode_node(raw).locks) == locks


@pytest.mark.parametrize("phase", ["Pending", "Running"])
@pytest.mark.parametrize("family", CASES)
def test_a_pod_that_kubelet_has_admitted_unserved_has_the_devices_of_another_one(family, phase):
    annotations = bound(family)
    (problem,) = fact(family, annotations, phase, **STARTED).problems
    assert problem.field == DEVICES_DIFFER
    text = "its device plugin has not served it: its containers have the devices of another pod"
    assert str(problem) == f"Pod ns/p: kubelet has admitted the pod on n1, and {text}"
    served = annotations | BY_NAME[family].plugin.once_served(annotations)
    assert fact(family, served, phase, **STARTED).problems == ()
    assert fact(family, annotations | {"deviceshare.io/served": "true"}, phase, **STARTED).problems == ()
    assert fact(family, annotations, "Failed", **STARTED).problems == ()
    assert fact(family, annotations).problems == (), "kubelet may ask yet"


@pytest.mark.parametrize(
    ("real", "others"),
    [
        ("Ascend310P-2c.1cpu-100-0_0", ""),
        ("Ascend310P-2c.1cpu-100-3_0", "Ascend310P-3"),
        ("Ascend310P-1,Ascend310P-0", "Ascend310P-0, Ascend310P-1"),
        ("no chip", ""),
    ],
)
def test_devices_that_mindcluster_reports_of_another_chip_are_a_problem(real, others):
    annotations = bound("mindcluster", **{"predicate-time": str(2**64 - 1), "huawei.com/AscendReal": real})
    found = [str(problem) for problem in fact("mindcluster", annotations, "Running").problems]
    text = f"its containers have devices of {others}, and it holds Ascend310P-0"
    assert found == ([f"Pod ns/p: kubelet has admitted the pod on n1, and {text}"] if others else [])
