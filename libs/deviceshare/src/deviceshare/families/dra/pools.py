"""The pools of devices that a node sees, in the order of Kubernetes' allocator. Source: pools_*.go of 1.37.2."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

import msgspec

from deviceshare.families.dra.views import Device, NodeSelector, Requirement, ResourceSlice
from deviceshare.model import parse_quantity

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device."""
CounterKey = tuple[str, str]
"""Counter set and counter."""


class Place(NamedTuple):
    """A node: its name and its labels."""

    name: str
    labels: Mapping[str, str]
    features: frozenset[str] = frozenset()
    """``status.declaredFeatures``."""


class Candidate(NamedTuple):
    """A device with its slice; ``here``: the node sees it."""

    id: DeviceId
    device: Device
    slice: ResourceSlice
    here: bool


class Pool(msgspec.Struct):
    """The slices of a pool that a node sees; counters and their users also from slices that it does not see."""

    driver: str
    name: str
    devices: list[Candidate]
    all_devices: list[Candidate]
    counters: dict[CounterKey, Fraction]
    incomplete: bool = False
    invalid: bool = False
    binds: bool = False


Features = frozenset[str]
"""The names of the features that are on."""


def gather(slices: Iterable[ResourceSlice], place: Place, features: Features) -> list[Pool]:
    """Return the pools that a node sees: first those without binding conditions, by driver and name."""
    of_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for each in slices:
        if _known(each, features):
            of_pool.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    pools = [pool for key in sorted(of_pool) if (pool := _pool(of_pool[key], place, features)) is not None]
    return sorted(pools, key=lambda pool: pool.binds)


def _known(each: ResourceSlice, features: Features) -> bool:
    """Return whether a slice counts at all: one with compatibility groups does with the feature only."""
    return "CompatibilityGroups" in features or not any(
        use.compatibility_groups for device in each.spec.devices for use in device.consumes_counters
    )


def _usable(each: ResourceSlice, features: Features) -> bool:
    partitions = each.spec.shared_counters or each.spec.per_device_node_selection
    return "PartitionableDevices" in features or not partitions


def _pool(slices: list[ResourceSlice], place: Place, features: Features) -> Pool | None:
    # Slices of features that are off are not seen, but count for the completeness of their pool.
    seen = [each for each in slices if _usable(each, features) and _sees(each, place)]
    if not seen:
        return None
    generation = max(each.spec.pool.generation for each in seen)
    newest = [each for each in seen if each.spec.pool.generation == generation]
    everywhere = [each for each in slices if each.spec.pool.generation == generation]
    count = newest[0].spec.pool.resource_slice_count
    incomplete = False
    if len(newest) != count:
        if any(each.spec.pool.generation > generation for each in slices):
            return None
        incomplete = len(everywhere) != count
    newest.sort(key=lambda each: each.metadata.name)
    devices = list(_candidates(newest, place))
    all_devices = devices + list(_candidates([each for each in everywhere if each not in newest], None))
    counters: dict[CounterKey, Fraction] = {}
    sets: set[str] = set()
    invalid = len({each.id for each in devices}) != len(devices)
    for each in everywhere:
        for shared in each.spec.shared_counters:
            invalid |= shared.name in sets
            sets.add(shared.name)
            counters.update({(shared.name, name): parse_quantity(c.value) for name, c in shared.counters.items()})
    for candidate in all_devices if "PartitionableDevices" in features else ():
        for use in candidate.device.consumes_counters:
            invalid |= use.counter_set not in sets or any(
                (use.counter_set, name) not in counters for name in use.counters
            )
    spec = newest[0].spec
    binds = any(each.device.binding_conditions for each in devices)
    return Pool(spec.driver, spec.pool.name, devices, all_devices, counters, incomplete, invalid, binds)


def _candidates(slices: Iterable[ResourceSlice], place: Place | None) -> Iterator[Candidate]:
    for each in slices:
        if each.spec.shared_counters and not each.spec.devices:
            continue
        for device in each.spec.devices:
            here = place is not None and (not each.spec.per_device_node_selection or _device_here(device, place))
            yield Candidate((each.spec.driver, each.spec.pool.name, device.name), device, each, here)


def _sees(each: ResourceSlice, place: Place) -> bool:
    spec = each.spec
    if spec.per_device_node_selection:
        return any(_device_here(device, place) for device in spec.devices)
    return _is_here(spec.node_name, spec.all_nodes, spec.node_selector, place)


def _device_here(device: Device, place: Place) -> bool:
    return _is_here(device.node_name, device.all_nodes, device.node_selector, place)


def _is_here(name: str, everywhere: bool, selector: NodeSelector | None, place: Place) -> bool:
    if name:
        return name == place.name
    return everywhere or (selector is not None and selects(selector, place))


def selects(selector: NodeSelector, place: Place) -> bool:
    """Return whether a node selector matches a node; a term without expressions matches none."""
    return any(
        (term.match_expressions or term.match_fields)
        and all(_meets(each, place.labels) for each in term.match_expressions)
        and all(_meets(each, {"metadata.name": place.name}) for each in term.match_fields)
        for term in selector.node_selector_terms
    )


def _meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.key), requirement.values
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                number, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return number > bound if operator == "Gt" else number < bound
    return False
