"""Annotations that let a device plugin select pods that are not bound to its node: they are waited for, or removed."""

import pytest
from deviceshare_binder.core import PATIENCE
from deviceshare_binder.core.commands import Annotate, BindPod, RecordEvent, SetPodCondition
from deviceshare_binder.core.events import OtherPodChanged
from deviceshare_binder.core.views import NodeView, OtherPodView
from deviceshare_bus.messages.subjects import partition
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver
from support.binder_scene import of
from support.handoff import NOW, claim, pod, vgpus

ONE = [("n1", "hami-core", "1 vGPU")]
"""What lets the plugin of n1 select a pod with one vGPU."""


def scene(pods, claims, nodes=("n1", "n2")):
    """Return a core with these facts of pods, and claims on nodes: uid, node, grants."""
    core = BinderDriver(NOW)
    for name in nodes:
        core.node(name, NodeView(name=name))
    for each in pods:
        core.pod(each.uid, each)
    core.start()
    for name in nodes:
        core.ledger(name, [claim(uid, grants) for uid, node, grants in claims if node == name])
    return core


def begun(commands):
    return [one.uid for one in of(BindPod, commands)]


def test_annotations_of_an_earlier_decision_are_removed_before_a_pod_like_it_is_bound_there():
    old = pod("old", vgpus(1), selectable=ONE)
    core = scene([old, pod("new", vgpus(1)), pod("two", vgpus(2))], [("new", "n1", vgpus(1)), ("two", "n1", vgpus(2))])
    out = core.take(NOW)
    assert begun(out) == ["two"], "the plugin tells it from the others"
    (removal,) = of(Annotate, out)
    assert (removal.uid, removal.unbound) == ("old", True)
    assert set(removal.annotations.values()) == {None}
    assert {"volcano.sh/vgpu-node", "volcano.sh/vgpu-time", "volcano.sh/devices-to-allocate"} <= set(
        removal.annotations
    )
    core.pod("old", old)
    assert core.take(NOW) == [], "once, and the other waits until the fact shows it"
    core.pod("old", pod("old", vgpus(1)))
    assert begun(core.take(NOW)) == ["new"]


def test_pods_that_all_have_annotations_of_earlier_decisions_are_bound_one_after_the_other():
    uids = ["a", "b", "c"]
    core = scene(
        [pod(uid, vgpus(1), selectable=ONE) for uid in uids], [(uid, "n1", vgpus(1)) for uid in uids], nodes=["n1"]
    )
    out = core.take(NOW)
    assert begun(out) == []
    assert [one.uid for one in of(Annotate, out)] == uids
    for uid in uids:
        core.pod(uid, pod(uid, vgpus(1)))
    for uid in uids:
        assert begun(core.take(NOW)) == [uid]
        core.bind_answered(f"claim-{uid}", BindState.BOUND, "n1", "", NOW, {})
        core.pod(uid, pod(uid, vgpus(1), "n1", unserved=[("hami-core", "1 vGPU")]))
        assert begun(core.take(NOW)) == []
        core.pod(uid, pod(uid, vgpus(1), "n1"))


def test_a_pod_does_not_wait_for_its_own_annotations():
    core = scene([pod("old", vgpus(1), selectable=ONE)], [("old", "n1", vgpus(1))])
    assert begun(core.take(NOW)) == ["old"]


@pytest.mark.parametrize("running", [False, True])
def test_a_bound_pod_whose_annotations_name_another_node_is_waited_for_there(running):
    """On its own node only until its kubelet has admitted it."""
    keys = [] if running else [("hami-core", "1 vGPU")]
    there = pod("there", vgpus(1), "n2", running=running, unserved=keys, selectable=ONE)
    pods = [there, pod("p1", vgpus(1)), pod("p2", vgpus(1))]
    core = scene(pods, [("p1", "n1", vgpus(1)), ("p2", "n2", vgpus(1))])
    out = core.take(NOW)
    assert begun(out) == (["p2"] if running else [])
    assert of(Annotate, out) == [], "a pod that lives keeps its annotations"
    core.pod("there", None)
    assert begun(core.take(NOW)) == (["p1"] if running else ["p1", "p2"])


def test_a_pod_that_has_ended_elsewhere_is_taken_out_of_the_plugins_sight():
    ended = pod("ended", vgpus(1), "n2", ended=True, selectable=ONE)
    core = scene([ended, pod("p1", vgpus(1))], [("p1", "n1", vgpus(1))])
    out = core.take(NOW)
    assert begun(out) == []
    (given_up,) = of(Annotate, out)
    assert (given_up.uid, given_up.annotations["volcano.sh/devices-to-allocate"]) == ("ended", "")
    core.pod("ended", pod("ended", vgpus(1), "n2", ended=True))
    assert begun(core.take(NOW)) == ["p1"]


def test_a_waiting_pod_of_another_scheduler_keeps_its_annotations_for_a_minute():
    core = scene([pod("p1", vgpus(1))], [("p1", "n1", vgpus(1))])
    assert begun(core.take(NOW)) == ["p1"]
    core = scene([pod("p1", vgpus(1))], [])
    theirs = OtherPodView(uid="theirs", namespace="default", name="theirs", selectable=tuple(ONE))
    core.handle(OtherPodChanged("theirs", theirs), NOW)
    core.ledger("n1", [claim("p1", vgpus(1))])
    assert core.take(NOW) == []
    out = core.take(NOW + PATIENCE)
    (removal,) = of(Annotate, out)
    assert (removal.uid, removal.unbound) == ("theirs", True)
    reports = [*out, *core.written_reports()]
    events = {one.record.uid: one.record.message for one in reports if isinstance(one, RecordEvent)}
    assert "let the vGPU device plugin of n1 serve it as one with 1 vGPU" in events["theirs"]
    assert "waits on n1: the vGPU device plugin may serve pod default/theirs" in events["p1"]
    assert any(isinstance(one, SetPodCondition) and one.uid == "p1" for one in reports)
    core.handle(OtherPodChanged("theirs", OtherPodView(uid="theirs", namespace="default", name="theirs")), NOW)
    assert begun(core.take(NOW + PATIENCE)) == ["p1"]


def test_a_pod_of_another_scheduler_that_waits_no_more_is_not_waited_for():
    core = scene([pod("p1", vgpus(1))], [])
    theirs = OtherPodView(uid="theirs", namespace="default", name="theirs", selectable=tuple(ONE))
    core.handle(OtherPodChanged("theirs", theirs), NOW)
    core.ledger("n1", [claim("p1", vgpus(1))])
    assert begun(core.take(NOW)) == []
    core.handle(OtherPodChanged("theirs", None), NOW)
    assert begun(core.take(NOW)) == ["p1"]
    assert core.detail["stuck"] == 0


def test_a_replica_that_takes_over_a_node_clears_what_keeps_its_plugin_busy():
    core = scene([pod("p1", vgpus(1))], [])
    owned: set[int] = set()
    core.core._claims._owns_partition = owned.__contains__
    core.core._claims.shards_changed()
    theirs = OtherPodView(uid="theirs", namespace="default", name="theirs", selectable=tuple(ONE))
    core.handle(OtherPodChanged("theirs", theirs), NOW)
    assert of(Annotate, core.take(NOW + PATIENCE)) == [], "another replica does it"
    owned.add(partition("n1"))
    core.core._claims.shards_changed()
    (removal,) = of(Annotate, core.take(NOW + PATIENCE))
    assert removal.uid == "theirs"
