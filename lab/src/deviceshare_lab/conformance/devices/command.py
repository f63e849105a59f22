"""The replay of the answers of Kubernetes' allocator of devices in ``deviceshare lab conformance``."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.codec import without_nulls
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.in_use import PoolUse, device_result
from deviceshare.families.dra.layout import Layout, Taken
from deviceshare.families.dra.pools import Features, Place
from deviceshare.families.dra.results import allocation
from deviceshare.families.dra.selectors import Selectors
from deviceshare.families.dra.solver import Given, Solver
from deviceshare.model import DeviceResult, parse_quantity
from deviceshare.model.device_objects import DeviceClass, ResourceClaim, ResourceSlice
from deviceshare_cli.errors import CommandError

from deviceshare_lab.conformance.lines import decode_line, decoded, read_lines
from deviceshare_lab.conformance.outcomes import Failure, blocks
from deviceshare_lab.conformance.replay import Difference

_DERIVED = "DerivedAttributes"
_SHARE = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
"""In recorded answers in place of every id of a share."""
Used = dict[tuple[str, str], PoolUse]
"""What is in use, by driver and pool."""
_LINES = msgspec.json.Decoder(dict[str, Any])


class DeviceSummary(msgspec.Struct):
    """The results of all cases; ``refused``: cases with derived attributes, which are refused by name."""

    cases: int = 0
    refused: int = 0
    failures: list[Failure] = []

    @property
    def failed(self) -> int:
        """Number of cases with a difference."""
        return len(self.failures)

    @property
    def fails(self) -> bool:
        """Whether the command fails by them."""
        return self.failed > 0


def is_of_devices(path: Path) -> bool:
    """Return whether a file has answers of the allocator of devices."""
    _, line = next(read_lines(path))
    first = decode_line(line, _LINES, str(path)) if line.startswith(b"{") and b'"deviceClasses"' in line else {}
    return isinstance(first.get("case"), dict) and "deviceClasses" in first["case"]


def summarize(files: Sequence[Path]) -> DeviceSummary:
    """Replay the cases of files.

    Raises:
        CommandError: a file or a line is invalid.
    """
    summary = DeviceSummary()
    for path in files:
        for number, where, recorded in decoded(path, _LINES):
            try:
                differences = list(_differences(recorded["case"], recorded["answer"]))
                name, derived = recorded["case"]["id"], _DERIVED in recorded["case"]["features"]
            except (LookupError, TypeError, ValueError) as error:
                raise CommandError(f"{where}: not a recorded case: {error!r}") from None
            summary.cases += 1
            if derived and differences and all(each.ours == "('cycle', 'derived-unsupported')" for each in differences):
                summary.refused += 1
            elif differences:
                summary.failures.append(Failure(name, str(path), number, tuple(differences)))
    return summary


def as_text(summary: DeviceSummary, verbose: bool) -> str:
    """Return the summary as text; ``verbose`` shows every difference."""
    counts = f"{summary.cases - summary.refused - summary.failed} identical"
    line = f"Allocation of devices: {counts}, {summary.refused} refused by name, {summary.failed} failed"
    return "\n\n".join([*blocks(summary.failures, verbose=verbose), line])


def as_object(summary: DeviceSummary) -> dict[str, Any]:
    """Return the summary for JSON with all failures."""
    return {
        "cases": summary.cases,
        "refused": summary.refused,
        "failed": summary.failed,
        "failures": summary.failures,
    }


def _differences(case: dict[str, Any], answer: dict[str, Any]) -> list[Difference]:
    slices = _objects(case["slices"], ResourceSlice)
    claims = _objects(case["claims"], ResourceClaim)
    classes = {each.metadata.name: each for each in _objects(case["deviceClasses"], DeviceClass)}
    features, selectors, in_use = Features(frozenset(case["features"])), Selectors(evaluator()), _used(case)
    nodes = {node["metadata"]["name"]: node for node in case["nodes"]}
    found = []
    for name, recorded in answer["nodes"].items():
        node = nodes[name]
        declared = frozenset(node.get("status", {}).get("declaredFeatures", ()))
        place = Place(name, node["metadata"].get("labels", {}), declared)
        ours: Any
        try:
            layout = Layout(slices, place, features)
            solved = Solver(layout, classes, selectors, claims).solve(taken(layout, in_use)).claims
            ours = (
                None
                if solved is None
                else [
                    _comparable(_allocation(claim, given, classes, layout))
                    for claim, given in zip(claims, solved, strict=True)
                ]
            )
        except AllocationError as error:
            ours = ("node" if error.of_node else "cycle", error.kind)
        theirs = _theirs(recorded)
        if "steps" not in recorded and isinstance(ours, list):  # recorded are the devices alone
            ours = [_devices(each) for each in ours]
        if theirs != ours:
            found.append(Difference(f"node {name}", "devices", str(theirs), str(ours)))
    return found


def _theirs(recorded: dict[str, Any]) -> Any:
    if error := recorded.get("error"):
        return error["scope"], error["kind"]
    if not recorded["fits"]:
        return None
    return [_comparable(each) for each in recorded.get("allocations", ())]


def _allocation(
    claim: ResourceClaim, given: Sequence[Given], classes: dict[str, DeviceClass], layout: Layout
) -> dict[str, Any]:
    candidates = [each.device.candidate for each in given]
    devices = {each.id: (each.device, each.slice) for each in candidates}
    results = [each.result(layout.names) for each in given]
    return allocation(claim, results, [_SHARE] * len(given), classes, devices, layout.place.name)


def _comparable(allocation: dict[str, Any]) -> dict[str, Any]:
    """Return an allocation without nulls and empty lists, its amounts as numbers."""
    found: dict[str, Any] = without_nulls(allocation)
    found["devices"] = {name: value for name, value in found["devices"].items() if value}
    for result in found["devices"].get("results", ()):
        if amounts := result.get("consumedCapacity"):
            result["consumedCapacity"] = {name: parse_quantity(value) for name, value in sorted(amounts.items())}
    return found


def _devices(allocation: dict[str, Any]) -> dict[str, Any]:
    names = ("request", "driver", "pool", "device", "consumedCapacity")
    results = [
        {name: value for name, value in result.items() if name in names}
        for result in allocation["devices"].get("results", ())
    ]
    return {"devices": {"results": results} if results else {}}


def used_by(claims: Sequence[ResourceClaim]) -> Used:
    """Return what allocated claims use, by pool."""
    given = [each.status.allocation for each in claims if each.status.allocation is not None]
    return used(device_result(result) for each in given for result in each.devices.results)


def used(results: Iterable[DeviceResult]) -> Used:
    """Return what claims with these devices use, by pool; access of administrators uses nothing."""
    found: Used = defaultdict(PoolUse)
    for each in results:
        if not each.admin:
            found[each.driver, each.pool].add(each, 1)
    return found


def taken(layout: Layout, found: Used) -> Taken:
    """Return what claims have of the devices of a layout."""
    return layout.taken([found.get(name) for name in layout.names])


def _used(case: dict[str, Any]) -> Used:
    if case.get("allocatedClaims"):
        return used_by(_objects(case["allocatedClaims"], ResourceClaim))
    state = case["allocatedState"]
    shares = [
        *((each, {}) for each in state.get("shares", ())),
        *((e, e["consumed"]) for e in state.get("capacity", ())),
    ]

    def result(entry: dict[str, str], consumed: dict[str, str] | None = None) -> DeviceResult:
        amounts = tuple((consumed or {}).items())
        return DeviceResult("", entry["driver"], entry["pool"], entry["device"], consumed is not None, amounts)

    return used([*map(result, state.get("devices", ())), *(result(*each) for each in shares)])


def _objects(objects: Any, kind: Any) -> list[Any]:
    return [msgspec.convert(without_nulls(each), kind) for each in objects or ()]
