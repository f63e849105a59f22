"""The search for the devices of the claims of a pod on one node: all claims together, the first solution wins.

Source: the experimental allocator of k8s.io/dynamic-resource-allocation 0.37.2.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from deviceshare.families.dra.capacity import Amounts, fits
from deviceshare.families.dra.compatibility import Groups, go_together, join
from deviceshare.families.dra.constraints import Values, allowed, applies, values_of
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.in_use import InUse
from deviceshare.families.dra.matching import DeviceRequest, Matching
from deviceshare.families.dra.pools import Candidate, CounterKey, DeviceId, Features, Place, gather
from deviceshare.families.dra.requests import MAX_DEVICES, RequestReader
from deviceshare.families.dra.selectors import Selectors
from deviceshare.families.dra.taints import tolerated
from deviceshare.model import DeviceResult, format_quantity, parse_quantity
from deviceshare.model.device_objects import Device, DeviceClass, Exact, ResourceClaim, ResourceSlice

MAX_STEPS = 20_000
"""Devices that one search tries, at most; beyond, the node is refused."""


class Given(NamedTuple):
    """A device for a request; ``request`` has the alternative's name after a slash."""

    request: str
    candidate: Candidate
    consumed: Amounts
    shared: bool
    exact: Exact

    @property
    def result(self) -> DeviceResult:
        """The device as it is in decisions."""
        consumed = [(name, format_quantity(amount)) for name, amount in sorted(self.consumed.items())]
        shares = tuple(consumed) if self.shared else ()
        return DeviceResult(self.request, *self.candidate.id, self.shared, shares, self.exact.admin_access)


class Answer(NamedTuple):
    """The devices of each claim, None if they do not fit; ``steps``: the devices that were tried."""

    claims: tuple[tuple[Given, ...], ...] | None
    steps: int


class _TooMany(Exception):
    """The claim would have more than MAX_DEVICES; another alternative may not."""


class Solver:
    """Finds devices on one node for claims that are allocated together."""

    def __init__(
        self,
        place: Place,
        slices: Iterable[ResourceSlice],
        classes: Mapping[str, DeviceClass],
        used: InUse,
        features: Features,
        selectors: Selectors,
        only: Collection[DeviceId] | None = None,
    ) -> None:
        """``only``: the devices that may be chosen, None: all."""
        self._place, self._features = place, features
        self._pools = gather(slices, place, features)
        self.matching = Matching(features, selectors)
        """Which devices match the requests."""
        self._reader = RequestReader(self._pools, classes, features, self.matching)
        self._used = used
        self._order = [
            each
            for pool in self._pools
            if not (pool.invalid or pool.incomplete)
            for each in pool.devices
            if only is None or each.id in only
        ]
        self._pool_of = {(pool.driver, pool.name): pool for pool in self._pools}
        self._left_of: dict[tuple[str, str], tuple[dict[CounterKey, Fraction] | None, Groups]] = {}
        """By pool, what devices in use leave of it."""
        self._chosen: list[list[Given]] = []
        self._marked: dict[DeviceId, int] = {}
        self._steps = 0

    @property
    def steps(self) -> int:
        """How many devices were tried, also by a search without an answer."""
        return self._steps

    def solve(self, claims: Sequence[ResourceClaim], max_steps: int = MAX_STEPS) -> Answer:
        """Return the devices of all claims.

        Raises:
            AllocationError: a claim cannot be evaluated, or a pool is invalid, or the search is too long.
        """
        self._max_steps = max_steps
        self._claims = claims
        self._asks = [self._reader.read(claim) for claim in claims]
        self._chosen = [[] for _ in claims]
        if self._claim(0):
            return Answer(tuple(tuple(each) for each in self._chosen), self._steps)
        if any(pool.invalid for pool in self._pools):
            raise AllocationError("invalid-pools", f"node {self._place.name}: a resource pool is invalid", of_node=True)
        return Answer(None, self._steps)

    @property
    def requests(self) -> Iterator[list[DeviceRequest]]:
        """The requests of the claims of :meth:`solve`, each with its alternatives."""
        return chain.from_iterable(self._asks)

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The devices that the node sees, in the order in which they are tried."""
        return self._order

    @property
    def incomplete(self) -> bool:
        """Whether a pool of the node is being updated."""
        return any(pool.incomplete for pool in self._pools)

    def is_free(self, request: DeviceRequest, candidate: Candidate) -> bool:
        """Return whether what other claims use leaves a device to a request."""
        if request.exact.admin_access:
            return True
        if candidate.id in self._used.devices:
            return False
        shares = self._used.shares.get(candidate.id)
        if shares is None or not self._shared(candidate.device):
            return shares is None
        amounts = self.matching.consumption(request, candidate)
        return amounts is not None and fits(candidate.device, amounts, shares)

    def _operable(self, candidate: Candidate) -> bool:
        """Return whether the features that a device needs are on, and the node can do without what its slice skips.

        A device that fails here belongs to mode All, which it prevents.
        """
        if candidate.device.consumes_counters and "PartitionableDevices" not in self._features:
            return False
        if not candidate.slice.spec.skip_node_operations:
            return True
        return "OptionalNodeOperations" in self._features and "DRAOptionalNodeOperations" in self._place.features

    def _claim(self, claim: int) -> bool:
        if claim >= len(self._claims):
            return True
        return self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        if request >= len(self._asks[claim]):
            try:
                return self._claim(claim + 1)
            except _TooMany:
                return False
        alternatives = self._asks[claim][request]
        if not alternatives[0].alternative:
            return self._devices(claim, request, alternatives[0], 0, 0)
        too_many = 0
        for ask in alternatives:
            try:
                if self._devices(claim, request, ask, 0, 0):
                    return True
            except _TooMany:
                too_many += 1
        if too_many == len(alternatives):
            raise _TooMany
        return False

    def _devices(self, claim: int, request: int, ask: DeviceRequest, number: int, start: int) -> bool:
        if number >= ask.number and not (ask.every is not None and not ask.every):
            return self._request(claim, request + 1)
        if number == 0 and len(self._chosen[claim]) + ask.number > MAX_DEVICES:
            raise _TooMany
        if ask.every is not None:
            if not ask.every:
                return False
            return self._try(claim, request, ask, number, ask.every[number], 0)
        for index in range(start, len(self._order)):
            candidate = self._order[index]
            if self._is_taken(claim, ask, candidate) or not self.matching.selectable(ask, candidate):
                continue
            if not self.matching.enough(ask, candidate):
                continue  # an amount that is an error comes before what only excludes the device
            if self._try(claim, request, ask, number, candidate, index + 1):
                return True
        return False

    def _is_taken(self, claim: int, ask: DeviceRequest, candidate: Candidate) -> bool:
        if ask.exact.admin_access:
            # A shared device may be given again, also in this claim (allocateDevice: only others are marked).
            return not self._shared(candidate.device) and any(
                given.candidate.id == candidate.id for given in self._chosen[claim]
            )
        if self._shared(candidate.device) and candidate.id not in self._used.devices:
            return False
        return candidate.id in self._used.devices or self._marked.get(candidate.id, 0) > 0

    def _shared(self, device: Device) -> bool:
        return device.allow_multiple_allocations and "ConsumableCapacity" in self._features

    def _try(self, claim: int, request: int, ask: DeviceRequest, number: int, candidate: Candidate, start: int) -> bool:
        """Take a device and go on; undo it if that leads to no solution."""
        self._steps += 1
        if self._steps > self._max_steps:
            text = f"node {self._place.name}: the search for devices tried {self._max_steps} without an answer"
            raise AllocationError("search-too-long", text, of_node=True)
        given = self._given(claim, ask, candidate)
        if given is None:
            return False
        self._chosen[claim].append(given)
        self._marked[candidate.id] = self._marked.get(candidate.id, 0) + 1
        done = False
        try:
            done = self._devices(claim, request, ask, number + 1, start)
        finally:
            if not done:
                self._chosen[claim].pop()
                self._marked[candidate.id] -= 1
        return done

    def _given(self, claim: int, ask: DeviceRequest, candidate: Candidate) -> Given | None:
        """Return the device for a request, None if it cannot be given now."""
        device, must = candidate.device, ask.every is not None
        if self._is_taken(claim, ask, candidate) or not self._operable(candidate):
            return None
        if not self._counters_allow(candidate):
            return None
        if "DeviceTaints" in self._features and not tolerated(device.taints, ask.exact.tolerations):
            return None
        if not self._constraints_allow(claim, ask, candidate):
            if must:
                text = f"claim {self._claims[claim].metadata.name}, request {ask.name}: a constraint excludes device "
                raise AllocationError("all-against-constraint", text + "/".join(candidate.id))
            return None
        consumed: Amounts = {}
        if "ConsumableCapacity" in self._features:
            amounts = self.matching.consumption(ask, candidate)
            if amounts is None or not fits(device, amounts, self._consumed(candidate.id)):
                return None
            consumed = amounts
        return Given(ask.name, candidate, consumed, self._shared(device), ask.exact)

    def _consumed(self, key: DeviceId) -> Amounts:
        used = dict(self._used.shares.get(key, {}))
        for given in (each for of_claim in self._chosen for each in of_claim):
            if given.candidate.id == key and given.shared:
                for name, amount in given.consumed.items():
                    used[name] = used.get(name, Fraction(0)) + amount
        return used

    def _constraints_allow(self, claim: int, ask: DeviceRequest, candidate: Candidate) -> bool:
        lists = "ListTypeAttributes" in self._features
        for constraint in self._claims[claim].spec.devices.constraints:
            if not applies(constraint, ask.request.name, ask.alternative):
                continue
            chosen: list[Values] = []
            for given in self._chosen[claim]:
                name, _, alternative = given.request.partition("/")
                if applies(constraint, name, alternative):
                    values = values_of(constraint, given.candidate.id[0], given.candidate.device, lists)
                    chosen.append(values or frozenset())
            if not allowed(constraint, chosen, values_of(constraint, candidate.id[0], candidate.device, lists)):
                return False
        return True

    def _counters_allow(self, candidate: Candidate) -> bool:
        """Return whether no counter of the pool is negative with the device, and its groups go with the others'."""
        if not candidate.device.consumes_counters:
            return True
        if self._shared(candidate.device) and self._is_shared_already(candidate):
            return True  # its first share consumed the counters
        left, groups = self._left(candidate.id[:2])
        # Access of an administrator to a dedicated device in use consumes its counters again (allocateDevice:
        # skipCounterCheck is for shared devices only).
        users, first = list[Candidate](), set(self._used.shares)
        for given in (given for of_claim in self._chosen for given in of_claim):
            if given.candidate.id[:2] == candidate.id[:2] and not (given.shared and given.candidate.id in first):
                users.append(given.candidate)
            first.add(given.candidate.id)
        if "CompatibilityGroups" in self._features:
            groups = dict(groups)
            for each in users:
                join(groups, each.device)
            if not go_together(groups, candidate.device):
                return False
        if left is None:
            return False
        needed: dict[CounterKey, Fraction] = {}
        for each in [*users, candidate]:
            for use in each.device.consumes_counters:
                for name, counter in use.counters.items():
                    key = use.counter_set, name
                    needed[key] = needed.get(key, Fraction(0)) + parse_quantity(counter.value)
        return all(amount <= left[key] for key, amount in needed.items())

    def _left(self, key: tuple[str, str]) -> tuple[dict[CounterKey, Fraction] | None, Groups]:
        """Return what the devices in use leave of the counters of a pool, and the groups that they have in common.

        None: some counter is negative, and no device that counts can be given.
        """
        if key not in self._left_of:
            pool = self._pool_of[key]
            left, groups = dict(pool.counters), Groups()
            for each in pool.all_devices:
                if each.id in self._used.devices or each.id in self._used.shares:
                    join(groups, each.device)
                    for use in each.device.consumes_counters:
                        for name, counter in use.counters.items():
                            left[use.counter_set, name] -= parse_quantity(counter.value)
            self._left_of[key] = (None if any(amount < 0 for amount in left.values()) else left), groups
        return self._left_of[key]

    def _is_shared_already(self, candidate: Candidate) -> bool:
        return candidate.id in self._used.shares or any(
            given.candidate.id == candidate.id for of_claim in self._chosen for given in of_claim
        )
