"""The ResourceClaims of one pod class: on which nodes it fits, with which devices, and why not."""

from collections.abc import Hashable, Sequence

import msgspec
import numpy as np

from deviceshare.families.dra import MAX_STEPS, AllocationError, ClusterDevices, DeviceReason, local, why_not
from deviceshare.model import ClaimRequest, DeviceClaim, Refusal
from deviceshare.model.device_objects import AllocationStatus, ClaimSpec, DevicesSpec, Metadata, ResourceClaim
from deviceshare.state import Bools

MAX_STATES = 10_000
"""States of nodes for which it is known whether the class fits; beyond, all are forgotten."""
ROUND_STEPS = 20_000
"""Devices that the searches for one class try in a round on all nodes together, beyond :data:`NODE_STEPS` on each."""
NODE_STEPS = 32
"""Devices that a search may try on every node: as many as a claim may have, so that it never lacks the first ones."""
_ELSEWHERE = DeviceReason("DevicesElsewhere", "node(s) could not use the devices that a ResourceClaim has")
_TOO_LONG = DeviceReason("DeviceSearchTooLong", f"node(s) have no answer after {MAX_STEPS} devices that were tried")
_POSTPONED = DeviceReason(
    "DeviceSearchTooLong", f"node(s) were not searched to the end: a round tries {ROUND_STEPS} devices for such pods"
)
_SPEC = msgspec.json.Decoder(DevicesSpec)


class DeviceFilter:
    """Which nodes have devices for the claims of a pod class; nodes that do not differ are asked once."""

    def __init__(self, requests: Sequence[ClaimRequest], devices: ClusterDevices) -> None:
        self._requests = requests
        self._devices = devices
        self._new = [
            ResourceClaim(metadata=Metadata(name=_name(each, at)), spec=ClaimSpec(devices=_SPEC.decode(each.devices)))
            if each.devices
            else None
            for at, each in enumerate(requests)
        ]
        """The claims that have no devices as far as facts say."""
        self._numbers: dict[DeviceReason, int] = {}
        self._codes = np.zeros(0, dtype=np.int64)
        """int64[rows]: the number of the reason why a node does not fit, 0 if it fits."""
        self._seen = -1
        self._allocations: tuple[AllocationStatus | DeviceClaim | None, ...] = ()
        """The devices of the claims that others may use as well, as ``_codes`` take them into account."""
        self._known: dict[Hashable, DeviceReason | None] = {}
        """By state of a node."""
        self._round = -1
        self._left = ROUND_STEPS
        """How many devices may be tried in this round."""
        self._postponed: set[int] = set()
        """The rows that were not searched to the end, until the next round."""

    def rejection(self) -> Refusal | None:
        """Return why no node is feasible, whatever node it is, or None."""
        obstacle = next((each.obstacle for each in self._requests if each.obstacle), "")
        return Refusal(code="DeviceClaimNotUsable", text=obstacle, nodes=0) if obstacle else None

    @property
    def exclusive(self) -> bool:
        """Whether pods on other nodes may take the same devices, or allocate the same claim, at the same time."""
        return self._devices.spans_nodes or any(each.claim for each in self._requests)

    def excluded(self) -> Sequence[tuple[DeviceReason, Bools]]:
        """Return the nodes that do not fit, by reason."""
        self._refresh()
        return [(reason, self._codes == number) for reason, number in self._numbers.items()]

    def _refresh(self) -> None:
        changes = self._devices.changes
        allocations = tuple(self._devices.allocation(each.claim) if each.claim else None for each in self._requests)
        if allocations != self._allocations:
            self._allocations, self._seen = allocations, -1
            self._known.clear()
        if len(self._codes) < changes.rows:
            self._codes = np.pad(self._codes, (0, changes.rows - len(self._codes)))
        again: list[int] = []
        if self._round != self._devices.round:
            self._round, self._left = self._devices.round, ROUND_STEPS
            again, self._postponed = sorted(self._postponed), set()
        if self._seen == changes.now and not again:
            return
        changed = np.array(changes.found[: changes.since(self._seen)]).tolist()
        for row in dict.fromkeys((*changed, *again)):
            reason = self._reason(row) if self._devices.has_node(row) else None
            self._codes[row] = self._number(reason)
            if reason is _POSTPONED:
                self._postponed.add(row)
            else:
                self._postponed.discard(row)
        self._seen = changes.now

    def _number(self, reason: DeviceReason | None) -> int:
        return 0 if reason is None else self._numbers.setdefault(reason, len(self._numbers) + 1)

    def _reason(self, row: int) -> DeviceReason | None:
        if any(each is not None and not self._devices.usable(each, row) for each in self._allocations):
            return _ELSEWHERE
        claims = self._to_allocate()
        if not claims:
            return None
        state = self._devices.state(row)
        if state not in self._known:
            if len(self._known) >= MAX_STATES:
                self._known.clear()
            found = self._solve(claims, row)
            if found is _POSTPONED:
                return found
            self._known[state] = found
        return self._known[state]

    def _to_allocate(self) -> list[ResourceClaim]:
        return [
            claim
            for claim, allocation in zip(self._new, self._allocations, strict=True)
            if claim is not None and allocation is None
        ]

    def _solve(self, claims: Sequence[ResourceClaim], row: int) -> DeviceReason | None:
        solver = self._devices.solver(row)
        allowed = min(MAX_STEPS, NODE_STEPS + self._left)
        try:
            return None if solver.solve(claims, allowed).claims is not None else why_not(solver)
        except AllocationError as error:
            if error.kind == "search-too-long":
                return _TOO_LONG if allowed == MAX_STEPS else _POSTPONED
            return DeviceReason("DeviceAllocationFailed", f"node(s) could not be asked for devices: {error.text}")
        finally:
            self._left -= min(self._left, max(0, solver.steps - NODE_STEPS))

    def claims(self, row: int) -> tuple[DeviceClaim, ...]:
        """Return the claims, without their names, with the devices that they get on a node that fits."""
        self._refresh()
        to_allocate = self._to_allocate()
        solved = self._devices.solver(row).solve(to_allocate).claims if to_allocate else ()
        assert solved is not None, "the node does not fit"
        given = iter(solved)
        found = []
        for claim, allocation in zip(self._new, self._allocations, strict=True):
            if claim is None or allocation is not None:
                found.append(DeviceClaim(""))
                continue
            of_claim = next(given)
            devices = [(each.candidate.device, each.candidate.slice) for each in of_claim]
            bound = any(local(*each) for each in devices)
            node = self._devices.node_name(row) if bound else ""
            found.append(DeviceClaim("", "", tuple(each.result for each in of_claim), node))
        return tuple(found)


def _name(request: ClaimRequest, at: int) -> str:
    return request.claim.partition("/")[2] or f"number {at + 1}"
