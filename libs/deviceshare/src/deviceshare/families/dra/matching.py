"""Which devices match a request by its selectors and amounts, in use or not."""

from collections.abc import Sequence

import msgspec

from deviceshare.families.dra.capacity import Amounts, consumption, fits
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.pools import Candidate, DeviceId, Features
from deviceshare.families.dra.selectors import Selectors
from deviceshare.model.device_objects import DeviceClass, Exact, Request


class DeviceRequest(msgspec.Struct):
    """A request or an alternative of one: what it asks, and for mode All the devices."""

    request: Request
    exact: Exact
    name: str
    alternative: str
    device_class: DeviceClass
    every: list[Candidate] | None = None
    known: dict[int, bool] = {}
    """By the place of a device whether it matches, and suffices if it is not in use."""
    possible: Sequence[int] = ()
    """The places of the devices of which it is not known that they do not match, in order; (): not counted yet."""
    outdated: bool = False
    """Whether more is known than ``possible`` says."""
    amounts: dict[int, Amounts] = {}
    """By the number of a device what the request consumes of it."""

    @property
    def number(self) -> int:
        """How many devices it is for."""
        return self.exact.count if self.every is None else len(self.every)

    def places(self, devices: int) -> Sequence[int]:
        """Return the places of the devices that may match, of so many."""
        if self.outdated:
            self.possible = [at for at in self.possible if self.known.get(at) is not False]
            self.outdated = False
        elif not self.known:
            self.possible = range(devices)
        return self.possible


class Matching:
    """Matches devices with requests; the results are kept as long as it is."""

    def __init__(self, features: Features, selectors: Selectors) -> None:
        self._features, self._selectors = features, selectors
        self._matches: dict[tuple[int, DeviceId], bool] = {}

    def selectable(self, request: DeviceRequest, candidate: Candidate) -> bool:
        """Return whether the selectors of the class and of the request match a device that the node sees.

        Raises:
            AllocationError: a selector cannot be evaluated, or the device has what is not supported.
        """
        key = (id(request.exact), candidate.id)
        known = self._matches.get(key)
        if known is None:
            known = self._matches[key] = self._select(request, candidate)
        return known

    def _select(self, request: DeviceRequest, candidate: Candidate) -> bool:
        device = candidate.device
        if device.binding_conditions and "DeviceBindingAndStatus" not in self._features:
            return False
        multiple = "ConsumableCapacity" in self._features
        owners = (
            (f"class {request.device_class.metadata.name}", request.device_class.spec.selectors),
            (f"request {request.name}", request.exact.selectors),
        )
        for owner, selectors in owners:
            for selector in selectors:
                if selector.cel is None:
                    raise AllocationError("selector-unknown", f"{owner}: a selector of an unknown kind")
                outcome = self._selectors.matches(selector.cel.expression, candidate.id[0], device, multiple)
                if isinstance(outcome, tuple):
                    raise AllocationError(outcome[0], f"{owner}: {outcome[1]}")
                if not outcome:
                    return False
        if device.node_allocatable_resources or device.node_allocatable_resource_mappings:
            text = "a device has nodeAllocatableResources, which are not supported"
            raise AllocationError("node-allocatable-unsupported", text, of_node=True)
        return candidate.here

    def enough(self, request: DeviceRequest, candidate: Candidate) -> bool:
        """Return whether a device has the requested amounts if it is not in use. Raises AllocationError."""
        if "ConsumableCapacity" not in self._features:
            return True
        consumed = self.consumption(request, candidate)
        return consumed is not None and fits(candidate.device, consumed, {})

    def consumption(self, request: DeviceRequest, candidate: Candidate) -> Amounts | None:
        """Return what a request consumes of a device, None if it cannot. Raises AllocationError."""
        fractional = "FractionalCapacityRange" in self._features
        return consumption(request.exact, candidate.device, fractional=fractional, where=f"request {request.name}")
