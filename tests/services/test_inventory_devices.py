"""Inventory watches DeviceClasses, ResourceSlices and ResourceClaims once a pod that it serves uses a claim."""

import pytest
from deviceshare.objects import DEVICE_KINDS
from deviceshare_cluster.interface import Change, Listed
from deviceshare_inventory.core import InventoryCore, RestartWatch
from support.devices import place_device_claims
from support.inventory import OURS, Bus, Driver, change, execute, work_off

CLAIM = change(
    "ResourceClaim",
    "gpu",
    4,
    namespace="ml",
    spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
)


def pod(revision: int, *, scheduler: str = "volcano", claims: bool = True) -> Change:
    spec = {"schedulerName": scheduler, "containers": [{"name": "c"}]}
    if claims:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
    return change("Pod", f"p{revision}", revision, namespace="ml", spec=spec)


def begun(bus: Bus) -> Driver:
    """Return a driver that has read the bus and begins to list the cluster."""
    driver = Driver()
    driver.core = InventoryCore(OURS)
    driver.load_all(bus)
    return driver


def restarts(driver: Driver, bus: Bus) -> list[bool]:
    """Let the core act and the bus answer; return for each start of the watch whether devices are watched."""
    found = []
    while commands := driver.take():
        for command in commands:
            if isinstance(command, RestartWatch):
                found.append(command.devices)
                driver.begin_list()
            execute(driver, bus, command)
    return found


@pytest.mark.parametrize(
    ("first", "devices", "expected"),
    [
        (pod(2), True, [True]),
        (pod(2), False, []),
        (pod(2, scheduler="other"), True, []),
        (pod(2, claims=False), True, []),
    ],
)
def test_devices_are_watched_once_a_served_pod_uses_a_claim(
    first: Change, devices: bool, expected: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if devices:
        place_device_claims(monkeypatch)
    bus = Bus()
    driver = begun(bus)
    assert restarts(driver, bus) == [False]
    driver.deliver([first, Listed(9)])
    assert restarts(driver, bus) == expected
    driver.deliver([first, pod(10), Listed(20)] if expected else [pod(10)])
    assert restarts(driver, bus) == ([True] if devices and not expected else [])


def test_a_new_process_watches_devices_at_once_and_keeps_their_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    place_device_claims(monkeypatch)
    bus = Bus()
    driver = begun(bus)
    assert restarts(driver, bus) == [False]
    driver.deliver([pod(2), Listed(5)])
    assert restarts(driver, bus) == [True]
    driver.deliver([pod(2), CLAIM, Listed(9)])
    restarts(driver, bus)
    assert bus.fact("cluster.deviceclaim.ml.gpu").uid == "uid-gpu"
    driver = begun(bus)
    assert restarts(driver, bus) == [True]


def test_devices_are_compared_where_they_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    place_device_claims(monkeypatch)
    for claims in (False, True):
        bus = Bus()
        driver = begun(bus)
        restarts(driver, bus)
        driver.deliver([pod(2, claims=claims), Listed(5)])
        restarts(driver, bus)
        if claims:
            driver.deliver([pod(2), Listed(9)])
        work_off(driver, bus)
        assert driver.core._comparison.devices is claims
        assert set(DEVICE_KINDS) == {"DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim"}


def test_where_such_pods_are_not_placed_their_facts_have_no_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would take as much memory as the rest of the fact."""
    for placed, expected in ((False, 0), (True, 1)):
        if placed:
            place_device_claims(monkeypatch)
        bus = Bus()
        driver = begun(bus)
        restarts(driver, bus)
        driver.deliver([pod(2), pod(3, scheduler="other"), Listed(5)])
        restarts(driver, bus)
        if placed:
            driver.deliver([pod(2), Listed(9)])
            restarts(driver, bus)
        work_off(driver, bus)
        assert len(bus.fact("cluster.pod.uid-p2").device_claims) == expected


def test_the_devices_of_an_incomplete_list_follow_all_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that knew a device, and not yet the claim that has it, would give the device to another claim."""
    place_device_claims(monkeypatch)
    bus = Bus()
    driver = begun(bus)
    restarts(driver, bus)
    driver.deliver([pod(2), Listed(5)])
    restarts(driver, bus)
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "gpu-0"}]}
    driver.deliver([change("ResourceSlice", "s", 3, spec=spec), pod(2)])
    work_off(driver, bus)
    assert "cluster.deviceslice.s" not in bus.messages
    driver.deliver([CLAIM])
    work_off(driver, bus)
    assert "cluster.deviceslice.s" not in bus.messages
    driver.deliver([Listed(9)])
    work_off(driver, bus)
    assert bus.messages["cluster.deviceslice.s"][0] > bus.messages["cluster.deviceclaim.ml.gpu"][0]
    later = change("ResourceSlice", "t", 12, spec=spec)
    driver.deliver([later])
    work_off(driver, bus)
    assert "cluster.deviceslice.t" in bus.messages
