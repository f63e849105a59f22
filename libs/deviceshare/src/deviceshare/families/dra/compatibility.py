"""Compatibility groups of devices that consume the same counter set. Source: compatibility_groups.go of 1.37.2."""

from deviceshare.model.device_objects import Device

Groups = dict[str, frozenset[str] | None]
"""The groups that all devices of a counter set have in common; None: they have no groups."""


def join(groups: Groups, device: Device) -> None:
    """Add a device to the counter sets that it consumes, whether or not it goes with the others there."""
    for use in device.consumes_counters:
        own = frozenset(use.compatibility_groups)
        if use.counter_set not in groups:
            groups[use.counter_set] = own or None
        elif (known := groups[use.counter_set]) is not None and own:
            groups[use.counter_set] = known & own


def go_together(groups: Groups, device: Device) -> bool:
    """Return whether a device goes with the others of its counter sets; one without groups with its like only."""
    for use in device.consumes_counters:
        if use.counter_set in groups:
            known, own = groups[use.counter_set], frozenset(use.compatibility_groups)
            if (known is None) != (not own) or (known is not None and not known & own):
                return False
    return True
