"""The pools of devices that a node sees, in the order of Kubernetes' allocator. Source: pools_*.go of 1.37.2."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

import msgspec

from deviceshare.model import meets, parse_quantity
from deviceshare.model.device_objects import CounterSet, Device, NodeSelector, ResourceSlice

DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device."""
PoolName = tuple[str, str]
"""Driver and name of a pool."""
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
    """The devices of a pool that a node sees; counters and their users also from slices that it does not see.

    An incomplete or invalid pool has none.
    """

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
    # The first slice says how many there are: one of the node comes before those that others see as well.
    for each in sorted(slices, key=lambda each: each.spec.node_name != place.name):
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
    return _known(each, features) and ("PartitionableDevices" in features or not partitions)


def _pool(slices: list[ResourceSlice], place: Place, features: Features) -> Pool | None:
    # Without PartitionableDevices its slices are not seen, but count for completeness (GatherPools, checkSlicesInPool).
    seen = [each for each in slices if _usable(each, features) and sees(each, place)]
    if not seen:
        return None
    generation = max(each.spec.pool.generation for each in seen)
    newest = [each for each in seen if each.spec.pool.generation == generation]
    spec, others = newest[0].spec, list[ResourceSlice]()
    if len(newest) != spec.pool.resource_slice_count:
        # Only now all slices of the pool are looked at, and a newer one of any kind makes the pool obsolete.
        if any(each.spec.pool.generation > generation for each in slices):
            return None
        everywhere = [each for each in slices if each.spec.pool.generation == generation and _known(each, features)]
        if len(everywhere) != spec.pool.resource_slice_count:
            return Pool(spec.driver, spec.pool.name, [], [], {}, incomplete=True)
        others = [each for each in everywhere if each not in newest]
    newest.sort(key=lambda each: each.metadata.name)
    devices = list(_candidates(newest, place))
    all_devices = devices + list(_candidates(others, None))
    valid, counters = len({each.id for each in devices}) == len(devices), dict[CounterKey, Fraction]()
    if "PartitionableDevices" in features:
        sets = _shared_counters([*newest, *others])
        valid = valid and sets is not None and all(_counted(each.device, sets) for each in all_devices)
        for each in (sets or {}).values():
            counters.update({(each.name, name): parse_quantity(c.value) for name, c in each.counters.items()})
    if not valid:
        return Pool(spec.driver, spec.pool.name, [], [], {}, invalid=True)
    binds = any(each.device.binding_conditions for each in devices)
    return Pool(spec.driver, spec.pool.name, devices, all_devices, counters, binds=binds)


def _shared_counters(slices: Iterable[ResourceSlice]) -> dict[str, CounterSet] | None:
    """Return the counter sets of a pool, None if one is there twice."""
    sets = [each for of_pool in slices for each in of_pool.spec.shared_counters]
    by_name = {each.name: each for each in sets}
    return by_name if len(by_name) == len(sets) else None


def _counted(device: Device, sets: Mapping[str, CounterSet]) -> bool:
    """Return whether all counters and sets that a device consumes exist."""
    return all(
        use.counter_set in sets and use.counters.keys() <= sets[use.counter_set].counters.keys()
        for use in device.consumes_counters
    )


def _candidates(slices: Iterable[ResourceSlice], place: Place | None) -> Iterator[Candidate]:
    # Kubernetes 1.34 has counters and devices in one slice, which later versions refuse.
    for each in slices:
        for device in each.spec.devices:
            here = place is not None and (not each.spec.per_device_node_selection or _device_here(device, place))
            yield Candidate((each.spec.driver, each.spec.pool.name, device.name), device, each, here)


def sees(each: ResourceSlice, place: Place) -> bool:
    """Return whether a node sees a slice, or one of its devices."""
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
    fields = {"metadata.name": place.name}
    return any(
        (term.match_expressions or term.match_fields)
        and all(meets(each.operator, each.values, place.labels.get(each.key)) for each in term.match_expressions)
        and all(meets(each.operator, each.values, fields.get(each.key)) for each in term.match_fields)
        for term in selector.node_selector_terms
    )
