"""The devices that drivers publish in ResourceSlices, and those that ResourceClaims have. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec
from deviceshare.families.dra import device_result, given_devices, requested_devices
from deviceshare.model import DeviceClaim, DeviceClaimFact, Fact, ResourceAmounts
from deviceshare_bus.messages.subjects import fact
from msgspec.structs import replace

from deviceshare_metrics import api

if TYPE_CHECKING:
    from deviceshare_metrics.core.facts import PodSeen
    from deviceshare_metrics.core.state_store import StateStore

UNKNOWN_CLASS = "(unknown)"
"""Stands for DeviceClasses that do not exist (any more): users choose the names that claims have. No class has it."""


class _Device(msgspec.Struct, frozen=True, gc=False):
    """A device of a slice: only that there is one."""


class _Pool(msgspec.Struct, frozen=True, gc=False):
    name: str
    generation: int = 0


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    driver: str
    pool: _Pool
    node_name: str = ""
    devices: tuple[_Device, ...] = ()


class DeviceSliceSeen(Fact, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="deviceslice"):
    """A :class:`~deviceshare.model.DeviceSliceFact` whose devices, the largest part, stay undecoded."""

    name: str
    spec: _Spec


class PublishedSlice(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a ResourceSlice; ``node`` is '' for devices that several nodes may use."""

    driver: str
    pool: str
    generation: int
    node: str
    devices: int


class ClaimedDevice(msgspec.Struct, frozen=True, gc=False):
    """A device that a ResourceClaim has; ``device_class``: of the request."""

    driver: str
    pool: str
    device: str
    device_class: str

    @property
    def id(self) -> tuple[str, str, str]:
        """Driver, pool and name of the device."""
        return self.driver, self.pool, self.device


class ResourceClaimSeen(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a ResourceClaim; ``devices``: without access for administrators, which uses nothing."""

    state: api.ResourceClaimState
    devices: tuple[ClaimedDevice, ...]
    pods: tuple[str, ...]
    """The uids of the pods for which it is reserved."""
    request: bytes = b""
    """A digest of what it asks for, b'' once it has devices."""
    counts: ResourceAmounts = ()
    """What it counts in queues that name amounts of devices."""


class ClaimCounts:
    """What the ResourceClaims of a store count in queues."""

    def __init__(self, store: "StateStore") -> None:
        self._claims = store.device_claims

    def counted(self, key: str, decided: Iterable[DeviceClaim]) -> ResourceAmounts:
        """Return what a claim counts, of those that facts show."""
        seen = self._claims.get(fact("deviceclaim", key)) if key else None
        return () if seen is None else seen.counts

    def depends_on_devices(self, key: str, names: Iterable[str]) -> bool:
        """Return False: nothing is placed here."""
        return False


def kept(changed: Fact) -> "Fact | PublishedSlice | ResourceClaimSeen":
    """Return what is kept of a fact: of slices and claims the part that is shown."""
    match changed:
        case DeviceSliceSeen(spec=spec):
            return PublishedSlice(spec.driver, spec.pool.name, spec.pool.generation, spec.node_name, len(spec.devices))
        case DeviceClaimFact():
            return _claim(changed)
    return changed


def _claim(claim: DeviceClaimFact) -> ResourceClaimSeen:
    if claim.allocation is None:
        asked = msgspec.msgpack.encode((claim.devices.requests, claim.devices.constraints), order="deterministic")
        counts = requested_devices(claim.devices)
        return ResourceClaimSeen("pending", (), (), blake2b(asked, digest_size=16).digest(), counts)
    classes: dict[str, str] = {}
    for request in claim.devices.requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        classes |= {f"{request.name}/{each.name}": each.device_class_name for each in request.first_available}
    devices = tuple(
        ClaimedDevice(each.driver, each.pool, each.device, classes.get(each.request, ""))
        for each in claim.allocation.devices.results
        if not each.admin_access
    )
    counts = given_devices(claim.devices, map(device_result, claim.allocation.devices.results))
    state: api.ResourceClaimState = "reserved" if claim.reserved_for else "allocated"
    return ResourceClaimSeen(state, devices, claim.reserved_for, counts=counts)


def devices_of_claims(
    store: "StateStore", pod: "PodSeen", decided: tuple[DeviceClaim, ...]
) -> tuple[api.PodDevice, ...]:
    """Return the devices of a placed pod's ResourceClaims; ``decided``: what was decided for them."""
    chosen = {each.key: [device.id for device in each.results if not device.admin] for each in decided}
    found = []
    for each in pod.device_claims:
        seen = store.device_claims.get(fact("deviceclaim", each.claim)) if each.claim else None
        ids = chosen.get(each.claim, [])
        if seen is not None and seen.state != "pending":
            ids = [device.id for device in seen.devices]
        found += [api.claim_device(each.claim.partition("/")[2], device) for device in ids]
    return tuple(found)


def driver_devices(store: "StateStore") -> Iterator[api.DriverDevices]:
    """Yield the devices of each driver and node, in this order."""
    newest: dict[tuple[str, str], int] = {}
    nodes: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for each in store.device_slices.values():
        pool = each.driver, each.pool
        newest[pool] = max(each.generation, newest.get(pool, each.generation))
        nodes[pool].add(each.node)
    total: Counter[tuple[str, str]] = Counter()
    for each in store.device_slices.values():
        total[each.driver, each.node] += each.devices if each.generation == newest[each.driver, each.pool] else 0
    classes: defaultdict[tuple[str, str], set[tuple[str, tuple[str, str, str]]]] = defaultdict(set)
    pods: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    known = {each.name for each in store.device_classes.values()}
    for claim in store.device_claims.values():
        known_pods = (store.pods.get(fact("pod", uid)) for uid in claim.pods if claim.devices)
        users = [f"{pod.namespace}/{pod.name}" for pod in known_pods if pod is not None]
        places = set[tuple[str, str]]()
        for device in claim.devices:
            of_pool = nodes.get((device.driver, device.pool), ())
            key = device.driver, next(iter(of_pool)) if len(of_pool) == 1 else ""
            name = device.device_class if device.device_class in known else UNKNOWN_CLASS
            classes[key].add((name, device.id))
            places.add(key)
        for key in places:
            pods[key].update(users)
    for driver, node in sorted({*total, *classes}):
        used = classes[driver, node]
        yield api.DriverDevices(
            driver=driver,
            node=node,
            devices=total[driver, node],
            allocated=len({device for _, device in used}),
            classes=dict(sorted(Counter(name for name, _ in used).items())),
            pods=tuple(sorted(pods[driver, node])),
        )


def with_node_devices(
    part: "StateStore", slices: Mapping[str, PublishedSlice], claims: Mapping[str, ResourceClaimSeen], node: str
) -> "StateStore":
    """Return a part of a store with those slices that are of a node, and those claims that have devices of their pools.

    It reads all slices and claims: for a large cluster this takes long.
    """
    of_node = {subject: each for subject, each in slices.items() if each.node == node}
    pools = {(each.driver, each.pool) for each in of_node.values()}
    of_pools = {
        subject: claim
        for subject, claim in claims.items()
        if pools and any((device.driver, device.pool) in pools for device in claim.devices)
    }
    return replace(part, device_slices=of_node, device_claims=part.device_claims | of_pools)
