"""The statuses of PodGroups and Queues are those of Volcano, and are written only when they change."""

from collections import Counter

import hypothesis.strategies as st
import pytest
from deviceshare.model import Explanation
from deviceshare_binder.core.commands import GroupCondition, RecordEvent
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.views import PodGroupView, PodView, QueueView
from hypothesis import given


def pod(uid, node="", group="ns/gang", **state):
    return PodView(uid=uid, namespace="ns", name=uid, node=node, group=group, **state)


WAITS, BOUND, RUNS = {}, {"node": "n1"}, {"node": "n1", "running": True}
SUCCEEDED, FAILED = {"node": "n1", "ended": True, "succeeded": True}, {"node": "n1", "ended": True}


def reported(groups):
    return {one.kind: one for one in groups.take(100)}


def explanation(uid, message, decision="pending", **rest):
    return Explanation(uid=uid, namespace="ns", name="x", at=1.0, decision=decision, message=message, **rest)


def following(*pods, min_member=2, phase="Inqueue", why=""):
    groups = Groups()
    groups.queue("default", QueueView(name="default"))
    groups.group("ns/gang", PodGroupView(key="ns/gang", uid="g", min_member=min_member, phase=phase))
    for number, fields in enumerate(pods):
        groups.pod(str(number), pod(str(number), **fields))
    if why:
        groups.explained(explanation("0", why))
    return groups


@pytest.mark.parametrize(
    ("pods", "phase", "counts", "condition"),
    [
        ((), "Inqueue", (0, 0, 0), ""),
        ((WAITS, WAITS), "Inqueue", (0, 0, 0), "Unschedulable"),
        ((WAITS, BOUND), "Inqueue", (0, 0, 0), "Unschedulable"),
        ((WAITS, RUNS), "Unknown", (1, 0, 0), "Unschedulable"),
        ((WAITS, BOUND, RUNS), "Running", (1, 0, 0), "Scheduled"),
        ((BOUND, BOUND), "Running", (0, 0, 0), "Scheduled"),
        ((RUNS, SUCCEEDED), "Running", (1, 1, 0), "Scheduled"),
        ((SUCCEEDED, FAILED), "Completed", (0, 1, 1), "Scheduled"),
    ],
)
def test_the_status_of_a_group_shows_its_phase_and_counts(pods, phase, counts, condition):
    one = reported(following(*pods, why="0/1 nodes are available"))["PodGroup"]
    assert (one.namespace, one.name, one.uid) == ("ns", "gang", "g")
    assert dict(one.status) == {"phase": phase} | dict(zip(("running", "succeeded", "failed"), counts, strict=True))
    assert (one.condition.type if one.condition else "") == condition


@pytest.mark.parametrize(
    ("phase", "pods", "then"),
    [
        ("Inqueue", (BOUND, WAITS), "Inqueue"),
        ("Running", (BOUND, WAITS), "Pending"),
        ("Running", (RUNS, WAITS), "Unknown"),
        ("Unknown", (WAITS, WAITS), "Pending"),
        ("Running", (RUNS, FAILED, WAITS), "Unknown"),
    ],
)
def test_a_gang_that_lost_pods_has_to_be_let_in_again(phase, pods, then):
    groups = following(*pods, phase=phase, why="0/1 nodes are available")
    assert dict(reported(groups)["PodGroup"].status)["phase"] == then


def test_a_running_gang_that_lost_pods_is_unknown_and_shows_how_many_are_placed():
    one = reported(following(RUNS, FAILED, phase="Running"))["PodGroup"]
    assert dict(one.status)["phase"] == "Unknown"
    assert one.condition == GroupCondition("Unschedulable", "NotEnoughResources", "1 of 2 pods are placed")


def test_a_gang_that_is_bound_pod_by_pod_stays_inqueue_until_it_has_its_minimum():
    assert dict(reported(following(RUNS, WAITS))["PodGroup"].status)["phase"] == "Inqueue"
    assert dict(reported(following(RUNS, BOUND))["PodGroup"].status)["phase"] == "Running"


def test_a_gang_that_is_ready_is_not_unschedulable():
    groups = following(WAITS, min_member=0)
    groups.explained(explanation("0", "0/1 nodes are available", gang_ready=True))
    assert reported(groups)["PodGroup"].condition is None


def test_the_reason_of_a_gang_that_waits_is_in_its_condition():
    one = reported(following(WAITS, WAITS, why="pod group ns/gang is not ready"))["PodGroup"]
    assert one.condition == GroupCondition("Unschedulable", "NotEnoughResources", "pod group ns/gang is not ready")


def test_a_group_is_pending_until_it_is_let_into_its_queue():
    groups = following(phase="Pending")
    assert dict(reported(groups)["PodGroup"].status)["phase"] == "Pending"
    groups.decided(explanation("g", "queue 'default' has enough", "rejected", group="ns/gang"))
    one = reported(groups)["PodGroup"]
    assert dict(one.status)["phase"] == "Pending"
    assert one.condition == GroupCondition("Unschedulable", "NotEnoughResources", "queue 'default' has enough")
    groups.decided(explanation("g", "let in", "admitted", group="ns/gang"))
    one = reported(groups)["PodGroup"]
    assert (dict(one.status)["phase"], one.condition) == ("Inqueue", None)


def test_a_decision_about_a_group_does_not_apply_to_its_successor():
    groups = following(phase="Pending")
    groups.decided(explanation("of-another", "let in", "admitted", group="ns/gang"))
    assert dict(reported(groups)["PodGroup"].status)["phase"] == "Pending"


def test_a_group_that_gave_its_promise_back_has_an_event_and_the_reason_in_its_condition():
    groups = following(WAITS, why="0/1 nodes are unavailable.")
    text = "gave back what queue 'q' promised it, for others: it is too large"

    def decided(uid, returned):
        groups.decided(explanation(uid, "let in", "admitted", group="ns/gang", returned=returned))
        taken = groups.take(100)
        events = [each.record for each in taken if isinstance(each, RecordEvent)]
        conditions = [each.condition.message for each in taken if getattr(each, "kind", "") == "PodGroup"]
        return [(each.kind, each.name, each.uid, each.reason, each.message) for each in events], conditions

    reason = "0/1 nodes are unavailable; the PodGroup gave back what its queue promised it"
    event = ("PodGroup", "gang", "g", "PromiseReturned", f"The PodGroup {text}")
    assert decided("g", text) == ([event], [reason])
    assert decided("g", text) == ([], [])
    assert decided("g", "") == ([], ["0/1 nodes are unavailable."])
    assert decided("of-another", text) == ([], [])


def test_a_group_that_gave_its_promise_back_and_is_rejected_then_has_that_reason():
    groups = following(WAITS, phase="Pending", why="0/1 nodes are unavailable.")
    groups.decided(explanation("g", "let in", "admitted", group="ns/gang", returned="gave back"))
    groups.take(100)
    groups.decided(explanation("g", "queue 'q' has not enough", "rejected", group="ns/gang"))
    assert reported(groups)["PodGroup"].condition.message == "queue 'q' has not enough"


def test_a_gang_without_enough_pods_has_the_reason_of_volcano():
    groups = following(WAITS)
    groups.explained(explanation("0", "1 of 2 pods exist", gang_reason="NotEnoughTasks"))
    assert reported(groups)["PodGroup"].condition == GroupCondition(
        "Unschedulable", "NotEnoughTasks", "1 of 2 pods exist"
    )


def test_an_unchanged_status_is_not_written_again():
    groups = following(BOUND, BOUND)
    assert reported(groups).keys() == {"PodGroup", "Queue"}
    groups.pod("0", pod("0", node="n1"))
    groups.explained(explanation("0", "old news"))
    groups.queue("default", QueueView(name="default"))
    assert reported(groups) == {}
    assert groups.waiting == 0


def test_pods_may_come_before_their_group_and_go_after_it():
    groups = Groups()
    groups.pod("a", pod("a", **RUNS))
    assert reported(groups) == {}
    groups.queue("default", QueueView(name="default"))
    groups.group("ns/gang", PodGroupView(key="ns/gang", uid="g"))
    assert dict(reported(groups)["PodGroup"].status)["running"] == 1
    groups.group("ns/gang", None)
    groups.pod("a", None)
    groups.pod("single", pod("single", group="pod/single"))
    assert reported(groups).keys() <= {"Queue"}


def seen(groups, phase):
    groups.group("ns/gang", PodGroupView(key="ns/gang", uid="g", min_member=2, phase=phase))
    return reported(groups).get("PodGroup")


def test_a_phase_that_another_writer_changed_is_written_again():
    groups = following(BOUND, BOUND)
    assert dict(reported(groups)["PodGroup"].status)["phase"] == "Running"
    assert seen(groups, "Running") is None
    assert dict(seen(groups, "Pending").status)["phase"] == "Running"
    assert seen(groups, "Running") is None
    assert dict(seen(groups, "").status)["phase"] == "Running"


def test_a_phase_that_arrives_late_is_not_written_again():
    groups = following(phase="Pending")
    reported(groups)
    groups.decided(explanation("g", "let in", "admitted", group="ns/gang"))
    assert dict(reported(groups)["PodGroup"].status)["phase"] == "Inqueue"
    for number in range(2):
        groups.pod(str(number), pod(str(number), **BOUND))
    assert dict(reported(groups)["PodGroup"].status)["phase"] == "Running"
    assert seen(groups, "Inqueue") is None
    assert seen(groups, "Running") is None


def test_the_status_of_a_queue_comes_once_after_those_of_its_groups():
    groups = following(BOUND, BOUND)
    groups.group("ns/other", PodGroupView(key="ns/other", uid="o", phase="Inqueue"))
    assert [one.kind for one in groups.take(100)] == ["PodGroup", "PodGroup", "Queue"]


class Unlisted(dict):
    """A mapping whose values cannot be listed."""

    def values(self):
        raise AssertionError("a loop over all PodGroups")

    __iter__ = items = keys = values


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["one", "two", None]), st.integers(0, 3))))
def test_phases_are_counted_without_a_loop_over_all_groups(changes):
    groups, queue_of, phase_of, shown = Groups(), {}, {}, {}
    groups._groups = Unlisted()
    for name in ("one", "two"):
        groups.queue(name, QueueView(name=name))
    for name, queue, pods in changes:
        key = f"ns/{name}"
        groups.group(key, queue and PodGroupView(key=key, uid=f"{name}-{queue}", queue=queue, min_member=2))
        queue_of[name] = queue
        for number in range(pods):
            groups.pod(f"{name}{number}", pod(f"{name}{number}", group=key, **BOUND))
        for status in groups.take(100):
            if status.kind == "Queue":
                shown[status.name] = dict(status.status)
            else:
                phase_of[status.name] = dict(status.status)["phase"]
        for queue_name in ("one", "two"):
            there = Counter(phase_of[name] for name, where in queue_of.items() if where == queue_name)
            assert {phase: count for phase, count in shown[queue_name].items() if isinstance(count, int) and count} == {
                phase.lower(): count for phase, count in there.items()
            }


def test_admitted_groups_that_never_come_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr("deviceshare_binder.core.groups.MAX_UNKNOWN", 3)
    groups = Groups()
    for number in range(10):
        groups.decided(explanation(f"g{number}", "admitted", "admitted", group=f"ns/g{number}"))
    for number in range(10):
        groups.group(f"ns/g{number}", PodGroupView(key=f"ns/g{number}", uid=f"g{number}", phase="Pending"))
    phases = {one.name: dict(one.status)["phase"] for one in groups.take(100)}
    assert [name for name, phase in phases.items() if phase == "Inqueue"] == ["g7", "g8", "g9"]
