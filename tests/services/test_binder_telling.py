"""How fast the cluster is told: so much a second, and less while pods are being bound."""

import asyncio

import pytest
from deviceshare.model import Claim
from deviceshare_binder import reporter
from deviceshare_binder.groups import Groups
from deviceshare_binder.reporter import Reporter
from deviceshare_binder.reports import Reports
from deviceshare_bus.tasks import end


class Recorder:
    """A cluster that is told of Events."""

    def __init__(self):
        self.told = []

    async def record_event(self, event_record):
        self.told.append(event_record)


@pytest.mark.parametrize(("busy", "at_once"), [(False, 40), (True, 10)])
async def test_reports_are_written_in_portions_that_are_smaller_while_pods_are_bound(monkeypatch, busy, at_once):
    monkeypatch.setattr(reporter, "REPORT_INTERVAL", 10.0)
    cluster, reports = Recorder(), Reports({})
    for number in range(100):
        reports.bound(Claim(id=f"{number}", uid=f"{number}", namespace="default", name=f"p{number}"), "n1")
    teller = Reporter(cluster, reports, Groups(), per_second=4.0, busy=lambda: busy)
    assert teller.open == 100
    task = asyncio.create_task(teller.run())
    try:
        async with asyncio.timeout(5):
            while len(cluster.told) < at_once:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert [one.name for one in cluster.told] == [f"p{number}" for number in range(at_once)]
        assert teller.open == 100 - at_once
        assert {(one.kind, one.reason, one.warning, one.once) for one in cluster.told} == {
            ("Pod", "Scheduled", False, True)
        }
    finally:
        await end(task)
