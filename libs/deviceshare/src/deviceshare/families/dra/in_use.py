"""The devices that claims use."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Set
from fractions import Fraction
from typing import NamedTuple

from deviceshare.families.dra.capacity import Amounts, fits
from deviceshare.families.dra.pools import DeviceId
from deviceshare.model import DeviceResult, Quantity, parse_quantity
from deviceshare.model.device_objects import Device, ResourceClaim, ResourceSlice


class InUse(NamedTuple):
    """Devices that other claims have: dedicated ones, and what shares consume of the others."""

    devices: Set[DeviceId] = frozenset()
    shares: Mapping[DeviceId, Amounts] = {}


def in_use(claims: Iterable[ResourceClaim]) -> InUse:
    """Return what allocated claims use; access of administrators does not count."""
    devices: set[DeviceId] = set()
    shares: dict[DeviceId, Amounts] = {}
    for claim in claims:
        for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            key = (result.driver, result.pool, result.device)
            if result.admin_access:
                continue
            amounts = _amounts(result.consumed_capacity.items()) if result.share_id else None
            if amounts is None:
                devices.add(key)
                continue
            used = shares.setdefault(key, {})
            for name, amount in amounts.items():
                used[name] = used.get(name, Fraction(0)) + amount
    return InUse(frozenset(devices), shares)


class DeviceUse:
    """The devices in use of a cluster, which change."""

    def __init__(self) -> None:
        self._dedicated: Counter[DeviceId] = Counter()
        """How many claims have a device; more than one only if schedulers allocate it at the same time."""
        self._shares: dict[DeviceId, Amounts] = {}
        self._sharing: Counter[DeviceId] = Counter()
        """How many shares a device has."""
        self.now = InUse(self._dedicated.keys(), self._shares)
        """The devices in use at any time."""

    def add(self, result: DeviceResult, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) a device of a claim."""
        if result.admin:
            return
        consumed = _amounts(result.consumed) if result.shared else None
        if consumed is None:
            self._dedicated[result.id] += sign
            if not self._dedicated[result.id]:
                del self._dedicated[result.id]
            return
        self._sharing[result.id] += sign
        amounts = self._shares.setdefault(result.id, {})
        for name, amount in consumed.items():
            amounts[name] = amounts.get(name, Fraction(0)) + sign * amount
        if not self._sharing[result.id]:
            del self._sharing[result.id], self._shares[result.id]

    def of(self, each: ResourceSlice) -> Hashable:
        """Return what is in use of the devices of a slice, by their places in it."""
        driver, pool = each.spec.driver, each.spec.pool.name
        found: list[Hashable] = []
        for index, device in enumerate(each.spec.devices):
            key = (driver, pool, device.name)
            if key in self._dedicated:
                found.append(index)
            elif key in self._shares:
                found.append((index, *sorted(self._shares[key].items())))
        return tuple(found)

    def is_overused(self, key: DeviceId, device: Device) -> bool:
        """Return whether claims have more of a device than there is."""
        claims = self._dedicated.get(key, 0) + (key in self._shares)
        known = {name: amount for name, amount in self._shares.get(key, {}).items() if name in device.capacity}
        return claims > 1 or not fits(device, known, {})


def _amounts(consumed: Iterable[tuple[str, Quantity]]) -> Amounts | None:
    """Return what a share consumes, None if an amount cannot be read: then the device counts as wholly in use."""
    try:
        return {name: parse_quantity(value) for name, value in consumed}
    except ValueError:
        return None
