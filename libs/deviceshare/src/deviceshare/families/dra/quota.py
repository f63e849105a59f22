"""What ResourceClaims count in queues: devices of a class, and what their shares consume, by names of resources.

The names are those of Volcano: ``deviceclass/<class>`` and ``<capacity>.deviceclass/<class>``. Until a claim has
devices, a request counts with its first alternative, and mode All with one device; access of administrators counts
nothing.

Source: Volcano pkg/scheduler/plugins/capacity (parseDRAResourceList).
"""

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from math import ceil

from deviceshare.model import DeviceResult, ResourceAmounts, parse_quantity
from deviceshare.model.device_objects import DevicesSpec, Exact

_OF_CLASS = "deviceclass/"


def is_of_class(resource: str) -> bool:
    """Return whether an amount of this resource is one of devices of a class."""
    return resource.startswith(_OF_CLASS) or f".{_OF_CLASS}" in resource


def requested_devices(devices: DevicesSpec) -> ResourceAmounts:
    """Return what a claim counts that has no devices."""
    total = defaultdict[str, Fraction](Fraction)
    for request in devices.requests:
        exact = next(iter(request.first_available), request.exactly)
        if exact is None or exact.admin_access:
            continue
        number = exact.count if exact.allocation_mode == "ExactCount" else 1
        consumed = exact.capacity.requests if exact.capacity is not None else {}
        _add(total, exact, number, consumed.items())
    return _rounded(total)


def has_choice(devices: DevicesSpec, names: Iterable[str]) -> bool:
    """Return whether a claim may count another amount of these resources once it has devices.

    A share consumes of each capacity of its device, also of those that no request names.
    """
    classes = {name.partition(f".{_OF_CLASS}")[2] for name in names}
    return any(
        each.first_available
        or (
            each.exactly is not None
            and (each.exactly.allocation_mode == "All" or each.exactly.device_class_name in classes)
        )
        for each in devices.requests
    )


def given_devices(devices: DevicesSpec, results: Iterable[DeviceResult]) -> ResourceAmounts:
    """Return what a claim counts that has these devices."""
    alternatives = {
        f"{request.name}/{each.name}" if request.first_available else request.name: each
        for request in devices.requests
        for each in (request.first_available or (request.exactly,))
        if each is not None
    }
    total = defaultdict[str, Fraction](Fraction)
    for result in results:
        exact = alternatives.get(result.request)
        if exact is not None and not result.admin:
            _add(total, exact, 1, result.consumed)
    return _rounded(total)


def _add(
    total: defaultdict[str, Fraction], exact: Exact, number: int, consumed: Iterable[tuple[str, str | int | float]]
) -> None:
    name = f"{_OF_CLASS}{exact.device_class_name}"
    total[name] += number
    for capacity, amount in consumed:
        try:
            total[f"{capacity}.{name}"] += number * parse_quantity(amount)
        except ValueError:
            continue  # written by another scheduler; the device itself counts


def _rounded(total: defaultdict[str, Fraction]) -> ResourceAmounts:
    return tuple(sorted((name, ceil(amount)) for name, amount in total.items() if amount))
