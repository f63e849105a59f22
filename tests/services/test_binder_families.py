"""Annotations of device families in bindings, and bugs of device families."""

import json

import pytest
from deviceshare.families import GpuNumber, register
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.model import ContainerGrant, ContainerRequest, DeviceGrant, PodFact, PodRequest
from deviceshare.objects import decode_pod
from deviceshare_binder.core.commands import BindPod, FencePod
from deviceshare_binder.core.outcomes import FOLD
from deviceshare_binder.core.views import PodView
from deviceshare_bus.cores.core import RecordStep
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver
from support.binder_scene import READY, claim, of, pod, seen, started, states
from support.families import restored_families


def test_a_claim_is_bound_with_the_annotations_of_its_families():
    grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024, 0),))
    core = started(claim(grants=(grant,)), pods=[PodView(uid="u1", namespace="default", name="pod-u1")])
    (bind,) = core.take(1_700_000_000.0)
    assert (bind.namespace, bind.name, bind.uid, bind.node) == ("default", "pod-u1", "u1", "n1")
    assert bind.annotations["volcano.sh/gpu-index"] == "2"
    core.bind_answered("c1", BindState.BOUND, "n1", "", 2.0)
    done = core.take(2.0)
    assert states(done) == {"c1": ("bound", "")}
    assert [(one.name, one.node) for one in of(RecordStep, done)] == [("bound", "n1")]
    core.outcomes_written("n1", 7)
    assert core.take(3.0) == []
    assert core.open_work == 0


def test_the_annotations_have_room_for_the_pods_init_containers():
    grant = ContainerGrant("main", 0, "hami-vnpu", (DeviceGrant("D0", 0, 3072, 0, "Ascend310P/vir01"),))
    ask = PodRequest(containers=(ContainerRequest("main", ()),), init_containers=(ContainerRequest("fetch", ()),))
    fact = PodFact(uid="u1", namespace="default", name="pod-u1", ask=ask)
    core = started(claim(grants=(grant,)), pods=[seen(fact)])
    (lock,) = core.take(1_700_000_000.0)
    core.lock_answered("c1", lock.value, 1_700_000_000.0)
    (bind,) = core.take(1_700_000_000.0)
    assert bind.annotations["hami.io/Ascend310P-devices-allocated"] == ";D0,Ascend310P,3072,0:;"


def test_pods_bound_together_are_not_equally_old():
    grants = [(ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024 + n, 0),)),) for n in range(3)]
    claims = [claim(f"c{n}", f"u{n}", grants=each) for n, each in enumerate(grants)]
    core = started(*claims, pods=[pod(f"u{n}") for n in range(3)])
    times = [int(bind.annotations["volcano.sh/predicate-time"]) for bind in core.take(1_700_000_000.0)]
    assert times == sorted(set(times)), "the plugin serves the smallest time first"


def test_a_grant_of_an_unknown_family_is_refused():
    core = started(claim(grants=(ContainerGrant("main", 0, "abacus", ()),)), pods=[pod()])
    assert of(FencePod, core.take(0.0))
    core.read_answered("c1", "", 0.1)
    assert states(core.take(0.2)) == {"c1": ("refused", "there is no device family 'abacus'")}


class AnnotationsFail(GpuNumber):
    """A family whose devices cannot be written."""

    name = "abacus"

    def annotations(self, claim, node, containers, now, init_containers=()):
        raise KeyError("beads")


class PluginFails(DevicePlugin):
    def same(self, written, found):
        raise KeyError("same")


class SameFails(GpuNumber):
    """A family whose devices cannot be compared."""

    name = "abacus"
    plugin = PluginFails()


def test_a_bug_in_a_family_refuses_its_claim_alone_and_is_named():
    with restored_families():
        register(AnnotationsFail())
        grants = (ContainerGrant("main", 0, "abacus", ()),)
        core = started(claim(grants=grants), claim("c2", "u2"), pods=[pod(), pod("u2")])
        out = core.take(0.0)
        assert [one.claim for one in of(BindPod, out)] == ["c2"]
        assert [one.claim for one in of(FencePod, out)] == ["c1"]
        core.read_answered("c1", "", 0.1)
        reason = "bug in the device family 'abacus': annotations raised KeyError: 'beads'"
        assert states(core.take(0.2)) == {"c1": ("refused", reason)}


class KeysFailPlugin(DevicePlugin):
    def keys(self, grants):
        raise KeyError("rods")


class KeysFail(GpuNumber):
    """A family whose plugin cannot tell its pods apart."""

    name = "abacus"
    plugin = KeysFailPlugin()


class ServedFailsPlugin(DevicePlugin):
    def keys(self, grants):
        return ("an abacus",)

    def served(self, annotations):
        raise KeyError("beads")


class ServedFails(GpuNumber):
    """A family that cannot tell whether its plugin has served a pod."""

    name = "abacus"
    plugin = ServedFailsPlugin()


ABACUS = (ContainerGrant("main", 0, "abacus", ()),)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_bug_in_the_keys_of_a_plugin_refuses_the_claims_of_its_family_alone(restarted):
    with restored_families():
        register(KeysFail())
        claims, pods = [claim(grants=ABACUS), claim("c2", "u2")], [pod(), pod("u2")]
        core = started(pods=pods)
        if restarted:
            core = BinderDriver()
            core.node("n1", READY)
            core.ledger("n1", claims)
            for each in pods:
                core.pod(each.uid, each)
            core.start()
        else:
            core.ledger("n1", claims)
        out = core.take(0.0)
        assert [one.claim for one in of(BindPod, out)] == ["c2"]
        assert [one.claim for one in of(FencePod, out)] == ["c1"]
        core.read_answered("c1", "", 0.1)
        reason = "bug in the device family 'abacus': plugin.keys raised KeyError: 'rods'"
        assert states(core.take(0.2)) == {"c1": ("refused", reason)}


def test_a_pod_is_in_handoff_until_its_fact_if_a_bug_hides_whether_it_was_served():
    with restored_families():
        register(ServedFails())
        core = started(claim(grants=ABACUS), claim("c2", "u2", grants=ABACUS), pods=[pod(), pod("u2")])
        assert [one.claim for one in of(BindPod, core.take(0.0))] == ["c1"]
        core.bind_answered("c1", BindState.BOUND, "n1", "", 1.0, {"some": "annotation"})
        out = [*core.take(1.0), *core.take(1.0 + FOLD)]
        assert states(out) == {"c1": ("bound", "")}
        assert not of(BindPod, out)
        core.pod("u1", pod(node="n1"))
        assert [one.claim for one in of(BindPod, core.take(2.0))] == ["c2"]


def test_a_bug_in_a_plugin_is_a_problem_of_the_bound_pod_and_does_not_end_inventory():
    with restored_families():
        register(ServedFails())
        raw = {
            "metadata": {
                "name": "a",
                "namespace": "default",
                "uid": "u1",
                "annotations": {"volcano.sh/gpu-index": "0"},
            },
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "main", "resources": {"limits": {"volcano.sh/gpu-number": "1"}}}],
            },
            "status": {"phase": "Pending", "startTime": "2023-11-14T22:13:20Z"},
        }
        fact = decode_pod(json.dumps(raw).encode())
        assert {grant.family for grant in fact.held} == {"gpu-number", "abacus"}
        assert [family for family, _ in fact.unserved] == ["gpu-number"]
        (problem,) = fact.problems
        assert "bug in the device family 'abacus': plugin.served, selectable or keys raised KeyError" in str(problem)


def test_a_bug_in_a_family_does_not_refuse_a_bound_pod():
    with restored_families():
        register(SameFails())
        core = started(claim(grants=(ContainerGrant("main", 0, "abacus", ()),)), pods=[pod()])
        assert of(BindPod, core.take(0.0))
        core.bind_answered("c1", BindState.ALREADY, "n1", "", 1.0, {"volcano.sh/vgpu-ids-new": "x"})
        (outcome,) = states(core.take(1.0)).values()
        assert outcome == (
            "bound",
            "bug in the device family 'abacus': annotations or plugin.same raised KeyError: 'same'",
        )
