"""CEL selectors and rules of Dynamic Resource Allocation against answers recorded from Kubernetes' own code."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest
from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.pools import Place
from deviceshare.families.dra.selectors import Selectors
from deviceshare.model.device_objects import Device, DeviceClass, ResourceClaim, ResourceSlice
from support.devices import solve

DATA = Path(__file__).parents[1] / "data" / "dra"
KNOWN = {'device.attributes["gpu.nvidia.com"].driverVersion == "570.86.15"'}
"""A version compared with a text: false here, an error in Kubernetes."""


def test_selectors_evaluate_as_recorded() -> None:
    """Each expression on each device gives the recorded result or kind of error, or is refused by name."""
    selectors, unsupported, lines = Selectors(evaluator()), set(), 0
    with gzip.open(DATA / "dra-cel.jsonl.gz", "rt") as file:
        for line in file:
            recorded = json.loads(line)
            lines += 1
            driver = recorded["device"].pop("driver")
            device = msgspec.convert({"name": "d", **recorded["device"]}, Device)
            outcome = selectors.matches(recorded["expression"], driver, device, True)
            kind = outcome if isinstance(outcome, bool) else outcome[0]
            if kind == "cel-unsupported":
                unsupported.add(recorded["expression"])
            elif recorded["expression"] not in KNOWN:
                assert kind == recorded.get("result", f"cel-{recorded.get('stage')}"), recorded
    assert lines == 12_358
    assert len(unsupported) <= 12
    assert selectors.evaluations < lines / 5


def small(expression: str) -> tuple[list[ResourceSlice], dict[str, DeviceClass], list[ResourceClaim]]:
    slices = [
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "d.example.com",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n",
                "devices": [{"name": f"d{at}", "attributes": {"at": {"int": at}}} for at in range(12)],
            },
        }
    ]
    exact = {"deviceClassName": "c", "count": 6}
    requests = [{"name": name, "exactly": exact} for name in ("a", "b")]
    constraints = [{"requests": ["b"], "matchAttribute": "d.example.com/absent"}]
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    device_class = {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    return (
        msgspec.convert(slices, list[ResourceSlice]),
        {"c": msgspec.convert(device_class, DeviceClass)},
        [msgspec.convert({"metadata": {"name": "claim"}, "spec": spec}, ResourceClaim)],
    )


def test_without_the_library_selectors_are_refused_by_name() -> None:
    slices, classes, claims = small("true")
    with pytest.raises(AllocationError, match=r"deviceshare\[dra\]") as caught:
        solve(Place("n", {}), slices, classes, claims, selectors=Selectors(None))
    assert caught.value.kind == "cel-unavailable"


def test_a_long_search_is_refused_by_name() -> None:
    slices, classes, claims = small("true")
    with pytest.raises(AllocationError, match="tried 100 ") as caught:
        solve(Place("n", {}), slices, classes, claims, selectors=Selectors(evaluator()), max_steps=100)
    assert (caught.value.kind, caught.value.of_node) == ("search-too-long", True)
