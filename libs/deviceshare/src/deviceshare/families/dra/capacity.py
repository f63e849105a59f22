"""What a request consumes of the capacities of a device. Source: consumable_capacity.go of the allocator of 1.37.2."""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from deviceshare.families.dra.errors import AllocationError
from deviceshare.model import parse_quantity
from deviceshare.model.device_objects import Capacity, Device, Exact, Range, RequestPolicy

Amounts = dict[str, Fraction]
_LARGEST = 2**63 - 1


def consumption(request: Exact, device: Device, *, fractional: bool, where: str) -> Amounts | None:
    """Return what a request consumes of each capacity of a device, None if the device cannot serve it.

    Raises:
        AllocationError: an amount is negative, or 64 bits do not hold it.
    """
    wanted = request.capacity.requests if request.capacity is not None else {}
    if not wanted.keys() <= device.capacity.keys():
        return None
    unit = 1000 if fractional else 1
    consumed: Amounts = {}
    # Amounts that are errors come before those that only exclude the device.
    for name, capacity in device.capacity.items():
        asked = parse_quantity(wanted[name]) if name in wanted else None
        amount = _amount(capacity, asked, unit, f"{where}: {name!r}")
        if amount < 0:
            raise AllocationError("capacity-negative", f"capacity {where}: {name!r}: capacity value is negative")
        consumed[name] = amount
    policies = ((capacity.request_policy, consumed[name]) for name, capacity in device.capacity.items())
    return consumed if all(policy is None or _obeys(policy, amount, unit) for policy, amount in policies) else None


def fits(device: Device, consumed: Amounts, used: Mapping[str, Fraction]) -> bool:
    """Return whether a device has room for a further share beside those that it has."""
    return all(
        used.get(name, Fraction(0)) + amount <= parse_quantity(device.capacity[name].value)
        for name, amount in consumed.items()
    )


def _amount(capacity: Capacity, asked: Fraction | None, unit: int, where: str) -> Fraction:
    policy = capacity.request_policy
    if asked is None:
        return parse_quantity(capacity.value if policy is None or policy.default is None else policy.default)
    if policy is None:
        return asked
    if policy.valid_range is not None:
        return _in_range(policy.valid_range, asked, unit, where)
    return min((each for each in map(parse_quantity, policy.valid_values) if each >= asked), default=asked)


def _in_range(bounds: Range, asked: Fraction, unit: int, where: str) -> Fraction:
    """Return the next step in a range; Kubernetes counts steps in whole numbers, or in thousandths."""
    least = parse_quantity(bounds.min)
    if asked < least or bounds.step is None:
        return max(asked, least)
    steps = _units(asked, unit) - _units(least, unit)
    step = _units(parse_quantity(bounds.step), unit)
    amount = _units(least, unit) + (-(-steps // step) * step if step > 0 else steps)
    if amount > _LARGEST or asked * unit > _LARGEST:
        raise AllocationError("capacity-not-representable", f"capacity {where}: 64 bits do not hold the request")
    return Fraction(amount, unit)


def _obeys(policy: RequestPolicy, amount: Fraction, unit: int) -> bool:
    if policy.default is not None and amount == parse_quantity(policy.default):
        return True
    if (bounds := policy.valid_range) is None:
        return not policy.valid_values or amount in map(parse_quantity, policy.valid_values)
    if bounds.max is not None and amount > parse_quantity(bounds.max):
        return False
    step = 0 if bounds.step is None else _units(parse_quantity(bounds.step), unit)
    return step <= 0 or (_units(amount, unit) - _units(parse_quantity(bounds.min), unit)) % step == 0


def _units(amount: Fraction, unit: int) -> int:
    return ceil(amount * unit)
