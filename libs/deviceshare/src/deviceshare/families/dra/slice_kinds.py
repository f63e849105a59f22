"""ResourceSlices as they are kept: what no known selector or constraint sees is apart, and compressed.

Slices that differ only in that have the same kind, and nodes with slices of the same kinds, of which the same devices
are in use, share one answer for a claim. The names of pools and of nodes, and attributes that nothing names, such as
uuids, differ on all nodes.
"""

import zlib
from collections.abc import Iterable, Set
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
"""Attributes of devices that are known by name; beyond, every attribute is seen."""
_WINDOW = 1 << 15
"""Bytes by which zlib refers back."""
_named = lru_cache(4096)(named)
_OWN = msgspec.json.Decoder(list[dict[str, Attribute]])


class SliceKind:
    """What is equal in several slices; ``own``: of one of them what is seen by nothing, as a dictionary for zlib."""

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
    """The attributes of its devices that nothing sees, compressed."""

    def seen(self) -> ResourceSlice:
        """Return the slice without what nothing sees."""
        spec = self.kind.spec
        pool = PoolOfSlice(self.pool[1], self.generation, spec.pool.resource_slice_count)
        return ResourceSlice(metadata=Metadata(name=self.name), spec=replace(spec, node_name=self.node, pool=pool))


class SliceKinds:
    """The kinds of slices, and which attributes are seen."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        """The attributes that devices have, without their domains."""
        self._users: dict[str, int] = {}
        """By attribute that is seen how many classes and claims name it."""
        self._walking = 0
        """How many classes and claims may look at any attribute."""
        self._all = False
        """Whether every attribute is seen."""
        self._kinds: WeakValueDictionary[bytes, SliceKind] = WeakValueDictionary()

    def learn(self, spec: SliceSpec) -> bool:
        """Note the attributes of a slice; return whether some are new: then all classes and claims are to be read."""
        if len(self._known) > MAX_NAMES:
            return False
        names = {name.rpartition("/")[2] for device in spec.devices for name in device.attributes}
        new = names - self._known
        self._known |= new
        return bool(new)

    @property
    def seen(self) -> Set[str] | None:
        """Which attributes are seen, None: all."""
        return None if self._all or len(self._known) > MAX_NAMES else set(self._users)

    def forget(self) -> Set[str] | None:
        """Forget what classes and claims name, which are to be read again; return which attributes were seen."""
        before = self.seen
        self._users, self._walking, self._all = {}, 0, False
        return before

    def read(self, selectors: Iterable[Selector], devices: DevicesSpec, sign: int) -> bool:
        """Note what a class or a claim names (``sign`` 1), or no longer (-1); return whether more attributes are seen.

        What nothing names any more is seen until :meth:`forget`.
        """
        expressions = [each.cel.expression for each in selectors if each.cel is not None]
        for request in devices.requests:
            for exact in (request.exactly, *request.first_available):
                if exact is not None:
                    expressions += [each.cel.expression for each in exact.selectors if each.cel is not None]
        names = {
            (each.match_attribute or each.distinct_attribute or "").rpartition("/")[2] for each in devices.constraints
        }
        walks = False
        for expression in expressions:
            of_expression, all_of_them = _named(expression)
            names |= of_expression
            walks = walks or all_of_them
        more = walks and not self._all
        self._walking += sign * walks
        self._all = self._all or walks
        for name in names & self._known:
            more = more or not (name in self._users or self._all)
            self._users[name] = self._users.get(name, 0) + sign
        return more

    @property
    def outdated(self) -> bool:
        """Whether attributes are seen that nothing names any more."""
        return (self._all and not self._walking) or not all(self._users.values())

    def keep(self, name: str, spec: SliceSpec) -> KeptSlice:
        """Return a slice as it is kept."""
        seen, own = [], []
        every = self.seen is None
        for device in spec.devices:
            apart = {} if every else {key: each for key, each in device.attributes.items() if self._is_apart(key, each)}
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
        """Return a slice by what is seen now."""
        spread = zlib.decompressobj(wbits=-15, zdict=each.kind.own)
        own = _OWN.decode(spread.decompress(each.own) + spread.flush())
        spec = each.seen().spec
        devices = [
            replace(device, attributes=device.attributes | apart)
            for device, apart in zip(spec.devices, own, strict=True)
        ]
        return self.keep(each.name, replace(spec, devices=tuple(devices)))

    def _is_apart(self, name: str, value: Attribute) -> bool:
        plain = name.rpartition("/")[2]
        return plain not in self._users and plain not in NEAR and attribute_value(value) is not None
