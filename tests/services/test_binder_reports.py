"""The reports about pods: their content, their order, and their bounds."""

import pytest
from deviceshare.model import Claim, ContainerGrant, DeviceGrant, Explanation
from deviceshare_binder.core import reports
from deviceshare_binder.core.commands import RecordEvent, SetPodCondition
from deviceshare_binder.core.plugin_handoff import Stuck
from deviceshare_binder.core.reports import Reports
from deviceshare_binder.core.views import PodView
from deviceshare_cluster.interface import EventRecord

STUCK = Stuck("served-never", "n1", ["1 vGPU"], ["the vGPU device plugin"], ["c"])
SCHEDULED = "Successfully assigned default/a to n1"


def explanation(uid, message, decision="pending"):
    return Explanation(uid=uid, namespace="default", name=uid, at=0.0, decision=decision, message=message)


def knowing(*pods):
    return Reports({one.uid: one for one in pods})


def pod(uid, **fields):
    return PodView(uid=uid, namespace="default", name=uid, **fields)


def conditions(one):
    """Take all reports; return the conditions: uid, reason, message, and whether an Event has the same message."""
    taken = one.take(1000, 5.0)
    events = {(each.record.uid, each.record.message) for each in taken if isinstance(each, RecordEvent)}
    return [
        (each.uid, each.reason, each.message, (each.uid, each.message) in events)
        for each in taken
        if isinstance(each, SetPodCondition)
    ]


def uids(commands):
    return [each.uid if isinstance(each, SetPodCondition) else each.record.uid for each in commands]


def test_the_newest_message_is_reported_once_and_again_only_when_it_changes():
    one = knowing(pod("a"), pod("g", gates=("wait",)))
    one.explained(explanation("a", "old"), event=True)
    one.explained(explanation("g", "gated"), event=False)
    one.explained(explanation("a", "new"), event=True)
    assert one.waiting == 2
    assert conditions(one) == [("g", "SchedulingGated", "gated", False), ("a", "Unschedulable", "new", True)]
    one.explained(explanation("a", "new"), event=True)
    assert conditions(one) == []
    one.explained(explanation("a", "other"), event=True)
    assert conditions(one) == [("a", "Unschedulable", "other", True)]


def test_a_wait_for_a_device_plugin_is_reported_whether_the_claim_is_explained_before_or_after():
    one = knowing(pod("served-never"), pod("a"))
    claim = Claim(id="c", uid="a", namespace="default", name="a")
    one.stuck(STUCK, pod("served-never", node="n1"), [claim])
    one.explained(explanation("a", "placed", "placed"), event=True)
    ((uid, _, message, _),) = conditions(one)
    assert uid == "a"
    assert "has not served pod default/served-never yet, which has 1 vGPU" in message
    one.explained(explanation("a", "placed", "placed"), event=True)
    assert conditions(one) == [], "once"
    one.bound(claim, "n1")
    one.explained(explanation("a", "placed", "placed"), event=True)
    assert conditions(one) == []


def test_a_report_that_failed_is_made_again_with_the_next_decision():
    one = knowing(pod("a"))
    one.explained(explanation("a", "why"), event=True)
    ((uid, _, message, _),) = conditions(one)
    one.failed(uid, message)
    one.explained(explanation("a", "why"), event=True)
    assert conditions(one) == [("a", "Unschedulable", "why", True)]


def test_an_explanation_may_come_before_its_pod_and_goes_when_the_pod_is_placed():
    pods = {}
    one = Reports(pods)
    one.explained(explanation("a", "early"), event=True)
    one.explained(explanation("b", "early"), event=True)
    assert conditions(one) == []
    for uid in "ab":
        pods[uid] = pod(uid)
        one.pod(uid, pods[uid])
    one.explained(explanation("b", "placed on n1", decision="placed"), event=True)
    assert conditions(one) == [("a", "Unschedulable", "early", True)]


def test_a_bound_pod_gets_its_node_reported_and_no_longer_a_reason():
    one = knowing(pod("a"))
    one.explained(explanation("a", "why not"), event=True)
    one.bound(Claim(id="c", uid="a", namespace="default", name="a"), "n1")
    (scheduled,) = one.take(1000, 5.0)
    assert scheduled == RecordEvent(
        record=EventRecord("Pod", "default", "a", "a", False, "Scheduled", SCHEDULED, 5.0, once=True)
    )
    assert one.waiting == 0


@pytest.mark.parametrize("view", [None, {"node": "n1"}, {"ended": True}])
def test_what_was_explained_of_a_pod_that_waits_no_more_is_forgotten(view):
    known = {}
    one = Reports(known)
    one.explained(explanation("a", "no room"), event=True)
    one.pod("a", None if view is None else pod("a", **view))
    known["a"] = pod("a")
    one.pod("a", known["a"])
    assert conditions(one) == []


def test_explanations_of_deleted_pods_are_bounded(monkeypatch):
    monkeypatch.setattr(reports, "MAX_UNKNOWN", 3)
    pods = {}
    one = Reports(pods)
    for number in range(10):
        one.explained(explanation(f"gone-{number}", "the pod is gone"), event=True)
    for number in range(10):
        pods[f"gone-{number}"] = pod(f"gone-{number}")
        one.pod(f"gone-{number}", pods[f"gone-{number}"])
    assert [uid for uid, *_ in conditions(one)] == ["gone-7", "gone-8", "gone-9"]


def test_a_binding_that_the_device_plugin_will_not_serve_comes_with_a_warning():
    one = knowing(pod("a"))
    grants = tuple(
        ContainerGrant(name, at, "hami-core", (DeviceGrant("GPU-1", 0, 10, 0),)) for at, name in enumerate(("x", "y"))
    )
    one.bound(Claim(id="1", uid="a", namespace="default", name="a", grants=grants), "n1")
    scheduled, warned = (command.record for command in one.take(1000, 5.0))
    assert (scheduled.message, scheduled.warning) == (SCHEDULED, False)
    assert warned.warning
    assert "vGPUs in 2 containers (x, y)" in warned.message


def test_bindings_and_reasons_are_reported_in_turn_within_the_number_of_writes():
    one = knowing(*(pod(uid) for uid in "abcdef"))
    for uid in "abc":
        one.explained(explanation(uid, "why"), event=True)
        one.bound(Claim(id=f"c-{uid}", uid=f"bound-{uid}", namespace="default", name=f"bound-{uid}"), "n1")
    assert [uids(one.take(3, 5.0)) for _ in range(4)] == [
        ["bound-a", "a", "a"],
        ["bound-b", "b", "b"],
        ["bound-c", "c", "c"],
        [],
    ]
    one.explained(explanation("d", "why"), event=False)
    one.explained(explanation("e", "why"), event=False)
    assert uids(one.take(2, 5.0)) == ["d", "e"]


def test_why_a_pod_waited_is_not_reported_once_it_has_a_claim_and_again_if_that_is_removed():
    one = knowing(pod("a"), pod("b"))
    one.explained(explanation("a", "no room"), event=True)
    one.claimed(set(), {"a"})
    assert (one.waiting, conditions(one)) == (0, []), "read before the claim"
    one.claimed(set(), {"b"})
    one.explained(explanation("b", "no room"), event=True)
    assert (one.waiting, conditions(one)) == (0, []), "read after the claim"
    one.claimed({"a"}, {"other"})
    assert conditions(one) == [("a", "Unschedulable", "no room", True)], "its claim was removed"
    one.bound(Claim(id="c", uid="b", namespace="default", name="b"), "n1")
    one.claimed({"b"}, set())
    assert [each for each in conditions(one) if each[0] == "b"] == [], "it was bound"


def test_a_pod_with_two_claims_waits_again_when_both_are_removed():
    one = knowing(pod("a"))
    one.claimed(set(), {"a"})
    one.claimed(set(), {"a"})
    one.explained(explanation("a", "no room"), event=True)
    one.claimed({"a"}, set())
    assert conditions(one) == []
    one.claimed({"a"}, set())
    assert conditions(one) == [("a", "Unschedulable", "no room", True)]


def test_an_explanation_that_a_claim_overrules_leaves_the_report_that_the_claim_waits():
    one = knowing(pod("served-never"), pod("a"))
    claim = Claim(id="c", uid="a", namespace="default", name="a")
    one.claimed(set(), {"a"})
    one.stuck(STUCK, pod("served-never", node="n1"), [claim])
    one.explained(explanation("a", "no room"), event=True)
    ((uid, _, message, _),) = conditions(one)
    assert (uid, "has not served pod" in message) == ("a", True)
    one.claimed({"a"}, set())
    assert conditions(one) == [("a", "Unschedulable", "no room", True)]


def test_a_message_that_comes_before_its_pod_is_overruled_by_a_claim_as_well():
    pods = {}
    one = Reports(pods)
    one.explained(explanation("a", "no room"), event=True)
    one.claimed(set(), {"a"})
    pods["a"] = pod("a")
    one.pod("a", pods["a"])
    assert conditions(one) == []
    one.claimed({"a"}, set())
    assert conditions(one) == [("a", "Unschedulable", "no room", True)]


def test_who_takes_reports_over_writes_all_of_them_and_repeats_few_events(monkeypatch):
    monkeypatch.setattr(reports, "MAX_REPEATED", 2)
    one = knowing(*map(pod, "abcd"))
    one.explained(explanation("a", "first"), event=True)
    assert conditions(one) == [("a", "Unschedulable", "first", True)]
    one.hand_over()
    # Another replica reports now, among others another message of a, and the first one again.
    for uid in "bcd":
        one.explained(explanation(uid, "waits"), event=True)
    one.take_over()
    found = {uid: event for uid, _, _, event in conditions(one)}
    assert found == {"a": False, "b": False, "c": True, "d": True}
