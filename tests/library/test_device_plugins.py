"""Which pods device plugins may still serve, as their annotations say, and that what is written when one is served is
read as that.
"""

import json

import pytest
from deviceshare.claims import Claim, ContainerGrant, DeviceGrant
from deviceshare.families import BY_NAME
from deviceshare.objects import decode_node, decode_pod

CASES = {
    "hami-core": ({"volcano.sh/vgpu-number": "2"}, ("GPU-a", "GPU-b"), "", "2 vGPUs"),
    "gpu-share": ({"volcano.sh/gpu-memory": "1024"}, ("1",), "", "1024 volcano.sh/gpu-memory"),
    "gpu-number": ({"volcano.sh/gpu-number": "2"}, ("0", "1"), "", "2 volcano.sh/gpu-number"),
    "hami-vnpu": ({"huawei.com/Ascend310P": "1"}, ("D0",), "Ascend310P/vir01", "vNPUs"),
    "mindcluster": ({"huawei.com/npu-core": "2"}, ("Ascend310P-0",), "vir02", "2 huawei.com/npu-core"),
}


def bound(family, **changes):
    """Return the annotations with which a pod of the family is bound."""
    _, ids, detail, _ = CASES[family]
    cores = 2 if family == "mindcluster" else 0
    devices = tuple(DeviceGrant(each, at, 1024, cores, detail) for at, each in enumerate(ids))
    claim = Claim(id="c", uid="u", namespace="ns", name="p", grants=(ContainerGrant("c0", 0, family, devices),))
    return BY_NAME[family].annotations(claim, "n1", ["c0"], 1_700_000_000.0) | changes


def unserved(family, annotations, phase="Pending", node="n1"):
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
            "containers": [{"name": "c0", "resources": {"limits": CASES[family][0], "requests": CASES[family][0]}}],
        },
        "status": {"phase": phase},
    }
    return decode_pod(json.dumps(pod).encode()).unserved


@pytest.mark.parametrize("family", CASES)
def test_a_bound_pod_waits_for_its_plugin_until_that_has_served_it(family):
    annotations = bound(family)
    assert unserved(family, annotations) == ((family, CASES[family][3]),)
    assert unserved(family, annotations, node="") == (), "nobody looks at it before it is bound"
    assert unserved(family, annotations | BY_NAME[family].plugin.once_served(annotations)) == ()


@pytest.mark.parametrize("family", CASES)
def test_what_is_served_is_served_once_and_keeps_its_devices(family):
    plugin, annotations = BY_NAME[family].plugin, bound(family)
    after = annotations | plugin.once_served(annotations)
    assert plugin.once_served(after) == {}
    assert plugin.same(annotations, after)
    assert not plugin.same(annotations, {})


def test_a_pod_that_ended_unserved_stays_in_sight_of_the_vgpu_plugin_alone():
    for family in CASES:
        expected = ((family, CASES[family][3]),) if family == "hami-core" else ()
        assert unserved(family, bound(family), phase="Failed") == expected
    given_up = bound("hami-core") | BY_NAME["hami-core"].plugin.given_up
    assert unserved("hami-core", given_up, phase="Failed") == ()


@pytest.mark.parametrize("family", ["gpu-share", "gpu-number", "hami-vnpu"])
def test_a_pod_that_runs_is_served_where_the_plugin_looks_at_pending_pods_only(family):
    assert unserved(family, bound(family), phase="Running") == ()


@pytest.mark.parametrize(("phase", "waits"), [("allocating", True), ("success", False), ("failed", False)])
def test_the_vgpu_plugin_says_itself_when_it_is_done(phase, waits):
    assert bool(unserved("hami-core", bound("hami-core", **{"volcano.sh/bind-phase": phase}))) is waits


def test_a_node_tells_who_has_locked_it():
    locks = {"hami.io/mutex.lock": "2023-11-14T22:13:20Z,ns,p", "hamivgpu": "2023-11-14T22:13:20Z"}
    raw = json.dumps({"metadata": {"name": "n1", "annotations": {**locks, "else": "1"}}}).encode()
    assert dict(decode_node(raw).locks) == locks
