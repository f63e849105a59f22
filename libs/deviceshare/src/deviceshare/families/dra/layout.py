"""The devices that a node sees, in the form in which they are searched; nodes with equal slices share a layout."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from deviceshare.families.dra.capacity import Amounts
from deviceshare.families.dra.in_use import PoolUse
from deviceshare.families.dra.pools import Candidate, Features, Place, Pool, gather
from deviceshare.model import parse_quantity
from deviceshare.model.device_objects import ResourceSlice

_TAKES = 1 << 10
"""How often one search may take a device: access of administrators consumes counters each time."""
MAX_ROOMS = 20_000
"""States of counter sets, of all layouts together, whose room is remembered."""


class Taken(NamedTuple):
    """The devices of a layout that claims have, by number: dedicated ones, and what shares consume."""

    devices: frozenset[int]
    shares: Mapping[int, Amounts]
    left: Mapping[int, int]
    """What is left of each counter set."""
    blocked: frozenset[int]
    """The pools of which a counter is negative: no device that counts can be given."""


class Counters:
    """A counter set: what is left of its counters is one number with a field for each.

    The highest bit of a field is set as long as the counter is not negative.
    """

    def __init__(self, pool: Pool, name: str) -> None:
        names = sorted(counter for of_set, counter in pool.counters if of_set == name)
        users = [use for each in pool.all_devices for use in each.device.consumes_counters if use.counter_set == name]
        needs = [{key: parse_quantity(each.value) for key, each in use.counters.items()} for use in users]
        totals = {key: pool.counters[name, key] for key in names}
        self._unit = lcm(1, *(each.denominator for amounts in (totals, *needs) for each in amounts.values()))
        most = max(
            # A device may give to a counter: amounts are not restricted.
            (abs(totals[key]) + _TAKES * sum(abs(each.get(key, Fraction(0))) for each in needs) for key in names),
            default=Fraction(0),
        )
        bits = int(most * self._unit).bit_length() + 2
        self._shifts = {key: bits * at for at, key in enumerate(names)}
        self.guard = sum(1 << (shift + bits - 1) for shift in self._shifts.values())
        self.total = self.guard + self.packed(totals)
        self._totals = totals
        self.kinds: dict[bytes, list[tuple[int, float]]] = {}
        """By kind the devices that consume of it, each with what, and how much of the counters that is."""

    def packed(self, amounts: Mapping[str, Fraction]) -> int:
        """Return amounts as a number that can be subtracted from what is left."""
        return sum(int(amount * self._unit) << self._shifts[key] for key, amount in amounts.items())

    def is_negative(self, left: int) -> bool:
        """Return whether less than nothing is left of a counter."""
        return left & self.guard != self.guard

    def add(self, kind: bytes, need: int, amounts: Mapping[str, Fraction]) -> None:
        """Add a device that consumes some of it; devices of one kind serve the same requests."""
        size = max((float(each / self._totals[key]) for key, each in amounts.items() if self._totals[key]), default=0.0)
        self.kinds.setdefault(kind, []).append((need, size))

    def room(self, left: int) -> float:
        """Return how much of all kinds of devices has room in what is left, 1 if nothing is used."""
        return _room(self, left)


@lru_cache(maxsize=MAX_ROOMS)
def _room(counters: Counters, left: int) -> float:
    full, found, guard = 0.0, 0.0, counters.guard
    for kind in counters.kinds.values():
        fitting = sum((left - need) & guard == guard for need, _ in kind)
        found += kind[0][1] * fitting / len(kind)
        full += kind[0][1]
    return found / full if full else 0.0


class LayoutDevice:
    """A device of a layout."""

    __slots__ = (
        "candidate",
        "consumes",
        "grouped",
        "kind",
        "number",
        "pool",
        "root",
        "shared",
        "simple",
        "size",
        "uses",
    )

    def __init__(self, number: int, candidate: Candidate, pool: int, features: Features) -> None:
        self.number, self.candidate, self.pool = number, candidate, pool
        device = candidate.device
        self.shared = device.allow_multiple_allocations and "ConsumableCapacity" in features
        self.consumes = bool(device.consumes_counters)
        self.kind = encode(
            (
                candidate.id[0],
                candidate.slice.spec.skip_node_operations,
                replace(device, name="", consumes_counters=()),
            )
        )
        """Equal for devices that serve the same requests."""
        self.simple = not (self.shared or self.consumes)
        """Whether nothing but being in use matters to it."""
        self.uses: tuple[tuple[int, int], ...] = ()
        """Counter sets by number, each with what the device consumes of it."""
        self.grouped = False
        """Whether devices of its pool have compatibility groups."""
        self.size = 0.0
        """How capable it is, compared with the other devices of the layout."""
        self.root = tuple(device.attributes.get(f"resource.kubernetes.io/{name}") for name in ("pcieRoot", "numaNode"))


class Layout:
    """The pools that a node sees, with numbers for their devices and counter sets.

    Args:
        slices: the slices of these pools.
        place: the node, or one of those that see the same.
        features: the features that are on.
    """

    def __init__(self, slices: Iterable[ResourceSlice], place: Place, features: Features) -> None:
        slices = list(slices)
        self.place, self.features = place, features
        self.pools = gather(slices, place, features)
        self.names = sorted({(each.spec.driver, each.spec.pool.name) for each in slices})
        """The pools in the order in which a node passes what is in use of them."""
        self.devices: list[LayoutDevice] = []
        """All devices; those that can be given have the first numbers, in the order in which they are tried."""
        self.sets: list[Counters] = []
        self.sets_of: dict[int, tuple[int, ...]] = {}
        """By pool the numbers of its counter sets."""
        self.numbers: list[dict[str, list[int]]] = [{} for _ in self.names]
        usable = [pool for pool in self.pools if not (pool.invalid or pool.incomplete)]
        here = [(pool, each) for pool in usable for each in pool.devices]
        others = [(pool, each) for pool in usable for each in pool.all_devices[len(pool.devices) :]]
        self.given = len(here)
        """How many devices can be given."""
        set_numbers: dict[tuple[int, str], int] = {}
        for pool in usable:
            at = self.names.index((pool.driver, pool.name))
            for name in sorted({of_set for of_set, _ in pool.counters}):
                set_numbers[at, name] = len(self.sets)
                self.sets.append(Counters(pool, name))
            self.sets_of[at] = tuple(number for (of_pool, _), number in set_numbers.items() if of_pool == at)
        for pool, each in (*here, *others):
            self._add(pool, each, set_numbers)
        grouped = {
            device.pool
            for device in self.devices
            if any(use.compatibility_groups for use in device.candidate.device.consumes_counters)
        }
        largest: dict[str, Fraction] = {}
        for device in self.devices:
            device.grouped = device.pool in grouped
            for key, capacity in device.candidate.device.capacity.items():
                largest[key] = max(largest.get(key, Fraction(0)), parse_quantity(capacity.value))
        for device in self.devices:
            device.size = sum(
                float(parse_quantity(capacity.value) / largest[key])
                for key, capacity in device.candidate.device.capacity.items()
                if largest[key]
            )

    def _add(self, pool: Pool, each: Candidate, set_numbers: Mapping[tuple[int, str], int]) -> None:
        at = self.names.index((pool.driver, pool.name))
        device = LayoutDevice(len(self.devices), each, at, self.features)
        self.devices.append(device)
        self.numbers[at].setdefault(each.device.name, []).append(device.number)
        uses: dict[int, int] = {}
        for use in each.device.consumes_counters if "PartitionableDevices" in self.features else ():
            number = set_numbers.get((at, use.counter_set))
            if number is None:
                continue  # a set without counters
            amounts = {name: parse_quantity(counter.value) for name, counter in use.counters.items()}
            need = self.sets[number].packed(amounts)
            uses[number] = uses.get(number, 0) + need
            if device.number < self.given:
                self.sets[number].add(device.kind, need, amounts)
        device.uses = tuple(uses.items())

    def taken(self, uses: Sequence[PoolUse | None]) -> Taken:
        """Return what claims have of the devices; ``uses``: of each of the pools ``names``."""
        devices, shares = set[int](), dict[int, Amounts]()
        for numbers, use in zip(self.numbers, uses, strict=True):
            if use is not None:
                for name in use.dedicated:
                    devices.update(numbers.get(name, ()))
                for name, share in use.shares.items():
                    shares.update(dict.fromkeys(numbers.get(name, ()), share.amounts))
        left = {number: each.total for number, each in enumerate(self.sets)}
        for number in devices | shares.keys() if shares else devices:
            for of_set, need in self.devices[number].uses:
                left[of_set] -= need
        negative = {at for at, each in left.items() if self.sets[at].is_negative(each)}
        blocked = frozenset(pool for pool, sets in self.sets_of.items() if negative and not negative.isdisjoint(sets))
        return Taken(frozenset(devices), shares, left, blocked)

    @property
    def incomplete(self) -> bool:
        """Whether a pool of the node is being updated."""
        return any(pool.incomplete for pool in self.pools)
