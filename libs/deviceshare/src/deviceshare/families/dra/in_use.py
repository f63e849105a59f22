"""The devices that allocated claims use."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from deviceshare.families.dra.capacity import Amounts
from deviceshare.families.dra.pools import DeviceId
from deviceshare.model import parse_quantity
from deviceshare.model.device_objects import ResourceClaim


class InUse(NamedTuple):
    """Devices that other claims have: dedicated ones, and what shares consume of the others."""

    devices: frozenset[DeviceId] = frozenset()
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
            if result.share_id:
                used = shares.setdefault(key, {})
                for name, value in result.consumed_capacity.items():
                    used[name] = used.get(name, Fraction(0)) + parse_quantity(value)
            else:
                devices.add(key)
    return InUse(frozenset(devices), shares)
