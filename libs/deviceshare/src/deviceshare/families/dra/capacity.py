"""What a request consumes of the capacities of a device. Source: consumable capacity of the allocator of 1.37.2."""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.views import Capacity, Device, Exact, RequestPolicy
from deviceshare.model import parse_quantity

Amounts = dict[str, Fraction]
_LARGEST = 2**63 - 1


def consumption(request: Exact, driver: str, device: Device, *, fractional: bool, where: str) -> Amounts | None:
    """Return what a request consumes of each capacity of a device, None if the device cannot serve it.

    Raises:
        AllocationError: an amount is negative, or 64 bits do not hold it.
    """
    wanted = dict(request.capacity.requests) if request.capacity is not None else {}
    consumed: Amounts = {}
    for name, capacity in device.capacity.items():
        asked = wanted.pop(name, None)
        if asked is None:
            domain, _, plain = name.rpartition("/")
            asked = (
                wanted.pop(plain if domain == driver else f"{driver}/{name}", None) if domain in ("", driver) else None
            )
        amount = _amount(capacity, None if asked is None else parse_quantity(asked), fractional, f"{where}: {name!r}")
        if amount is None:
            return None
        consumed[name] = amount
    return None if wanted else consumed


def fits(device: Device, consumed: Amounts, used: Mapping[str, Fraction]) -> bool:
    """Return whether a device has room for a further share beside those that it has."""
    return all(
        used.get(name, Fraction(0)) + amount <= parse_quantity(device.capacity[name].value)
        for name, amount in consumed.items()
    )


def _amount(capacity: Capacity, asked: Fraction | None, fractional: bool, where: str) -> Fraction | None:
    policy, value = capacity.request_policy, parse_quantity(capacity.value)
    if (asked is not None and asked < 0) or value < 0:
        raise AllocationError("capacity-negative", f"capacity {where}: capacity value is negative")
    if asked is None:
        return value if policy is None or policy.default is None else parse_quantity(policy.default)
    if policy is None:
        return asked
    if policy.valid_values:
        return min((v for v in map(parse_quantity, policy.valid_values) if v >= asked), default=None)
    return _in_range(policy, asked, fractional, where) if policy.valid_range is not None else asked


def _in_range(policy: RequestPolicy, asked: Fraction, fractional: bool, where: str) -> Fraction | None:
    bounds = policy.valid_range
    assert bounds is not None
    unit = 1000 if fractional else 1
    # Kubernetes counts in whole numbers, or in thousandths.
    least = Fraction(ceil(parse_quantity(bounds.min) * unit), unit)
    amount = asked
    if asked < least:
        amount = least
    elif bounds.step is not None:
        step = Fraction(ceil(parse_quantity(bounds.step) * unit), unit)
        whole = Fraction(ceil(asked * unit), unit)
        if whole * unit > _LARGEST:
            raise AllocationError("capacity-not-representable", f"capacity {where}: the request exceeds 64 bits")
        amount = least + ceil((whole - least) / step) * step if step > 0 else whole
        if amount * unit > _LARGEST:
            raise AllocationError(
                "capacity-not-representable", f"capacity {where}: the rounded request exceeds 64 bits"
            )
    return None if bounds.max is not None and amount > parse_quantity(bounds.max) else amount
