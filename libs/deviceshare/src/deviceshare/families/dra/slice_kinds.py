"""Which ResourceSlices differ only in what no known selector or constraint sees.

Nodes with equal slices, of which the same devices are in use, share one answer for a claim. The names of devices, of
pools and of nodes, and attributes that nothing names, such as uuids, differ on all nodes.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from deviceshare.families.dra.selectors import attribute_value, named
from deviceshare.model.device_objects import Device, DevicesSpec, ResourceSlice, Selector

MAX_NAMES = 1_000
"""Names of attributes that are known; beyond, every attribute counts."""
MAX_KINDS = 20_000
"""Kinds that are known; beyond, all are forgotten and numbered on."""

_NO_DEVICES = DevicesSpec()


class SliceKinds:
    """Numbers for slices: equal ones have the same."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._all = False
        """Whether every attribute counts."""
        self._kinds: dict[bytes, int] = {}
        self._next = 0

    def read(self, selectors: Iterable[Selector], devices: DevicesSpec = _NO_DEVICES) -> bool:
        """Note what selectors, and the requests of a claim, name; return whether they name anything new."""
        expressions = [each.cel.expression for each in selectors if each.cel is not None]
        for request in devices.requests:
            for exact in (request.exactly, *request.first_available):
                if exact is not None:
                    expressions += [each.cel.expression for each in exact.selectors if each.cel is not None]
        names = {
            (each.match_attribute or each.distinct_attribute or "").rpartition("/")[2] for each in devices.constraints
        }
        before = len(self._names), self._all
        for expression in expressions:
            of_expression, walks = named(expression)
            names |= of_expression
            self._all |= walks
        self._names |= names
        self._all |= len(self._names) > MAX_NAMES
        if self._all:
            self._names.clear()
        return (len(self._names), self._all) != before

    def of(self, each: ResourceSlice, node: str) -> int:
        """Return the number of a slice as a node sees it."""
        spec = each.spec
        here = spec.node_name == node
        seen = replace(
            spec,
            node_name="" if here else spec.node_name,
            pool=replace(spec.pool, name=""),
            devices=tuple(self._seen(device) for device in spec.devices),
        )
        key = (b"=" if here else b"") + msgspec.json.encode(seen)
        found = self._kinds.get(key)
        if found is None:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()
            self._next += 1
            found = self._kinds[key] = self._next
        return found

    def _seen(self, device: Device) -> Device:
        if self._all:
            return device
        attributes = {
            name: value
            for name, value in device.attributes.items()
            if name.rpartition("/")[2] in self._names or attribute_value(value) is None
        }
        return replace(device, attributes=attributes)
