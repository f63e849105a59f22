"""ResourceSlices as they are kept: attributes in which nodes differ, such as uuids, are apart, and compressed.

Slices that differ only in that have the same kind, and nodes with slices of the same kinds, of which the same devices
are in use, share one answer for a claim that names none of these attributes.
"""

import zlib
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from deviceshare.families.dra.selectors import attribute_value, named
from deviceshare.model.device_objects import (
    Attribute,
    DevicesSpec,
    Metadata,
    PoolOfSlice,
    ResourceSlice,
    Selector,
    SliceSpec,
)

NEAR = frozenset(["pcieRoot", "numaNode"])
"""Attributes that are always seen: devices near each other are preferred."""
MAX_NAMES = 1_000
"""Attributes of devices that are known by name; further ones are apart."""
MAX_VALUES = 64
"""Different values of an attribute, on all devices since the start; one with more is apart. So many models of cards or
versions of drivers may be in a cluster."""
_WINDOW = 1 << 15
"""Bytes by which zlib refers back."""
_named = lru_cache(4096)(named)
_OWN = msgspec.json.Decoder(list[dict[str, Attribute]])


class SliceKind:
    """What is equal in several slices; ``own``: what is apart in one of them, as a dictionary for zlib."""

    __slots__ = ("__weakref__", "own", "spec")

    def __init__(self, spec: SliceSpec, own: bytes) -> None:
        self.spec, self.own = spec, own[-_WINDOW:]


class KeptSlice(msgspec.Struct, frozen=True, gc=False):
    """A slice: its kind, and what is its own."""

    name: str
    node: str
    pool: tuple[str, str]
    generation: int
    kind: SliceKind
    own: bytes
    """The attributes of its devices that are apart, compressed."""

    def seen(self) -> ResourceSlice:
        """Return the slice without the attributes that are apart."""
        spec = self.kind.spec
        pool = PoolOfSlice(self.pool[1], self.generation, spec.pool.resource_slice_count)
        return ResourceSlice(metadata=Metadata(name=self.name), spec=replace(spec, node_name=self.node, pool=pool))

    def whole(self) -> ResourceSlice:
        """Return the slice as its driver published it."""
        spread = zlib.decompressobj(wbits=-15, zdict=self.kind.own)
        own = _OWN.decode(spread.decompress(self.own) + spread.flush())
        seen = self.seen()
        devices = [
            replace(device, attributes=device.attributes | apart) if apart else device
            for device, apart in zip(seen.spec.devices, own, strict=True)
        ]
        return replace(seen, spec=replace(seen.spec, devices=tuple(devices)))


class SliceKinds:
    """The kinds of slices, and which attributes are apart."""

    def __init__(self) -> None:
        self._values: dict[str, set[Attribute]] = {}
        """By attribute, without its domain, the values that devices have; those of one that is apart are not kept."""
        self._apart: set[str] = set()
        self._kinds: WeakValueDictionary[bytes, SliceKind] = WeakValueDictionary()

    def learn(self, spec: SliceSpec) -> bool:
        """Note the attributes of a slice; return whether more are apart: then all slices are to be kept again."""
        before = len(self._apart), self._full
        for device in spec.devices:
            for name, value in device.attributes.items():
                plain = name.rpartition("/")[2]
                if plain in self._apart or plain in NEAR:
                    continue
                values = self._values.get(plain)
                if values is None:
                    if self._full:
                        continue
                    values = self._values[plain] = set()
                values.add(value)
                if len(values) > MAX_VALUES:
                    del self._values[plain]
                    self._apart.add(plain)
        return (len(self._apart), self._full) != before

    @property
    def _full(self) -> bool:
        """Whether further attributes are apart, whatever values they have."""
        return len(self._values) + len(self._apart) >= MAX_NAMES

    def names_apart(self, selectors: Iterable[Selector], devices: DevicesSpec) -> bool:
        """Return whether selectors, or the requests and constraints of a claim, may look at what is apart."""
        expressions = [each.cel.expression for each in selectors if each.cel is not None]
        for request in devices.requests:
            for exact in (request.exactly, *request.first_available):
                if exact is not None:
                    expressions += [each.cel.expression for each in exact.selectors if each.cel is not None]
        names = {
            (each.match_attribute or each.distinct_attribute or "").rpartition("/")[2] for each in devices.constraints
        }
        for expression in expressions:
            of_expression, walks = _named(expression)
            if walks:
                return True
            names |= of_expression
        return not self._apart.isdisjoint(names) or (self._full and not names <= self._values.keys() | NEAR)

    def keep(self, name: str, spec: SliceSpec) -> KeptSlice:
        """Return a slice as it is kept."""
        seen, own = [], []
        for device in spec.devices:
            apart = {key: each for key, each in device.attributes.items() if self._is_apart(key, each)}
            attributes = {key: each for key, each in device.attributes.items() if key not in apart}
            seen.append(replace(device, attributes=attributes) if apart else device)
            own.append(apart)
        blank = replace(
            spec, node_name="", pool=PoolOfSlice("", 0, spec.pool.resource_slice_count), devices=tuple(seen)
        )
        text = msgspec.json.encode(own)
        key = blake2b(msgspec.json.encode(blank), digest_size=20).digest()
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = SliceKind(blank, text)
        squeeze = zlib.compressobj(wbits=-15, zdict=kind.own)
        pool = spec.driver, spec.pool.name
        compressed = squeeze.compress(text) + squeeze.flush()
        return KeptSlice(name, spec.node_name, pool, spec.pool.generation, kind, compressed)

    def again(self, each: KeptSlice) -> KeptSlice:
        """Return a slice by what is apart now."""
        return self.keep(each.name, each.whole().spec)

    def _is_apart(self, name: str, value: Attribute) -> bool:
        plain = name.rpartition("/")[2]
        return plain not in self._values and plain not in NEAR and attribute_value(value) is not None
