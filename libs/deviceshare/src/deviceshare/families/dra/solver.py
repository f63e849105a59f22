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
from deviceshare.families.dra.layout import Layout, Slot, Taken
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
    slot: Slot
    consumed: Amounts
    exact: Exact

    def result(self, pools: Sequence[tuple[str, str]]) -> DeviceResult:
        """Return the device as it is in decisions; ``pools``: those of the node, in the layout's order."""
        shared, name = self.slot.shared, self.slot.candidate.device.name
        consumed = sorted(self.consumed.items()) if shared else ()
        shares = tuple((capacity, format_quantity(amount)) for capacity, amount in consumed)
        return DeviceResult(self.request, *pools[self.slot.pool], name, shared, shares, self.exact.admin_access)


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
        self.candidates = [slot for slot in layout.slots[: layout.given] if only is None or slot.number in only]
        """The devices that can be given, in the order in which they are tried."""
        self._places = {slot.candidate.id: at for at, slot in enumerate(self.candidates)}
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
        given = [each.slot for of_claim in found.claims or () for each in of_claim if not each.exact.admin_access]
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

    def is_free(self, request: DeviceRequest, slot: Slot, taken: Taken) -> bool:
        """Return whether what other claims use leaves a device to a request."""
        if request.exact.admin_access:
            return True
        if slot.number in taken.devices:
            return False
        shares = taken.shares.get(slot.number)
        if shares is None or not slot.shared:
            return shares is None
        amounts = self.matching.consumption(request, slot.candidate)
        return amounts is not None and fits(slot.candidate.device, amounts, shares)

    def _operable(self, slot: Slot) -> bool:
        """Return whether the features that a device needs are on, and the node can do without what its slice skips.

        A device that fails here belongs to mode All, which it prevents.
        """
        if slot.consumes and "PartitionableDevices" not in self._features:
            return False
        if not slot.candidate.slice.spec.skip_node_operations:
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
            slot = self.candidates[at]
            if slot.kind in failed:
                continue  # an equal device would lead nowhere either
            tried |= 1 << at
            if self._try(claim, request, ask, number, slot, tried):
                return True
            if slot.simple and slot.number not in self._taken.shares and not ask.exact.admin_access:
                failed.add(slot.kind)
        return False

    def _is_candidate(self, claim: int, ask: DeviceRequest, at: int) -> bool:
        """Return whether a device matches a request, and is not in use. Raises AllocationError."""
        known = ask.known.get(at)
        if known is False:
            return False
        slot = self.candidates[at]
        if self._is_taken(claim, ask, slot):
            return False
        if known is None:
            # An amount that is an error comes before what only excludes the device.
            known = self.matching.selectable(ask, slot.candidate) and self.matching.enough(ask, slot.candidate)
            ask.known[at] = known
            ask.outdated = ask.outdated or not known
        return known

    def _ranked(self, claim: int, ask: DeviceRequest, tried: int) -> Sequence[int]:
        """Return the devices for a request that can be given now, the best ones first."""
        keyed: list[tuple[float, ...]] = []
        chosen = [given.slot for of_claim in self._chosen for given in of_claim]
        for at in ask.places(len(self.candidates)):
            if tried >> at & 1 or not self._is_candidate(claim, ask, at):
                continue
            slot = self.candidates[at]
            if (left := self._left_with(slot)) is not None:
                keyed.append((*self._order.key(self.layout, slot, self._left, left, chosen), at))
        self.steps += len(keyed) // _COMPARED
        return [int(each[-1]) for each in sorted(keyed)]

    def _is_taken(self, claim: int, ask: DeviceRequest, slot: Slot) -> bool:
        if ask.exact.admin_access:
            # A shared device may be given again, also in this claim (allocateDevice: only others are marked).
            return not slot.shared and any(given.slot is slot for given in self._chosen[claim])
        number = slot.number
        return number in self._taken.devices or (not slot.shared and self._marked.get(number, 0) > 0)

    def _try(self, claim: int, request: int, ask: DeviceRequest, number: int, slot: Slot, tried: int) -> bool:
        """Take a device and go on; undo it if that leads to no solution."""
        self.steps += 1
        if self.steps > self._max_steps:
            raise self._too_long()
        left = self._left_with(slot)
        given = self._given(claim, ask, slot) if left is not None else None
        if given is None or left is None:
            return False
        self._chosen[claim].append(given)
        self._marked[slot.number] = self._marked.get(slot.number, 0) + 1
        before = {at: self._left[at] for at, _ in left}
        self._left.update(left)
        done = False
        try:
            done = self._devices(claim, request, ask, number + 1, tried)
        finally:
            if not done:
                self._chosen[claim].pop()
                self._marked[slot.number] -= 1
                self._left.update(before)
        return done

    def _given(self, claim: int, ask: DeviceRequest, slot: Slot) -> Given | None:
        """Return the device for a request, None if it cannot be given now whatever its counters."""
        device = slot.candidate.device
        if self._is_taken(claim, ask, slot) or not self._operable(slot):
            return None
        if "DeviceTaints" in self._features and not tolerated(device.taints, ask.exact.tolerations):
            return None
        if not self._constraints_allow(claim, ask, slot):
            if ask.every is not None:
                text = f"claim {self._claims[claim].metadata.name}, request {ask.name}: a constraint excludes a device"
                raise AllocationError("all-against-constraint", text)
            return None
        consumed: Amounts = {}
        if "ConsumableCapacity" in self._features:
            amounts = ask.amounts.get(slot.number)
            if amounts is None:
                amounts = self.matching.consumption(ask, slot.candidate)
                if amounts is None:
                    return None
                ask.amounts[slot.number] = amounts
            # That the device suffices if it is not in use is known before.
            if (used := self._consumed(slot)) and not fits(device, amounts, used):
                return None
            consumed = amounts
        return Given(ask.name, slot, consumed, ask.exact)

    def _consumed(self, slot: Slot) -> Amounts:
        used = dict(self._taken.shares.get(slot.number, {}))
        if slot.shared and self._marked.get(slot.number):
            for given in (each for of_claim in self._chosen for each in of_claim):
                if given.slot is slot:
                    for name, amount in given.consumed.items():
                        used[name] = used.get(name, Fraction(0)) + amount
        return used

    def _constraints_allow(self, claim: int, ask: DeviceRequest, slot: Slot) -> bool:
        lists = "ListTypeAttributes" in self._features
        for constraint in self._claims[claim].spec.devices.constraints:
            if not applies(constraint, ask.request.name, ask.alternative):
                continue
            chosen: list[Values] = []
            for given in self._chosen[claim]:
                name, _, alternative = given.request.partition("/")
                if applies(constraint, name, alternative):
                    chosen.append(_values(constraint, given.slot, lists) or frozenset())
            if not allowed(constraint, chosen, _values(constraint, slot, lists)):
                return False
        return True

    def _left_with(self, slot: Slot) -> Sequence[tuple[int, int]] | None:
        """Return what is left of the counter sets of a device with it; None: a counter would be negative.

        No counter of the pool may be negative, and the groups of the device must go with those of the others.
        """
        if not slot.consumes or (
            # The first share of a device consumed its counters. Access of an administrator to a dedicated device in use
            # consumes them again (allocateDevice: skipCounterCheck is for shared devices only).
            slot.shared and (slot.number in self._taken.shares or self._marked.get(slot.number, 0) > 0)
        ):
            return ()
        if slot.grouped and not self._go_together(slot):
            return None
        if slot.pool in self._taken.blocked:
            return None
        found = []
        for at, need in slot.uses:
            left, guard = self._left[at] - need, self.layout.sets[at].guard
            if left & guard != guard:
                return None
            found.append((at, left))
        return found

    def _go_together(self, slot: Slot) -> bool:
        if "CompatibilityGroups" not in self._features:
            return True
        groups = Groups()
        for each in self.layout.slots:
            number = each.number
            if each.pool == slot.pool and (number in self._taken.devices or number in self._taken.shares):
                join(groups, each.candidate.device)
        for given in (given for of_claim in self._chosen for given in of_claim):
            if given.slot.pool == slot.pool:
                join(groups, given.slot.candidate.device)
        return go_together(groups, slot.candidate.device)


def _values(constraint: Constraint, slot: Slot, lists: bool) -> Values | None:
    return values_of(constraint, slot.candidate.id[0], slot.candidate.device, lists)
