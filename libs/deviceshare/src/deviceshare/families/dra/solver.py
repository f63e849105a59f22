"""The search for the devices of the claims of a pod on one node: all claims together.

The first solution in the order of Kubernetes' allocator decides whether claims fit, and which alternatives they get.
:mod:`.best_fit` looks for better devices afterwards.

Source: the experimental allocator of k8s.io/dynamic-resource-allocation 0.37.2.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from deviceshare.families.dra.best_fit import NO_ORDER, DeviceOrder
from deviceshare.families.dra.capacity import Amounts, fits
from deviceshare.families.dra.compatibility import Groups, go_together, join
from deviceshare.families.dra.constraints import Values, allowed, applies, values_of
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.layout import Layout, LayoutDevice, Taken
from deviceshare.families.dra.matching import DeviceRequest, Matching
from deviceshare.families.dra.requests import MAX_DEVICES, RequestReader
from deviceshare.families.dra.selectors import Selectors
from deviceshare.families.dra.taints import tolerated
from deviceshare.model import DeviceResult, format_quantity
from deviceshare.model.device_objects import Constraint, DeviceClass, Exact, ResourceClaim

MAX_STEPS = 20_000
"""Devices that one search tries, at most; beyond, the node is refused."""
BEST_STEPS = 500
"""Devices that the search for better ones tries; beyond, the first solution stands."""


_COMPARED = 8
"""Devices that are compared count as one that is tried."""


class Given(NamedTuple):
    """A device for a request; ``request`` has the alternative's name after a slash."""

    request: str
    device: LayoutDevice
    consumed: Amounts
    exact: Exact

    def result(self, pools: Sequence[tuple[str, str]]) -> DeviceResult:
        """Return the device as it is in decisions; ``pools``: those of the node, in the layout's order."""
        shared, name = self.device.shared, self.device.candidate.device.name
        consumed = sorted(self.consumed.items()) if shared else ()
        shares = tuple((capacity, format_quantity(amount)) for capacity, amount in consumed)
        return DeviceResult(self.request, *pools[self.device.pool], name, shared, shares, self.exact.admin_access)


class Answer(NamedTuple):
    """The devices of each claim, None if they do not fit; ``steps``: the devices that were tried."""

    claims: tuple[tuple[Given, ...], ...] | None
    steps: int
    score: float = 0.0
    """How good the devices are by the policy for nodes, 0 to 100."""


class _TooMany(Exception):
    """The claim would have more than MAX_DEVICES; another alternative may not."""


class Solver:
    """Finds devices for claims that are allocated together, on the nodes of a layout.

    Args:
        layout: what the nodes see.
        classes: the DeviceClasses.
        selectors: evaluates their selectors.
        claims: the claims.
        only: the numbers of the devices that may be chosen, None: all.
    """

    def __init__(
        self,
        layout: Layout,
        classes: Mapping[str, DeviceClass],
        selectors: Selectors,
        claims: Sequence[ResourceClaim],
        only: Collection[int] | None = None,
    ) -> None:
        self.layout, self._features, self._claims = layout, layout.features, claims
        self.matching = Matching(self._features, selectors)
        """Which devices match the requests."""
        self._reader = RequestReader(layout.pools, classes, self._features, self.matching)
        self._asks: list[list[list[DeviceRequest]]] | None = None
        self.candidates = [device for device in layout.devices[: layout.given] if only is None or device.number in only]
        """The devices that can be given, in the order in which they are tried."""
        self._places = {device.candidate.id: at for at, device in enumerate(self.candidates)}
        self._order: DeviceOrder = NO_ORDER
        self.steps = 0
        """How many devices the last search tried, also without an answer."""

    def solve(self, taken: Taken, max_steps: int = MAX_STEPS, order: DeviceOrder = NO_ORDER) -> Answer:
        """Return the devices of all claims where some are ``taken``; ``order``: which ones are preferred.

        Raises:
            AllocationError: a claim cannot be evaluated, or a pool is invalid, or the search is too long.
        """
        self.steps = 0
        self._order = NO_ORDER
        self._begin(taken, self._requests(), max_steps)
        if not self._search():
            if any(pool.invalid for pool in self.layout.pools):
                raise AllocationError("invalid-pools", "a resource pool is invalid", of_node=True)
            return Answer(None, self.steps)
        found = self._answer()
        return found if order == NO_ORDER else self._better(found, taken, order, max_steps)

    def _requests(self) -> list[list[list[DeviceRequest]]]:
        """Return the requests of each claim, with their alternatives. Raises AllocationError."""
        if self._asks is None:
            self._asks = [self._reader.read(claim) for claim in self._claims]
        return self._asks

    def _better(self, found: Answer, taken: Taken, order: DeviceOrder, max_steps: int) -> Answer:
        """Return a solution in another order, with the same alternatives, or the same one."""
        assert found.claims is not None
        if order.sorts and self.steps < max_steps:
            names = [{given.request for given in of_claim} for of_claim in found.claims]
            fixed = [
                [[ask for ask in alternatives if ask.name in of_claim] or alternatives for alternatives in asks]
                for asks, of_claim in zip(self._requests(), names, strict=True)
            ]
            self._order = order
            self._begin(taken, fixed, min(self.steps + BEST_STEPS, max_steps))
            try:
                if self._search():
                    found = self._answer()
            except AllocationError:
                pass  # of a device that the first solution did not need, or after too many
        given = [each.device for of_claim in found.claims or () for each in of_claim if not each.exact.admin_access]
        return found._replace(steps=self.steps, score=order.score(self.layout, taken, given))

    def _begin(self, taken: Taken, asks: list[list[list[DeviceRequest]]], max_steps: int) -> None:
        self._max_steps, self._taken, self._searched = max_steps, taken, asks
        self._chosen: list[list[Given]] = [[] for _ in asks]
        self._marked: dict[int, int] = {}
        self._left = dict(taken.left)

    def _search(self) -> bool:
        try:
            return self._claim(0)
        except RecursionError:
            raise self._too_long() from None

    def _too_long(self) -> AllocationError:
        text = f"the search for devices tried {self._max_steps} without an answer"
        return AllocationError("search-too-long", text, of_node=True)

    def _answer(self) -> Answer:
        return Answer(tuple(tuple(each) for each in self._chosen), self.steps)

    @property
    def requests(self) -> Iterator[list[DeviceRequest]]:
        """The requests of the claims, each with its alternatives. Raises AllocationError."""
        return chain.from_iterable(self._requests())

    def is_free(self, request: DeviceRequest, device: LayoutDevice, taken: Taken) -> bool:
        """Return whether what other claims use leaves a device to a request."""
        if request.exact.admin_access:
            return True
        if device.number in taken.devices:
            return False
        shares = taken.shares.get(device.number)
        if shares is None or not device.shared:
            return shares is None
        amounts = self.matching.consumption(request, device.candidate)
        return amounts is not None and fits(device.candidate.device, amounts, shares)

    def _operable(self, device: LayoutDevice) -> bool:
        """Return whether the features that a device needs are on, and the node can do without what its slice skips.

        A device that fails here belongs to mode All, which it prevents.
        """
        if device.consumes and "PartitionableDevices" not in self._features:
            return False
        if not device.candidate.slice.spec.skip_node_operations:
            return True
        return "OptionalNodeOperations" in self._features and "DRAOptionalNodeOperations" in self.layout.place.features

    def _claim(self, claim: int) -> bool:
        if claim >= len(self._searched):
            return True
        return self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        if request >= len(self._searched[claim]):
            try:
                return self._claim(claim + 1)
            except _TooMany:
                return False
        alternatives = self._searched[claim][request]
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

    def _devices(self, claim: int, request: int, ask: DeviceRequest, number: int, tried: int) -> bool:
        """Give a request its devices from ``number`` on; ``tried``: a bit for each device not to be tried (again)."""
        if number >= ask.number and not (ask.every is not None and not ask.every):
            return self._request(claim, request + 1)
        if number == 0 and len(self._chosen[claim]) + ask.number > MAX_DEVICES:
            raise _TooMany
        if ask.every is not None:
            if not ask.every:
                return False
            at = self._places.get(ask.every[number].id)
            return at is not None and self._try(claim, request, ask, number, self.candidates[at], 0)
        failed = set[bytes]()
        if self._order.sorts:
            places: Sequence[int] = self._ranked(claim, ask, tried)
        else:
            possible = ask.places(len(self.candidates))
            places = possible[bisect_left(possible, tried.bit_length()) :]
        for at in places:
            if not self._is_candidate(claim, ask, at):
                continue
            device = self.candidates[at]
            if device.kind in failed:
                continue  # an equal device would lead nowhere either
            tried |= 1 << at
            if self._try(claim, request, ask, number, device, tried):
                return True
            if device.simple and device.number not in self._taken.shares and not ask.exact.admin_access:
                failed.add(device.kind)
        return False

    def _is_candidate(self, claim: int, ask: DeviceRequest, at: int) -> bool:
        """Return whether a device matches a request, and is not in use. Raises AllocationError."""
        known = ask.known.get(at)
        if known is False:
            return False
        device = self.candidates[at]
        if self._is_taken(claim, ask, device):
            return False
        if known is None:
            # An amount that is an error comes before what only excludes the device.
            known = self.matching.selectable(ask, device.candidate) and self.matching.enough(ask, device.candidate)
            ask.known[at] = known
            ask.outdated = ask.outdated or not known
        return known

    def _ranked(self, claim: int, ask: DeviceRequest, tried: int) -> Sequence[int]:
        """Return the devices for a request that can be given now, the best ones first."""
        keyed: list[tuple[float, ...]] = []
        chosen = [given.device for of_claim in self._chosen for given in of_claim]
        for at in ask.places(len(self.candidates)):
            if tried >> at & 1 or not self._is_candidate(claim, ask, at):
                continue
            device = self.candidates[at]
            if (left := self._left_with(device)) is not None:
                keyed.append((*self._order.key(self.layout, device, self._left, left, chosen), at))
        self.steps += len(keyed) // _COMPARED
        return [int(each[-1]) for each in sorted(keyed)]

    def _is_taken(self, claim: int, ask: DeviceRequest, device: LayoutDevice) -> bool:
        if ask.exact.admin_access:
            # A shared device may be given again, also in this claim (allocateDevice: only others are marked).
            return not device.shared and any(given.device is device for given in self._chosen[claim])
        number = device.number
        return number in self._taken.devices or (not device.shared and self._marked.get(number, 0) > 0)

    def _try(self, claim: int, request: int, ask: DeviceRequest, number: int, device: LayoutDevice, tried: int) -> bool:
        """Take a device and go on; undo it if that leads to no solution."""
        self.steps += 1
        if self.steps > self._max_steps:
            raise self._too_long()
        left = self._left_with(device)
        given = self._given(claim, ask, device) if left is not None else None
        if given is None or left is None:
            return False
        self._chosen[claim].append(given)
        self._marked[device.number] = self._marked.get(device.number, 0) + 1
        before = {at: self._left[at] for at, _ in left}
        self._left.update(left)
        done = False
        try:
            done = self._devices(claim, request, ask, number + 1, tried)
        finally:
            if not done:
                self._chosen[claim].pop()
                self._marked[device.number] -= 1
                self._left.update(before)
        return done

    def _given(self, claim: int, ask: DeviceRequest, device: LayoutDevice) -> Given | None:
        """Return the device for a request, None if it cannot be given now whatever its counters."""
        if self._is_taken(claim, ask, device) or not self._operable(device):
            return None
        if "DeviceTaints" in self._features and not tolerated(device.candidate.device.taints, ask.exact.tolerations):
            return None
        if not self._constraints_allow(claim, ask, device):
            if ask.every is not None:
                text = f"claim {self._claims[claim].metadata.name}, request {ask.name}: a constraint excludes a device"
                raise AllocationError("all-against-constraint", text)
            return None
        consumed: Amounts = {}
        if "ConsumableCapacity" in self._features:
            amounts = ask.amounts.get(device.number)
            if amounts is None:
                amounts = self.matching.consumption(ask, device.candidate)
                if amounts is None:
                    return None
                ask.amounts[device.number] = amounts
            # That the device suffices if it is not in use is known before.
            if (used := self._consumed(device)) and not fits(device.candidate.device, amounts, used):
                return None
            consumed = amounts
        return Given(ask.name, device, consumed, ask.exact)

    def _consumed(self, device: LayoutDevice) -> Amounts:
        used = dict(self._taken.shares.get(device.number, {}))
        if device.shared and self._marked.get(device.number):
            for given in (each for of_claim in self._chosen for each in of_claim):
                if given.device is device:
                    for name, amount in given.consumed.items():
                        used[name] = used.get(name, Fraction(0)) + amount
        return used

    def _constraints_allow(self, claim: int, ask: DeviceRequest, device: LayoutDevice) -> bool:
        lists = "ListTypeAttributes" in self._features
        for constraint in self._claims[claim].spec.devices.constraints:
            if not applies(constraint, ask.request.name, ask.alternative):
                continue
            chosen: list[Values] = []
            for given in self._chosen[claim]:
                name, _, alternative = given.request.partition("/")
                if applies(constraint, name, alternative):
                    chosen.append(_values(constraint, given.device, lists) or frozenset())
            if not allowed(constraint, chosen, _values(constraint, device, lists)):
                return False
        return True

    def _left_with(self, device: LayoutDevice) -> Sequence[tuple[int, int]] | None:
        """Return what is left of the counter sets of a device with it; None: a counter would be negative.

        No counter of the pool may be negative, and the groups of the device must go with those of the others.
        """
        if not device.consumes or (
            # The first share of a device consumed its counters. Access of an administrator to a dedicated device in use
            # consumes them again (allocateDevice: skipCounterCheck is for shared devices only).
            device.shared and (device.number in self._taken.shares or self._marked.get(device.number, 0) > 0)
        ):
            return ()
        if device.grouped and not self._go_together(device):
            return None
        if device.pool in self._taken.blocked:
            return None
        found = []
        for at, need in device.uses:
            left, guard = self._left[at] - need, self.layout.sets[at].guard
            if left & guard != guard:
                return None
            found.append((at, left))
        return found

    def _go_together(self, device: LayoutDevice) -> bool:
        if "CompatibilityGroups" not in self._features:
            return True
        groups = Groups()
        for each in self.layout.devices:
            number = each.number
            if each.pool == device.pool and (number in self._taken.devices or number in self._taken.shares):
                join(groups, each.candidate.device)
        for given in (given for of_claim in self._chosen for given in of_claim):
            if given.device.pool == device.pool:
                join(groups, given.device.candidate.device)
        return go_together(groups, device.candidate.device)


def _values(constraint: Constraint, device: LayoutDevice, lists: bool) -> Values | None:
    return values_of(constraint, device.candidate.id[0], device.candidate.device, lists)
