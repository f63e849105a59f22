"""Objects of Dynamic Resource Allocation from the JSON of the API: what is read, and how the rest is refused."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deviceshare.families.dra.codec import decode_claim, decode_class, decode_slice
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.pools import Place
from deviceshare.families.dra.selectors import Selectors
from deviceshare.model import FormatError
from fuzz import corpus
from support.devices import solve

DATA = Path(__file__).parents[1] / "data" / "dra"
DECODERS: dict[str, Callable[[bytes], object]] = {
    "deviceClasses": decode_class,
    "slices": decode_slice,
    "claims": decode_claim,
    "allocatedClaims": decode_claim,
}
TWICE = {
    "consumable-capacity-multi-allocatable-device-with-subrequest",
    "list-attributes-match-constaint-list-of-string-values-without-common-elements",
}
"""Recorded cases in which two requests have one name, which the API server refuses."""


def recorded() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name in ("upstream", "random"):
        with gzip.open(DATA / f"dra-{name}.jsonl.gz", "rt") as file:
            for each in file:
                case = json.loads(each)["case"]
                yield from ((case["id"], kind, obj) for kind in DECODERS for obj in case.get(kind) or ())


def test_all_recorded_objects_are_read() -> None:
    problems = {}
    for case, kind, obj in recorded():
        try:
            DECODERS[kind](json.dumps(obj).encode())
        except FormatError as error:
            problems[case] = error.problem.expected
    assert problems == dict.fromkeys(TWICE, "each name once")


def test_nulls_are_absent_but_those_of_a_driver_stay() -> None:
    obj = json.loads(json.dumps(corpus.DEVICE_CLASS))
    obj["spec"]["selectors"] = obj["metadata"]["namespace"] = None
    found = decode_class(json.dumps(obj).encode())
    assert found.spec.selectors == ()
    assert found.spec.config[0].opaque is not None
    assert found.spec.config[0].opaque.parameters == {"sharing": None, "slots": [1, 2.5]}
    assert decode_claim(b'{"metadata": {"name": "c"}, "spec": {"devices": {"requests": null}}, "status": null}')


DEVICE = "spec.devices[1]"
EXACT = "spec.devices.requests[0].exactly"
CHANGES: list[tuple[str, str, Any, str, str]] = [
    ("slice", f"{DEVICE}.capacity.memory.value", "80 GB", f"{DEVICE}.capacity[memory].value", "a quantity such as"),
    ("slice", f"{DEVICE}.capacity.memory.requestPolicy.default", "x", "requestPolicy.default", "a quantity such as"),
    ("slice", f"{DEVICE}.capacity.memory.requestPolicy.default", None, "requestPolicy.default", "a quantity"),
    ("slice", f"{DEVICE}.capacity.memory.requestPolicy.validRange.step", "0", "validRange.step", "more than 0"),
    ("slice", f"{DEVICE}.capacity.memory.requestPolicy.validValues", ["1"] * 11, "validValues", "at most 10"),
    ("slice", "spec.sharedCounters[0].counters.slices.value", "7x", "[slices].value", "a quantity such as"),
    ("slice", "spec.sharedCounters", [{"name": f"c{at}"} for at in range(33)], "spec.sharedCounters", "at most 32"),
    ("slice", f"{DEVICE}.attributes.model", {"string": "a", "int": 1}, "attributes[model]", "exactly one type"),
    ("slice", f"{DEVICE}.attributes.model", {"string": "a" * 65}, "attributes[model]", "at most 64 characters"),
    ("slice", f"{DEVICE}.attributes.index", {"int": 2**63}, "attributes[index]", "64 bits"),
    ("slice", f"{DEVICE}.attributes", {f"a{at}": {"int": 1} for at in range(31)}, DEVICE, "at most 32 together"),
    ("slice", f"{DEVICE}.attributes", {"a": {"ints": [1] * 49}}, f"{DEVICE}.attributes", "at most 48 values"),
    ("slice", f"{DEVICE}.taints", [{}] * 17, f"{DEVICE}.taints", "at most 16 entries"),
    ("slice", f"{DEVICE}.taints", {}, f"{DEVICE}.taints", "array, not object"),
    ("slice", f"{DEVICE}.bindingConditions", ["a"] * 5, f"{DEVICE}.bindingConditions", "at most 4 entries"),
    ("slice", f"{DEVICE}.name", None, f"{DEVICE}.name", "a value"),
    ("slice", "spec.devices", [{"name": f"d{at}"} for at in range(129)], "spec.devices", "at most 128 entries"),
    ("slice", "spec.driver", "", "spec.driver", "not empty"),
    ("slice", "spec.allNodes", True, "spec", "exactly one of nodeName"),
    ("slice", "spec.pool.resourceSliceCount", 0, "spec.pool.resourceSliceCount", "1 or more"),
    ("claim", "spec.devices.requests", [{"name": f"r{at}"} for at in range(33)], "spec.devices.requests", "at most 32"),
    ("claim", "spec.devices.requests[1].firstAvailable", [{}] * 9, "firstAvailable", "at most 8 entries"),
    ("claim", "spec.devices.requests[1].exactly", {}, "spec.devices.requests[1]", "exactly one of"),
    ("claim", f"{EXACT}.count", 0, f"{EXACT}.count", "1 or more"),
    ("claim", f"{EXACT}.count", "1", f"{EXACT}.count", "int, not str"),
    ("claim", f"{EXACT}.selectors[0].cel.expression", "", f"{EXACT}.selectors[0].cel.expression", "not empty"),
    ("claim", f"{EXACT}.selectors[0].cel.expression", "a" * 10241, "cel.expression", "at most 10240 characters"),
    ("claim", f"{EXACT}.selectors[0].cel", "true", f"{EXACT}.selectors[0].cel", "object, not str"),
    ("claim", f"{EXACT}.selectors", [{}] * 33, f"{EXACT}.selectors", "at most 32 entries"),
    ("claim", f"{EXACT}.tolerations", [{}] * 17, f"{EXACT}.tolerations", "at most 16 entries"),
    ("claim", f"{EXACT}.capacity.requests.memory", "7GiB", f"{EXACT}.capacity.requests[memory]", "a quantity such as"),
    ("claim", "spec.devices.constraints", [{}] * 33, "spec.devices.constraints", "at most 32 entries"),
    ("claim", "status.allocation.devices.results[0].consumedCapacity.cores", "", "[cores]", "a quantity such as"),
    ("claim", "metadata.name", None, "metadata.name", "a value"),
    ("class", "spec.config[0].opaque.parameters", "a" * 10239, "opaque.parameters", "at most 10240 bytes"),
]


@pytest.mark.parametrize(("kind", "path", "value", "field", "expected"), CHANGES)
def test_an_invalid_part_refuses_an_object_by_name(kind: str, path: str, value: Any, field: str, expected: str) -> None:
    published, decode, name = {
        "slice": (corpus.RESOURCE_SLICE, decode_slice, "ResourceSlice n-gpu"),
        "claim": (corpus.RESOURCE_CLAIM, decode_claim, "ResourceClaim ns/c"),
        "class": (corpus.DEVICE_CLASS, decode_class, "DeviceClass gpu"),
    }[kind]
    obj = json.loads(json.dumps(published))
    decode(json.dumps(obj).encode())
    holder: Any = obj
    *steps, last = path.replace("[", ".[").split(".")
    for step in steps:
        holder = holder[int(step[1:-1]) if step.startswith("[") else step]
    holder[last] = value
    with pytest.raises(FormatError) as caught:
        decode(json.dumps(obj).encode())
    problem = caught.value.problem
    assert problem.subject == (name if path != "metadata.name" else "ResourceClaim ns")
    assert problem.field.endswith(field)
    assert expected in problem.expected


@pytest.mark.parametrize("field", ["nodeAllocatableResources", "nodeAllocatableResourceMappings"])
def test_devices_that_count_as_resources_of_a_node_are_refused_by_name(field: str) -> None:
    """In Kubernetes 1.36 the field has another name than in 1.37."""
    device = {"name": "d0", field: {"cpu": {}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": [device]}
    slices = [decode_slice(json.dumps({"metadata": {"name": "s"}, "spec": spec}).encode())]
    classes = {"c": decode_class(b'{"metadata": {"name": "c"}}')}
    requests = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
    claim = {"metadata": {"name": "claim"}, "spec": {"devices": {"requests": requests}}}
    with pytest.raises(AllocationError, match="nodeAllocatableResources") as caught:
        solve(Place("n", {}), slices, classes, [decode_claim(json.dumps(claim).encode())], selectors=Selectors(None))
    assert caught.value.of_node
