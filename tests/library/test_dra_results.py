"""``status.allocation`` of claims where no recorded answer decides; tests/cli/test_conformance_devices.py has those."""

import msgspec
import pytest
from deviceshare.families.dra.results import allocation
from deviceshare.model import DeviceResult
from deviceshare.model.device_objects import Device, DeviceClass, ResourceClaim, ResourceSlice

TOLERATION = {"key": "unhealthy", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
CLAIM = msgspec.convert(
    {
        "metadata": {"name": "c"},
        "spec": {
            "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "tolerations": [TOLERATION]}}]}
        },
    },
    ResourceClaim,
)
CLASSES = {"gpu": msgspec.convert({"metadata": {"name": "gpu"}}, DeviceClass)}
SLICE = msgspec.convert(
    {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}, "allNodes": True}}, ResourceSlice
)
DEVICES = {("d", "p", name): (Device(name=name), SLICE) for name in ("a", "b")}


def test_a_toleration_keeps_its_seconds() -> None:
    found = allocation(CLAIM, [DeviceResult("r", "d", "p", "a")], [""], CLASSES, DEVICES, "n")
    (result,) = found["devices"]["results"]
    assert result["tolerations"] == [TOLERATION]


def test_each_share_has_its_own_id() -> None:
    results = [DeviceResult("r", "d", "p", name, shared=True, consumed=(("memory", "1Gi"),)) for name in ("a", "b")]
    found = allocation(CLAIM, results, ["one", "two"], CLASSES, DEVICES, "n")
    shares = [(each["shareID"], each["consumedCapacity"]) for each in found["devices"]["results"]]
    assert shares == [("one", {"memory": "1Gi"}), ("two", {"memory": "1Gi"})]


@pytest.mark.parametrize(
    ("results", "classes"),
    [
        ([], CLASSES),
        ([DeviceResult("other", "d", "p", "a")], CLASSES),
        ([DeviceResult("r/alternative", "d", "p", "a")], CLASSES),
        ([DeviceResult("r", "d", "p", "gone")], CLASSES),
        ([DeviceResult("r", "d", "p", "a")], {}),
    ],
)
def test_what_does_not_exist_is_an_error(results: list[DeviceResult], classes: dict[str, DeviceClass]) -> None:
    with pytest.raises(LookupError):
        allocation(CLAIM, results, [""] * len(results), classes, DEVICES, "n")
