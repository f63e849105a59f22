"""What the metrics core counts: steps, counters of services, undecodable messages, waiting times."""

import msgspec
import pytest
from deviceshare_bus.cores.core import CaughtUp
from deviceshare_bus.messages.codec import Undecodable
from deviceshare_bus.messages.subjects import Stream
from deviceshare_metrics.core import MetricsCore, metrics_core, tallies
from support.metrics import NOW, exposed, read, started
from support.metrics_messages import events, pod, step


def test_names_of_counters_and_quarantined_subjects_are_bounded(monkeypatch):
    monkeypatch.setattr(tallies, "MAX_SERIES", 2)
    monkeypatch.setattr(metrics_core, "MAX_QUARANTINED", 2)
    core = read(events("placement", counters={"a": 1, "b": 1, "c": 1, "d": 1}), events("placement", counters={"a": 1}))
    assert core.tallies.counters == {("placement", "a"): 2, ("placement", "b"): 1, ("other", "other"): 2}
    bad = [Undecodable("CLUSTER", f"cluster.node.{name}", 7, "error", b"?") for name in "xyz"]
    read(events("binder", undecodable=(*bad, *bad[1:])), into=core)
    assert core.tallies.undecodable == {"CLUSTER": 3}
    assert len(core._quarantined) == 2


@pytest.mark.parametrize("order", [("placement", "binder"), ("binder", "placement")])
def test_waiting_is_measured_once_for_any_order_of_reports(order):
    core = started()
    reports = {
        "placement": events("placement", step("seen", 1.0), step("decided", 1.1)),
        "binder": events("binder", step("bound", 1.5)),
    }
    read(*(reports[service] for service in order), into=core)
    # A service that starts again reports what it sees again.
    read(events("placement", step("seen", 9.0)), events("binder", step("bound", 9.5)), into=core)
    assert core.tallies.seen_to_bound.sum == pytest.approx(0.5)
    assert core.tallies.seen_to_bound.cumulative()[-1] == ("+Inf", 1.0)


def test_a_message_quarantined_by_every_reader_is_counted_once():
    bad = Undecodable("CLUSTER", "cluster.node.x", 7, "error", b"?")
    core = read(*(events(service, undecodable=(bad,)) for service in ("placement", "binder", "placement")))
    read(events("binder", undecodable=(msgspec.structs.replace(bad, sequence=8),)), into=core)
    assert core.tallies.undecodable == {"CLUSTER": 2}


def test_each_event_is_counted_once_over_a_restart():
    bad = Undecodable("CLUSTER", "cluster.node.x", 7, "error", b"?")
    before = [
        events("placement", step("seen", 1.0), counters={"ledger_conflicts": 2}, undecodable=(bad,)),
        events("binder", step("bound", 1.5)),
        events("placement", step("seen", 1.9, pod="b")),
    ]
    after = [
        events("binder", step("bound", 2.5, pod="b"), undecodable=(bad, msgspec.structs.replace(bad, sequence=8))),
        events("placement", counters={"ledger_conflicts": 1}),
    ]
    first = read(*before)
    second = read(*before, into=MetricsCore())
    assert exposed(second).count("ledger_conflicts") == 0
    assert second.store.histories.keys() == first.store.histories.keys()
    for core in (first, second):
        core.handle(CaughtUp(Stream.EVENT), NOW)
        read(*after, into=core)
    whole = read(*before, *after)
    once = read(*before)
    for name in ("steps", "counters", "undecodable"):
        assert getattr(whole.tallies, name) == getattr(once.tallies, name) + getattr(second.tallies, name), name
    assert first.tallies.counters == whole.tallies.counters
    waits = [core.tallies.seen_to_bound for core in (once, second, whole)]
    assert [each.cumulative()[-1][1] for each in waits] == [1.0, 1.0, 2.0]
    assert waits[0].sum + waits[1].sum == pytest.approx(waits[2].sum)


def test_histories_are_bounded_before_the_pods_are_known(monkeypatch):
    monkeypatch.setattr(metrics_core, "MAX_UNREAD", 10)
    monkeypatch.setattr(metrics_core, "FORGET_BATCH", 2)
    core = MetricsCore()
    for number in range(100):
        read(events("placement", step("seen", 1.0, pod=str(number))), into=core)
        read(events("binder", step("bound", 1.0, pod=str(number))), into=core)
    assert list(core.store.histories) == [f"uid-{number}" for number in range(90, 100)]


def test_histories_of_existing_pods_are_kept_while_the_streams_are_read(monkeypatch):
    monkeypatch.setattr(metrics_core, "MAX_UNREAD", 10)
    core = MetricsCore()
    for number in range(100):
        read(pod(str(number)), into=core)
    for number in range(105):
        read(events("binder", step("bound", 1.0, pod=str(number))), into=core)
    assert len(core.store.histories) == 105
