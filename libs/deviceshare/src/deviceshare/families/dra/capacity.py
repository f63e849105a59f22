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
    consumed: Amounts = {}
    # Amounts that are errors come before those that only exclude the device.
    for name, capacity in device.capacity.items():
        asked = parse_quantity(wanted[name]) if name in wanted else None
        amount = _amount(capacity, asked, fractional, f"{where}: {name!r}")
        if amount < 0:
            raise AllocationError("capacity-negative", f"capacity {where}: {name!r}: capacity value is negative")
        consumed[name] = amount
    policies = ((capacity.request_policy, consumed[name]) for name, capacity in device.capacity.items())
    return (
        consumed if all(policy is None or _obeys(policy, amount, fractional) for policy, amount in policies) else None
    )


def fits(device: Device, consumed: Amounts, used: Mapping[str, Fraction]) -> bool:
    """Return whether a device has room for a further share beside those that it has."""
    return all(
        used.get(name, Fraction(0)) + amount <= parse_quantity(device.capacity[name].value)
        for name, amount in consumed.items()
    )


def _amount(capacity: Capacity, asked: Fraction | None, fractional: bool, where: str) -> Fraction:
    policy = capacity.request_policy
    if asked is None:
        return parse_quantity(capacity.value if policy is None or policy.default is None else policy.default)
    if policy is None:
        return asked
    if policy.valid_range is not None:
        return _in_range(policy.valid_range, asked, fractional, where)
    return min((each for each in map(parse_quantity, policy.valid_values) if each >= asked), default=asked)


def _in_range(bounds: Range, asked: Fraction, fractional: bool, where: str) -> Fraction:
    """Return the next step in a range."""
    least = parse_quantity(bounds.min)
    if asked < least or bounds.step is None:
        return max(asked, least)
    unit = _parts(bounds, fractional)
    steps = _units(asked, unit) - _units(least, unit)
    step = _units(parse_quantity(bounds.step), unit)
    amount = _units(least, unit) + (-(-steps // step) * step if step > 0 else steps)
    if amount > _LARGEST or asked * unit > _LARGEST or (unit > 1 and not _in_thousandths(asked)):
        raise AllocationError("capacity-not-representable", f"capacity {where}: 64 bits do not hold the request")
    return Fraction(amount, unit)


def _obeys(policy: RequestPolicy, amount: Fraction, fractional: bool) -> bool:
    if policy.default is not None and amount == parse_quantity(policy.default):
        return True
    if (bounds := policy.valid_range) is None:
        return not policy.valid_values or amount in map(parse_quantity, policy.valid_values)
    if bounds.max is not None and amount > parse_quantity(bounds.max):
        return False
    unit = _parts(bounds, fractional)
    step = 0 if bounds.step is None else _units(parse_quantity(bounds.step), unit)
    if step <= 0:
        return True
    exact = unit == 1 or _in_thousandths(amount)
    return exact and (_units(amount, unit) - _units(parse_quantity(bounds.min), unit)) % step == 0


def _parts(bounds: Range, fractional: bool) -> int:
    """Return in how many parts of 1 Kubernetes counts in a range: thousandths, if 64 bits hold all its bounds so."""
    amounts = (each for each in (bounds.min, bounds.max, bounds.step) if each is not None)
    return 1000 if fractional and all(_in_thousandths(parse_quantity(each)) for each in amounts) else 1


def _in_thousandths(amount: Fraction) -> bool:
    return (amount * 1000).denominator == 1 and amount * 1000 <= _LARGEST


def _units(amount: Fraction, unit: int) -> int:
    return ceil(amount * unit)
