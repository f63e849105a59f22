"""What the metrics core counts: steps, counters of services, undecodable messages, waiting times."""

import msgspec
import pytest
from deviceshare_bus.messages import Undecodable
from deviceshare_metrics.core import MetricsCore, metrics_core, tallies
from support.metrics import read
from support.metrics_messages import events, step


def test_names_of_counters_and_quarantined_subjects_are_bounded(monkeypatch):
    monkeypatch.setattr(tallies, "MOST_SERIES", 2)
    monkeypatch.setattr(metrics_core, "MOST_QUARANTINED", 2)
    core = read(events("placement", counters={"a": 1, "b": 1, "c": 1, "d": 1}), events("placement", counters={"a": 1}))
    assert core.tallies.counters == {("placement", "a"): 2, ("placement", "b"): 1, ("other", "other"): 2}
    bad = [Undecodable("CLUSTER", f"cluster.node.{name}", 7, "error", b"?") for name in "xyz"]
    read(events("binder", undecodable=(*bad, *bad[1:])), into=core)
    assert core.tallies.undecodable == {"CLUSTER": 3}
    assert len(core._quarantined) == 2


@pytest.mark.parametrize("order", [("placement", "binder"), ("binder", "placement")])
def test_waiting_is_measured_once_for_any_order_of_reports(order):
    core = MetricsCore()
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
