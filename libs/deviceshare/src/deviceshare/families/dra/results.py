"""``status.allocation`` of a ResourceClaim. Source: Allocate and createNodeSelector of the allocator of 1.37.2."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from deviceshare.families.dra.pools import DeviceId
from deviceshare.model import DeviceResult
from deviceshare.model.device_objects import (
    Config,
    Device,
    DeviceClass,
    Exact,
    NodeSelector,
    Requirement,
    ResourceClaim,
    ResourceSlice,
    Term,
    Toleration,
)

Devices = Mapping[DeviceId, tuple[Device, ResourceSlice]]
"""Devices by id, each with its slice."""
Json = dict[str, Any]


def allocation(
    claim: ResourceClaim,
    results: Sequence[DeviceResult],
    share_ids: Sequence[str],
    classes: Mapping[str, DeviceClass],
    devices: Devices,
    node: str,
) -> Json:
    """Return ``status.allocation`` in the JSON of the API.

    Args:
        claim: the claim.
        results: its devices; each request has at least one.
        share_ids: the ids of the shares, one for each result; those of dedicated devices are not used.
        classes: the DeviceClasses of its requests.
        devices: the devices of the results.
        node: the node for which they were chosen.

    Raises:
        LookupError: a class, device or request does not exist.
    """
    asked = {result.request: _asked(claim, result.request) for result in results}
    found: Json = {
        "devices": _without_empty(
            {
                "results": [
                    _result(result, share_id, *devices[result.id], asked[result.request])
                    for result, share_id in zip(results, share_ids, strict=True)
                ],
                "config": [*_configs(claim, asked, classes)],
            }
        )
    }
    selector = node_selector([devices[result.id] for result in results], node)
    return found if selector is None else {**found, "nodeSelector": msgspec.json.decode(msgspec.json.encode(selector))}


def _asked(claim: ResourceClaim, name: str) -> Exact:
    """Return what a request, or an alternative (``request/alternative``), asks for."""
    of_request, _, alternative = name.partition("/")
    for request in claim.spec.devices.requests:
        if request.name == of_request:
            alternatives = request.first_available if alternative else (request.exactly,)
            for each in alternatives:
                if each is not None and each.name == alternative:
                    return each
    raise LookupError(f"claim {claim.metadata.name} has no request {name}")


def _result(result: DeviceResult, share_id: str, device: Device, of_slice: ResourceSlice, asked: Exact) -> Json:
    skipped = of_slice.spec.skip_node_operations
    spec: Json = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
        "adminAccess": result.admin,
        "tolerations": [_toleration(each) for each in asked.tolerations],
        "bindingConditions": [*device.binding_conditions],
        "bindingFailureConditions": [*device.binding_failure_conditions],
        "skipNodeOperations": [*skipped] if isinstance(skipped, tuple) else skipped,
    }
    if result.shared:
        spec |= {"shareID": share_id, "consumedCapacity": dict(result.consumed)}
    return _without_empty(spec)


def _toleration(toleration: Toleration) -> Json:
    return _without_empty(
        {
            "key": toleration.key,
            "operator": toleration.operator,
            "value": toleration.value,
            "effect": toleration.effect,
        }
    ) | ({} if toleration.toleration_seconds is None else {"tolerationSeconds": toleration.toleration_seconds})


def _configs(claim: ResourceClaim, asked: Mapping[str, Exact], classes: Mapping[str, DeviceClass]) -> Iterator[Json]:
    """Yield the configuration of each class once, with its requests, then the claim's own for requests that it has."""
    chosen = [_chosen(claim, request.name, asked) for request in claim.spec.devices.requests]
    of_class: dict[str, list[str]] = {}
    for name in chosen:
        of_class.setdefault(asked[name].device_class_name, []).append(name)
    for class_name, names in of_class.items():
        for config in classes[class_name].spec.config:
            yield _config("FromClass", config, names, chosen)
    for config in claim.spec.devices.config:
        if not config.requests or any(_is_for(config.requests, name) for name in chosen):
            yield _config("FromClaim", config, config.requests, chosen)


def _chosen(claim: ResourceClaim, request: str, asked: Mapping[str, Exact]) -> str:
    for name in asked:
        if name.split("/")[0] == request:
            return name
    raise LookupError(f"claim {claim.metadata.name} has no device for request {request}")


def _config(source: str, config: Config, names: Sequence[str], chosen: Sequence[str]) -> Json:
    """Return a configuration; without names where it is for all requests."""
    found: Json = {"source": source}
    if not all(_is_for(names, name) for name in chosen):
        found["requests"] = [*names]
    if config.opaque is not None:
        found["opaque"] = {"driver": config.opaque.driver, "parameters": config.opaque.parameters}
    return found


def _is_for(names: Sequence[str], name: str) -> bool:
    """Return whether names include a request, or the chosen alternative of it."""
    return not names or name in names or name.split("/")[0] in names


def local(device: Device, of_slice: ResourceSlice) -> bool:
    """Return whether a device can be used only on the node for which it was chosen."""
    where = device if of_slice.spec.per_device_node_selection else of_slice.spec
    return bool(where.node_name) or device.binds_to_node


def node_selector(devices: Iterable[tuple[Device, ResourceSlice]], node: str) -> NodeSelector | None:
    """Return on which nodes devices can be used: this one, those that all slices select, None: everywhere."""
    fields, expressions = dict[Requirement, None](), dict[Requirement, None]()
    for device, of_slice in devices:
        where = device if of_slice.spec.per_device_node_selection else of_slice.spec
        if local(device, of_slice):
            own = Requirement(key="metadata.name", operator="In", values=(node,))
            return NodeSelector(node_selector_terms=(Term(match_fields=(own,)),))
        # The API allows one term.
        for term in where.node_selector.node_selector_terms if where.node_selector is not None else ():
            fields |= dict.fromkeys(term.match_fields)
            expressions |= dict.fromkeys(term.match_expressions)
    if not (fields or expressions):
        return None
    return NodeSelector(node_selector_terms=(Term(match_fields=tuple(fields), match_expressions=tuple(expressions)),))


def _without_empty(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value}
