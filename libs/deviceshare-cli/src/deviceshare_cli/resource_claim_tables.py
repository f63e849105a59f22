"""Tables of ResourceClaims, their templates, DeviceClasses and ResourceSlices: the columns of ``kubectl`` and more.

Source of ``STATE``: ``resourceClaimState`` of kubernetes pkg/printers/internalversion.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_cli.object_tables import since
from deviceshare_cli.output import NONE, Table


def resource_claims_table(claims: Sequence[Object], now: float, *, wide: bool) -> Table:
    """Return the table of ResourceClaims, with the devices that each has, their node and its pods."""
    head = ["NAMESPACE", "NAME", "STATE", "NODE", "PODS", "DEVICES", *(["REQUESTS"] if wide else []), "AGE"]
    rows = []
    for claim in claims:
        metadata, status = claim["metadata"], claim.get("status") or {}
        row = [metadata.get("namespace", ""), metadata["name"], claim_state(claim), claim_node(claim) or NONE]
        pods = [each.get("name", "") for each in status.get("reservedFor") or () if each.get("resource") == "pods"]
        row += [", ".join(sorted(pods)) or NONE, ", ".join(claim_devices(claim)) or NONE]
        if wide:
            row.append(_requests(claim.get("spec") or {}))
        rows.append([*row, since(metadata.get("creationTimestamp"), now)])
    return head, rows


def templates_table(templates: Sequence[Object], now: float, *, wide: bool) -> Table:
    """Return the table of ResourceClaimTemplates."""
    head = ["NAMESPACE", "NAME", *(["REQUESTS"] if wide else []), "AGE"]
    rows = []
    for each in templates:
        metadata = each["metadata"]
        row = [metadata.get("namespace", ""), metadata["name"]]
        row += [_requests((each.get("spec") or {}).get("spec") or {})] if wide else []
        rows.append([*row, since(metadata.get("creationTimestamp"), now)])
    return head, rows


def device_classes_table(classes: Sequence[Object], now: float, *, wide: bool) -> Table:
    """Return the table of DeviceClasses."""
    head = ["NAME", *(["EXTENDED RESOURCE", "SELECTORS"] if wide else []), "AGE"]
    rows = []
    for each in classes:
        metadata, spec = each["metadata"], each.get("spec") or {}
        row = [metadata["name"]]
        if wide:
            terms = [(term.get("cel") or {}).get("expression", "") for term in spec.get("selectors") or ()]
            row += [
                spec.get("extendedResourceName") or NONE,
                "; ".join(" ".join(text.split()) for text in terms) or NONE,
            ]
        rows.append([*row, since(metadata.get("creationTimestamp"), now)])
    return head, rows


def resource_slices_table(slices: Sequence[Object], now: float, *, wide: bool) -> Table:
    """Return the table of ResourceSlices with the number of their devices."""
    head = ["NAME", "NODE", "DRIVER", "POOL", "DEVICES", *(["GENERATION", "SLICES"] if wide else []), "AGE"]
    rows = []
    for each in slices:
        metadata, spec = each["metadata"], each.get("spec") or {}
        pool = spec.get("pool") or {}
        row = [metadata["name"], spec.get("nodeName") or NONE, spec.get("driver", ""), pool.get("name", "")]
        row.append(str(len(spec.get("devices") or ())))
        if wide:
            row += [str(pool.get("generation", 0)), str(pool.get("resourceSliceCount", 1))]
        rows.append([*row, since(metadata.get("creationTimestamp"), now)])
    return head, rows


def claim_state(claim: Object) -> str:
    """Return the state of a ResourceClaim as ``kubectl`` shows it."""
    status = claim.get("status") or {}
    states = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    if status.get("allocation"):
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not states:
        states.append("pending")
    return ",".join(states)


def claim_devices(claim: Object) -> list[str]:
    """Return the devices that a ResourceClaim has, as ``driver/pool/device``."""
    return ["/".join(str(each.get(key, "")) for key in ("driver", "pool", "device")) for each in _results(claim)]


def claim_node(claim: Object) -> str:
    """Return the only node on which the devices of a ResourceClaim can be used, '' for several or none."""
    selector = _allocation(claim).get("nodeSelector") or {}
    terms = selector.get("nodeSelectorTerms") or ()
    names = {
        name
        for term in terms
        for each in (*(term.get("matchFields") or ()), *(term.get("matchExpressions") or ()))
        if each.get("key") in ("metadata.name", "kubernetes.io/hostname") and each.get("operator") == "In"
        for name in each.get("values") or ()
    }
    return str(names.pop()) if len(terms) == 1 and len(names) == 1 else ""


def _allocation(claim: Object) -> Mapping[str, Any]:
    return (claim.get("status") or {}).get("allocation") or {}


def _results(claim: Object) -> Iterable[Mapping[str, Any]]:
    return (_allocation(claim).get("devices") or {}).get("results") or ()


def _requests(spec: Mapping[str, Any]) -> str:
    return "; ".join(map(_request, (spec.get("devices") or {}).get("requests") or ())) or NONE


def _request(request: Mapping[str, Any]) -> str:
    """Return ``gpu: 2 × a100``; alternatives are separated by ``or``."""
    wanted = [each for each in (request.get("exactly"), *(request.get("firstAvailable") or ())) if each]
    return f"{request.get('name', '')}: {' or '.join(map(_wanted, wanted))}"


def _wanted(exact: Mapping[str, Any]) -> str:
    count = "all" if exact.get("allocationMode") == "All" else str(exact.get("count", 1))
    return f"{count} × {exact.get('deviceClassName', '')}"
