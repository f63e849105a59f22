"""A step of the wall clock changes timestamps and nothing else, in every core."""

from typing import Any

import msgspec
import pytest
from deviceshare_bus.cores.core import Now
from deviceshare_cluster.interface import Listed
from support.churn import System, churn
from support.inventory import Bus, Driver, gone, node, pod, work_off

STEPS = [-3600.0, 3600.0, 86400.0 * 3]


def without_times(found: Any) -> Any:
    """Return a value with its unix times replaced."""
    if isinstance(found, dict):
        return {key: without_times(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [without_times(value) for value in found]
    if isinstance(found, float) and found > 1e8:
        return "time"
    if isinstance(found, str) and found.isdecimal() and len(found) > 9:
        return "time"
    return found


def comparable(commands: Any) -> list[Any]:
    return [without_times(msgspec.to_builtins(command)) for command in commands]


@pytest.mark.parametrize("step", STEPS)
def test_placement_binder_and_metrics(step: float) -> None:
    steady, stepped = System(), System()
    for system in (steady, stepped):
        for number in range(3):
            if number == 1 and system is stepped:
                system.wall += step
            churn(system, number)
        system.now += 100.0
        system.tick(8)
    for name in steady.cores:
        assert comparable(stepped.commands[name]) == comparable(steady.commands[name]), name
    assert steady.messages.keys() == stepped.messages.keys()
    histories = [system.cores["metrics"].core.store.histories.keys() for system in (steady, stepped)]
    assert histories[0] == histories[1]


def run_inventory(step: float) -> list[Any]:
    driver, bus = Driver(), Bus()
    found: list[Any] = []
    driver.now = Now(100.0, 1e9)
    driver.load_all(bus)
    driver.begin_list()
    for number in range(3):
        if number == 1:
            driver.now = Now(driver.now.monotonic, driver.now.wall + step)
        driver.deliver([node(revision=10 * number + 1), pod("a", f"u{number}", 10 * number + 2)])
        if not number:
            driver.deliver([Listed(9)])
        work_off(driver, bus)
        due = driver.core.next_due(driver.now)
        found += [*work_off(driver, bus, gone("Pod", "a", 10 * number + 3)), due]
        driver.wait(1.0)
    return found


@pytest.mark.parametrize("step", STEPS)
def test_inventory(step: float) -> None:
    assert comparable(run_inventory(step)) == comparable(run_inventory(0.0))
