"""Which namespaces a queue serves, and PodGroups that write their phase themselves, in the placement core."""

import json

import pytest
from deviceshare.model import GroupKey, NamespaceFact, PodGroupFact, QueueFact
from deviceshare.objects import decode_podgroup
from deviceshare.scheduler.cluster_state import ClusterState
from msgspec.structs import replace
from support.builders import MEMORY, node, pod, vgpu
from support.played import Played

GANG = PodGroupFact(key=GroupKey("ns/g"), uid="g", queue="q", min_member=2, min_resources={MEMORY: 120})
WHY = "namespace 'ns' may not use queue 'q', which serves these namespaces: "
SMALL = QueueFact(name="q", capability={MEMORY: 100})


def claimed(out):
    return sum(len(write.message.claims) for each in out.writes for write in each.writes)


@pytest.mark.parametrize(
    ("served", "words"),
    [
        ({"namespaces": ("a", "b")}, "a, b"),
        ({"namespaces": ()}, "none"),
        ({"namespaces": (), "namespace_labels": (("team", "x"),)}, "those labelled team=x"),
    ],
)
@pytest.mark.parametrize("admitted", [False, True])
def test_a_group_of_another_namespace_waits_until_the_queue_serves_it(served, words, admitted):
    played = Played()
    played.put(QueueFact(name="q", **served), node("n1"))
    played.put(replace(GANG, admitted=admitted, phase="Inqueue" if admitted else ""))
    for at in range(2):
        played.put(pod(f"p{at}", vgpu(1, 60), gang="g"))
    out = played.tick()
    assert claimed(out) == 0
    assert f"PodGroup ns/g: {WHY}{words}" in out.messages
    if "namespace_labels" in served:
        played.put(NamespaceFact(name="ns", labels=(("stage", "dev"), ("team", "x"))))
    else:
        played.put(QueueFact(name="q", namespaces=("ns",)))
    assert claimed(played.tick()) == 2


def test_a_pod_without_a_group_waits_with_the_same_reason():
    played = Played()
    played.put(QueueFact(name="q", namespaces=("a",)), node("n1"), replace(pod("p", vgpu(1, 60)), queue="q"))
    out = played.tick()
    assert (claimed(out), out.messages) == (0, [f"Pod ns/p: {WHY}a"])
    played.put(QueueFact(name="q"))
    assert claimed(played.tick()) == 1


def test_a_namespace_whose_labels_change_is_no_work_for_the_others(monkeypatch):
    """While CLUSTER is read, each of 1,000 namespaces would otherwise visit 200,000 pods."""
    checked = []
    reconsider = ClusterState.reconsider
    monkeypatch.setattr(ClusterState, "reconsider", lambda self, key: checked.append(key) or reconsider(self, key))
    played = Played()
    played.put(QueueFact(name="q", namespace_labels=(("team", "x"),)))
    for at in range(20):
        played.put(replace(pod(f"p{at}", vgpu(1, 60)), queue="q", namespace=f"ns{at}"))
    played.tick()
    for labels in ((), (("team", "y"),)):
        checked.clear()
        for at in range(20):
            played.put(NamespaceFact(name=f"ns{at}", labels=labels))
        assert claimed(played.tick()) == 0
        assert len(checked) <= 20, "one pass for all of them"
    checked.clear()
    played.put(NamespaceFact(name="ns3", labels=(("team", "y"),), revision="another"))
    played.tick()
    assert checked == []
    played.put(node("n1"))
    played.tick()
    checked.clear()
    played.put(NamespaceFact(name="ns3", labels=(("team", "x"),)))
    assert played.core.open_work
    assert claimed(played.tick()) == 1
    assert set(checked) == {"pod/uid-p3"}
    played.remove("namespace", "ns3")
    assert played.core.scheduler.cluster.relabelled == {"ns3"}


def test_a_foreign_group_reserves_nothing_in_the_queue():
    played = Played()
    played.put(QueueFact(name="q", capability={MEMORY: 120}, namespaces=("other",)), node("n1"))
    played.put(replace(GANG, admitted=True, phase="Inqueue"))
    other = PodGroupFact(key=GroupKey("other/g"), uid="o", queue="q", min_member=1, min_resources={MEMORY: 120})
    played.put(other)
    out = played.tick()
    assert [each.decision for each in out.explanations if each.uid == "o"] == ["admitted"]


def raw(phase, signature="", queue="q", memory="120"):
    spec = {"minMember": 2, "queue": queue, "minResources": {MEMORY: memory}}
    annotations = {"deviceshare.io/admission": signature}
    metadata = {"name": "g", "namespace": "ns", "uid": "g", "annotations": annotations}
    return json.dumps({"metadata": metadata, "spec": spec, "status": {"phase": phase}}).encode()


KEYS = (b"a key of at least 16 bytes",)


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_a_group_that_writes_its_phase_is_not_admitted(phase):
    played = Played()
    played.put(SMALL, node("n1"), decode_podgroup(raw(phase, "forged"), KEYS))
    for at in range(2):
        played.put(pod(f"p{at}", vgpu(1, 60), gang="g"))
    out = played.tick()
    assert claimed(out) == 0
    assert [each.decision for each in out.explanations if each.uid == "g"] == ["rejected"]
    # It reserves nothing.
    small = PodGroupFact(key=GroupKey("ns/h"), uid="h", queue="q", min_member=1, min_resources={MEMORY: 100})
    played.put(small)
    assert [each.decision for each in played.tick().explanations if each.uid == "h"] == ["admitted"]


def test_a_group_whose_pods_run_needs_no_signature():
    """It started before signing was enabled, or Volcano started it."""
    played = Played()
    played.put(SMALL, node("n1"), decode_podgroup(raw("Running"), KEYS))
    for at in range(2):
        played.put(pod(f"p{at}", vgpu(1, 60), gang="g", node="n1"))
    assert [each.decision for each in played.tick().explanations if each.uid == "g"] == []


@pytest.mark.parametrize("restarted", [False, True])
def test_a_group_that_was_placed_at_once_and_has_ended_reserves_nothing(restarted):
    """It is not signed, since no explanation says that it was admitted."""
    first = [SMALL, node("n1"), decode_podgroup(raw("Pending", memory="100"), KEYS)]
    played = Played()
    played.put(*first, *(pod(f"p{at}", vgpu(1, 50), gang="g") for at in range(2)))
    out = played.tick()
    assert claimed(out) == 2
    played.written(out)
    if restarted:
        played = Played()
        played.put(*first)
    for phase in ("Running", "Completed"):
        ended = phase == "Completed"
        for at in range(2):
            played.put(replace(pod(f"p{at}", vgpu(1, 50), gang="g", node="n1"), ended=ended, succeeded=ended))
        played.put(decode_podgroup(raw(phase, memory="100"), KEYS))
        out = played.tick()
        assert [each.decision for each in out.explanations if each.uid == "g"] == []
        played.written(out)
    played.put(PodGroupFact(key=GroupKey("ns/h"), uid="h", queue="q", min_member=1, min_resources={MEMORY: 100}))
    assert [each.decision for each in played.tick().explanations if each.uid == "h"] == ["admitted"]
