"""The pace of reports, the retries of writes to the cluster, and writes that the cluster refuses for good."""

import pytest
from deviceshare.model import Claim, Explanation
from deviceshare_binder.core import cluster_writes, reports
from deviceshare_binder.core.cluster_writes import ClusterWrites
from deviceshare_binder.core.commands import Annotate, RecordEvent, SetPodCondition, SetStatus
from deviceshare_binder.core.events import ClusterWritten
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.reporting import REPORT_INTERVAL, Reporting
from deviceshare_binder.core.reports import Reports
from deviceshare_binder.core.views import PodView
from deviceshare_bus.cores.core import Count, Log, Now
from deviceshare_cluster.interface import EventRecord
from support.binder import BinderDriver


def claim(uid):
    return Claim(id=f"c-{uid}", uid=uid, namespace="default", name=uid)


def condition(name="a", message="why"):
    return SetPodCondition(namespace="ns", name=name, uid=name, reason="Unschedulable", message=message, at=1.0)


def event(name="a"):
    return RecordEvent(record=EventRecord("Pod", "ns", name, name, True, "FailedScheduling", "why", 1.0))


def status(phase, name="gang"):
    return SetStatus(kind="PodGroup", namespace="ns", name=name, uid="g", status=(("phase", phase),))


UNLOCK = Annotate(kind="Node", name="n1", annotations={"lock": None}, expected={"lock": "ours"})


def sent(writes, now):
    return [type(one) for one in writes.take(now)]


@pytest.mark.parametrize(("busy", "at_once"), [(False, 40), (True, 10)])
def test_reports_are_written_in_portions_that_are_smaller_while_pods_are_bound(busy, at_once):
    waiting, writes = Reports({}), ClusterWrites()
    for number in range(100):
        waiting.bound(claim(f"p{number}"), "n1")
    reporting = Reporting(waiting, Groups(), writes, per_second=40 / REPORT_INTERVAL)
    reporting.tick(Now(0.0, 5.0), busy=busy)
    first = writes.take(0.0)
    assert [one.record.name for one in first] == [f"p{number}" for number in range(at_once)]
    assert {(one.record.kind, one.record.reason, one.record.warning, one.record.once) for one in first} == {
        ("Pod", "Scheduled", False, True)
    }
    assert waiting.waiting == 100 - at_once
    reporting.tick(Now(99.0, 99.0), busy=busy)
    assert writes.take(99.0) == [], "the next portion waits for all answers"
    for one in first:
        writes.written(one)
        reporting.answered(one.token, Now(100.0, 100.0))
    assert reporting.next_due() == 100.0 + REPORT_INTERVAL
    reporting.tick(Now(100.0, 100.0), busy=busy)
    assert writes.take(100.0) == []
    reporting.tick(Now(101.0, 101.0), busy=busy)
    assert len(writes.take(101.0)) == at_once


def test_an_event_that_fails_is_retried_with_a_growing_pause_and_dropped_after_five_attempts():
    writes, now, pauses = ClusterWrites(), 0.0, []
    writes.add(event())
    for attempt in range(5):
        (one,) = writes.take(now)
        dropped = writes.failed(one, now, 0.0, final=False)
        assert dropped == ([one] if attempt == 4 else [])
        if not dropped:
            pauses.append(writes.next_due() - now)
            now = writes.next_due()
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert (writes.open, writes.take(now + 1000)) == (0, [])


@pytest.mark.parametrize(
    ("write", "first", "longest"), [(UNLOCK, 0.1, 5.0), (condition(), 0.1, 5.0), (status("Running"), 0.5, 30.0)]
)
def test_annotations_conditions_and_statuses_are_retried_while_the_cluster_does_not_answer(write, first, longest):
    writes, now, pauses = ClusterWrites(), 0.0, []
    writes.add(write)
    for _ in range(50):
        (one,) = writes.take(now)
        assert writes.failed(one, now, 0.0, final=False) == []
        pauses.append(writes.next_due() - now)
        now = writes.next_due()
    assert (pauses[0], pauses[-1]) == pytest.approx((first, longest))
    assert writes.open == 1


@pytest.mark.parametrize(
    ("write", "attempts"), [(condition(), 15), (event(), 5), (UNLOCK, 15), (status("Running"), 15)]
)
def test_writes_that_the_cluster_refuses_are_retried_with_a_growing_pause_and_then_dropped(write, attempts):
    writes, now = ClusterWrites(), 0.0
    writes.add(write)
    for attempt in range(attempts):
        (one,) = writes.take(now)
        last = attempt == attempts - 1
        assert writes.failed(one, now, 0.0, final=True) == ([one] if last else [])
        assert writes.open == 0, "a service whose writes are refused is settled"
        if not last:
            assert writes.next_due() == now + min(2.0**attempt, 60.0)
            now = writes.next_due()
    assert (writes.next_due(), writes.take(now + 1000.0)) == (None, [])


def test_a_status_supersedes_the_one_before_it_and_never_overtakes_it():
    writes = ClusterWrites()
    writes.add(status("Pending"))
    (first,) = writes.take(0.0)
    writes.add(status("Inqueue"))
    writes.add(status("Running"))
    assert writes.take(0.0) == [], "one is in flight"
    assert writes.failed(first, 0.0, 0.0, final=False) == []
    (latest,) = writes.take(0.0)
    assert latest.status == (("phase", "Running"),)
    writes.written(latest)
    assert (writes.open, writes.take(1000.0)) == (0, [])


def test_a_report_that_another_one_of_its_portion_supersedes_does_not_block_the_next_portion():
    pods = {uid: PodView(uid=uid, namespace="default", name="a") for uid in ("old", "new")}
    waiting, writes = Reports(pods), ClusterWrites()
    reporting = Reporting(waiting, Groups(), writes, per_second=100.0)
    for uid in pods:
        waiting.explained(
            Explanation(uid=uid, namespace="default", name="a", at=0.0, decision="pending", message=uid), event=False
        )
    reporting.tick(Now(0.0, 0.0), busy=False)
    (latest,) = writes.take(0.0)
    assert latest.uid == "new"
    writes.written(latest)
    reporting.answered(latest.token, Now(0.0, 0.0))
    waiting.bound(claim("b"), "n1")
    reporting.tick(Now(1.0, 1.0), busy=False)
    assert sent(writes, 1.0) == [RecordEvent]


def test_writes_in_flight_and_waiting_are_bounded(monkeypatch):
    monkeypatch.setattr(cluster_writes, "IN_FLIGHT", 3)
    monkeypatch.setattr(cluster_writes, "MAX_WAITING", 4)
    writes, dropped = ClusterWrites(), []
    for number in range(7):
        writes.add(event(f"p{number}"))
    while taken := writes.take(0.0):
        assert len(taken) <= 3
        for one in taken:
            dropped += writes.failed(one, 0.0, 0.0, final=False)
    assert [one.record.name for one in dropped] == ["p0", "p1", "p2"], "the oldest"
    assert writes.open == 4


def test_reports_that_wait_are_bounded_and_the_dropped_ones_counted(monkeypatch):
    monkeypatch.setattr(reports, "MAX_SCHEDULED", 5)
    core = BinderDriver(reports_per_second=1.0)
    core.start()
    core.ledger("n1", [claim(f"p{number}") for number in range(20)])
    for number in range(20):
        core.pod(f"p{number}", PodView(uid=f"p{number}", namespace="default", name=f"p{number}", node="n1"))
    core.take(0.0)
    assert [note for note in core.notes if isinstance(note, Count)] == [Count("cluster_writes_dropped", 15)]
    scheduled = [one.record.name for one in core.written_reports() if isinstance(one, RecordEvent)]
    assert scheduled == [f"p{number}" for number in range(15, 20)]


def test_what_the_cluster_refuses_is_logged_once_and_counted():
    core = BinderDriver(accept=False)
    core.start()
    for number in range(10):
        name = f"p{number}"
        core.pod(name, PodView(uid=name, namespace="default", name=name))
        core.explain(name, "0/1 nodes are unavailable")
    core.take(0.0)
    core.notes.clear()
    while refused := [one for one in core.reports if isinstance(one, SetPodCondition | RecordEvent)]:
        core.reports.clear()
        for one in refused:
            core.report_failed(one, final=True)
        core.take(core.now + 100.0)
    assert core.notes.count(Count("cluster_errors")) == 200, "of each pod a condition, 15 attempts, and an Event, five"
    assert core.notes.count(Count("cluster_writes_dropped")) == 20
    assert [one.message for one in core.notes if isinstance(one, Log) and one.level == "warning"] == [
        "forbidden",
        "forbidden",
    ], "one for conditions, one for Events"


def test_a_report_that_was_dropped_is_written_with_the_next_decision():
    core = BinderDriver(accept=False)
    core.start()
    core.pod("a", PodView(uid="a", namespace="default", name="a"))
    core.explain("a", "why")
    core.take(0.0)
    for one in [one for one in core.reports if isinstance(one, RecordEvent)]:
        core.handle(ClusterWritten(one))
    for now in range(1, 20):
        for one in [one for one in core.reports if isinstance(one, SetPodCondition)]:
            core.reports.remove(one)
            core.report_failed(one, final=True)
        core.take(100.0 * now)
    assert core.notes.count(Count("cluster_writes_dropped")) == 1
    core.reports.clear()
    core.explain("a", "why")
    core.take(3000.0)
    assert "why" in [one.message for one in core.reports if isinstance(one, SetPodCondition)]
