"""Pods and nodes that come and go leave nothing behind: the sizes of all containers of the cores stay bounded.

``DEVICESHARE_CHURN_PODS`` sets the number of pods; 50,000 take some minutes.
"""

import os

import pytest
from deviceshare_cluster.interface import Listed
from deviceshare_inventory.core import CompareRevisions, ComparisonFailed
from deviceshare_metrics.core import metrics_core
from deviceshare_metrics.core.event_history import EventHistory
from support.churn import NODES, ROUND, System, churn
from support.inventory import Bus, Driver, gone, node, pod, started, work_off
from support.sizes import sizes

PODS = int(os.environ.get("DEVICESHARE_CHURN_PODS", "1500"))
LEFT = 12 * ROUND
"""Items that a container may hold when all pods are gone: some rounds of what is remembered for a while."""


def test_placement_binder_and_metrics_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_core, "FORGET_PAUSE", 0.0)
    monkeypatch.setattr(metrics_core, "FORGET_INTERVAL", 0.0)
    system = System()
    system.cores["metrics"].core._most_gone = ROUND
    system.cores["metrics"].core.events = EventHistory(most=10)
    for number in range(PODS // ROUND):
        churn(system, number)
        system.commands.clear()
    system.now += 100.0
    system.tick(8)
    system.expire()
    assert {each for each in system.messages if each.startswith(("ledger", "outcome"))} == set()
    assert {each for each in system.messages if each.startswith("explain")} == set()
    for name, fed in system.cores.items():
        large = {path: size for path, size in sizes(fed.core).items() if size > LEFT}
        assert large == {}, name


def compared(driver: Driver, bus: Bus) -> None:
    """Let a round of comparisons pass, which the cluster does not answer."""
    driver.wait(100.0)
    while commands := [each for each in driver.take() if isinstance(each, CompareRevisions)]:
        for each in commands:
            driver.handle(ComparisonFailed(each.comparison, each.kind, "no answer", final=False))
    work_off(driver, bus)


def test_inventory_stays_bounded() -> None:
    driver, bus, _ = started([])
    revision = 10
    for number in range(PODS // ROUND):
        for at in range(ROUND):
            revision += 1
            driver.deliver([pod(f"pod-{number}-{at}", f"u-{number}-{at}", revision)])
        for at in range(NODES):
            revision += 1
            driver.deliver([node(f"node-{number}-{at}", revision)])
        work_off(driver, bus)
        if number % 10 == 5:
            driver.begin_list()
            work_off(driver, bus, Listed(revision))
            compared(driver, bus)
            continue
        for at in range(ROUND):
            revision += 1
            driver.deliver([gone("Pod", f"pod-{number}-{at}", revision)])
        for at in range(NODES):
            revision += 1
            driver.deliver([gone("Node", f"node-{number}-{at}", revision)])
        work_off(driver, bus)
        compared(driver, bus)
    large = {path: size for path, size in sizes(driver.core).items() if size > 2 * ROUND}
    assert large == {}
