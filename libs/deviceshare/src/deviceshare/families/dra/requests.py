"""The requests of a claim, checked: what is wrong with them ends the attempt."""

from collections.abc import Mapping, Sequence

from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.matching import DeviceRequest, Matching
from deviceshare.families.dra.pools import Candidate, Features, Pool
from deviceshare.model.device_objects import DeviceClass, Exact, Request, ResourceClaim

MAX_DEVICES = 32
"""Devices of one claim, as in the API."""


class RequestReader:
    """Reads the requests of claims for one node."""

    def __init__(
        self, pools: Sequence[Pool], classes: Mapping[str, DeviceClass], features: Features, matching: Matching
    ) -> None:
        self._pools, self._classes, self._features, self._matching = pools, classes, features, matching

    def read(self, claim: ResourceClaim) -> list[list[DeviceRequest]]:
        """Return the alternatives of each request. Raises AllocationError: a request or constraint is invalid."""
        where = f"claim {claim.metadata.name}"
        asks: list[list[DeviceRequest]] = []
        least = 0
        for request in claim.spec.devices.requests:
            if request.first_available and "PrioritizedList" not in self._features:
                raise AllocationError(
                    "feature-disabled", f"{where}, request {request.name}: PrioritizedList is disabled"
                )
            if request.first_available:
                of_request = [self._ask(where, request, each, each.name) for each in request.first_available]
            elif request.exactly is not None:
                of_request = [self._ask(where, request, request.exactly, "")]
            else:
                raise AllocationError("request-unknown", f"{where}, request {request.name}: unknown kind of request")
            asks.append(of_request)
            least += min(ask.number for ask in of_request)  # the devices of mode All count as others do
            if least > MAX_DEVICES:
                raise AllocationError("too-many-devices", f"{where}, request {request.name}: more than {MAX_DEVICES}")
        for constraint in claim.spec.devices.constraints:
            if constraint.match_attribute is None and constraint.distinct_attribute is None:
                raise AllocationError("constraint-unknown", f"{where}: a constraint of an unknown kind")
        return asks

    def _ask(self, claim: str, request: Request, exact: Exact, alternative: str) -> DeviceRequest:
        name = f"{request.name}/{alternative}" if alternative else request.name
        where = f"{claim}, request {name}"
        if exact.derived_attributes:
            raise AllocationError("derived-unsupported", f"{where}: derivedAttributes are not supported")
        if any(selector.cel is None for selector in exact.selectors):
            raise AllocationError("selector-unknown", f"{where}: a selector of an unknown kind")
        if exact.admin_access and "AdminAccess" not in self._features:
            raise AllocationError(
                "feature-disabled", f"{where}: admin access is requested, but AdminAccess is disabled"
            )
        if exact.capacity is not None and "ConsumableCapacity" not in self._features:
            raise AllocationError("feature-disabled", f"{where}: capacity is requested, but it is disabled")
        if not exact.device_class_name:
            raise AllocationError("class-unnamed", f"{where}: deviceClassName is missing")
        if (device_class := self._classes.get(exact.device_class_name)) is None:
            raise AllocationError("class-missing", f"{where}: there is no DeviceClass {exact.device_class_name}")
        ask = DeviceRequest(request, exact, name, alternative, device_class)
        if exact.allocation_mode == "All":
            ask.every = self._all(ask, where)
        elif exact.allocation_mode != "ExactCount":
            raise AllocationError("mode-unknown", f"{where}: unknown allocationMode {exact.allocation_mode!r}")
        return ask

    def _all(self, ask: DeviceRequest, where: str) -> list[Candidate]:
        every: list[Candidate] = []
        for pool in self._pools:
            for state, is_so in (("incomplete", pool.incomplete), ("invalid", pool.invalid)):
                if is_so:
                    raise AllocationError(f"all-of-{state}-pool", f"{where}: a pool of {pool.driver} is {state}")
            every += [
                each
                for each in pool.devices
                if self._matching.selectable(ask, each) and self._matching.enough(ask, each)
            ]
        return every
