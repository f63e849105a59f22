"""Constraints over the attributes of the devices of a claim: equal, or all different. Source: constraint.go of 1.37."""

from typing import Any

from deviceshare.families.dra.selectors import attribute_value
from deviceshare.model.device_objects import Constraint, Device

Values = frozenset[tuple[str, Any]]


def values_of(constraint: Constraint, driver: str, device: Device, lists: bool) -> Values | None:
    """Return the typed values that a device has for a constraint, None if it is absent, or unknown.

    Without the feature ``lists`` an attribute of another type has no value, which suffices for the first device.
    """
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    attribute = device.attributes.get(name)
    if attribute is None:
        domain, _, plain = name.rpartition("/")
        attribute = device.attributes.get(plain) if domain == driver else None
    if attribute is None:
        return None
    if (known := attribute_value(attribute)) is None:
        return None if lists else frozenset()
    kind, value = known
    if isinstance(value, tuple):
        return frozenset((kind.removesuffix("s"), each) for each in value) if lists else frozenset()
    return frozenset([(kind, value)])


def applies(constraint: Constraint, request: str, alternative: str) -> bool:
    """Return whether a constraint is about a request, or about the chosen alternative of it."""
    names = constraint.requests
    return not names or request in names or (bool(alternative) and f"{request}/{alternative}" in names)


def allowed(constraint: Constraint, chosen: list[Values], values: Values | None) -> bool:
    """Return whether a device with these values may join those that were chosen."""
    if values is None or not chosen:
        return values is not None
    if constraint.match_attribute is not None:
        return bool(values.intersection(*chosen))
    return bool(values) and all(values.isdisjoint(each) for each in chosen)
