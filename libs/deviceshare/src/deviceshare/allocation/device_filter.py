"""The ResourceClaims of one pod class: on which nodes it fits, with which devices, how good they are, and why not."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from deviceshare.allocation.node_ranking import tie_break_weight
from deviceshare.conf import SchedulerConf
from deviceshare.families.dra import (
    MAX_STEPS,
    AllocationError,
    Answer,
    ClusterDevices,
    DeviceReason,
    Layout,
    Solver,
    device_order,
    local,
    why_not,
)
from deviceshare.kernels import NEVER, Floats, weighted_score
from deviceshare.model import ClaimRequest, DeviceClaim, Refusal
from deviceshare.model.device_objects import AllocationStatus, ClaimSpec, DevicesSpec, Metadata, ResourceClaim
from deviceshare.state import Bools, Ints

MAX_STATES = 10_000
"""States of nodes for which it is known whether the class fits; beyond, all are forgotten. Also beyond twice as many as
nodes and 100 more, since a state keeps its layout."""
MAX_SOLVERS = 200
"""Layouts of nodes whose solver is kept; beyond, all are forgotten."""
NODE_STEPS = 32
"""Devices that a search may try on every node: as many as a claim may have, so that it never lacks the first ones."""
WHOLE_STEPS = 20
"""Devices that could be tried in the time in which the attributes of one node are read that others do not share."""
_PER_STATE, _PER_DEVICE = 1_000, 300
"""Bytes, roughly, of a state that is known, and of a device in a solver."""
_ELSEWHERE = DeviceReason("DevicesElsewhere", "node(s) could not use the devices that a ResourceClaim has")
_OUT_OF_SCOPE = DeviceReason("DevicesOutOfScope", "node(s) were not among those of deviceshare.ResourceClaimsScope")
_TOO_LONG = DeviceReason("DeviceSearchTooLong", f"node(s) have no answer after {MAX_STEPS} devices that were tried")
_POSTPONED = DeviceReason(
    "DeviceSearchTooLong", "node(s) were not searched to the end: the searches of a round have a limit together"
)
_NOTHING = Answer((), 0)
_SPEC = msgspec.json.Decoder(DevicesSpec)
_UNEXPLAINED = -1
"""The number of a node that does not fit, as long as the reason was not asked for."""


class NodeDevices(NamedTuple):
    """What ResourceClaims get on a node: the claims, without their names, and the score before weighting."""

    claims: tuple[DeviceClaim, ...] = ()
    score: float = 0.0


NO_DEVICES = NodeDevices()


class DeviceFilter:
    """Which nodes have devices for the claims of a pod class; nodes that do not differ are asked once.

    Args:
        requests: the claims of the pods.
        devices: the devices of the cluster.
        conf: the configuration of the pods, with their policies.
    """

    def __init__(self, requests: Sequence[ClaimRequest], devices: ClusterDevices, conf: SchedulerConf) -> None:
        self._requests = requests
        self._devices = devices
        self._shared = any(each.claim for each in requests)
        """Whether other pods may use a claim as well, or it has devices."""
        self._order = device_order(conf.ordering, conf.scoring)
        self._weights = conf.weight, tie_break_weight(conf)
        self._new = [
            ResourceClaim(metadata=Metadata(name=_name(each, at)), spec=ClaimSpec(devices=_SPEC.decode(each.devices)))
            if each.devices
            else None
            for at, each in enumerate(requests)
        ]
        """The claims that have no devices as far as facts say."""
        self._reasons: list[DeviceReason | None] = [None]
        self._numbers: dict[DeviceReason, int] = {}
        self._codes = np.zeros(0, dtype=np.int64)
        """int64[rows]: the number of the reason why a node does not fit, 0 if it fits."""
        self._scores = np.zeros(0)
        """float64[rows]: the weighted score of each node, -inf where it does not fit."""
        self._seen = -1
        self._version = -1
        self._whole = False
        """Whether the claims may look at attributes in which nodes differ: each node is searched for itself."""
        self._allocations: tuple[AllocationStatus | DeviceClaim | None, ...] = ()
        """The devices of the claims that others may use as well, as ``_codes`` take them into account."""
        self._known: dict[Hashable, Answer | DeviceReason | None] = {}
        """By state of a node; None: it does not fit, for a reason that was not asked for."""
        self._solvers: dict[Layout, Solver] = {}
        self._bytes = 0
        """What ``devices.remembered`` has of it."""
        self._round = -1
        self._left = 0
        """How many devices may be tried in this round."""
        self._postponed: dict[int, None] = {}
        """The rows that were not searched to the end, until the next round; the first one has waited longest."""

    def rejection(self) -> Refusal | None:
        """Return why no node is feasible, whatever node it is, or None."""
        obstacle = next((each.obstacle for each in self._requests if each.obstacle), "")
        return Refusal(code="DeviceClaimNotUsable", text=obstacle, nodes=0) if obstacle else None

    @property
    def exclusive(self) -> bool:
        """Whether pods on other nodes may take the same devices, or allocate the same claim, at the same time."""
        return self._devices.spans_nodes or self._shared

    def scores(self, rows: int) -> Floats:
        """Return the weighted scores of the first nodes, float64[rows], -inf where a node does not fit."""
        self._refresh(rows)
        return self._scores[:rows]

    def excluded(self, rows: Ints) -> Sequence[tuple[DeviceReason, Bools]]:
        """Return which of some nodes (rows, int64[R]) do not fit, bool[R] by reason."""
        self._refresh(int(rows.max(initial=-1)) + 1)
        for row in rows[self._codes[rows] == _UNEXPLAINED].tolist():
            self._codes[row] = self._number(self._explained(row))
        codes = self._codes[rows]
        return [(reason, codes == code) for code in np.unique(codes).tolist() if (reason := self._reasons[code])]

    def _refresh(self, rows: int) -> None:
        devices = self._devices
        changes = devices.changes
        if self._version != devices.version or self._shared:
            allocations = tuple(devices.allocation(each.claim) if each.claim else None for each in self._requests)
            if self._version != devices.version or allocations != self._allocations:
                self._allocations, self._version, self._seen = allocations, devices.version, -1
                self._whole = any(devices.names_apart(each.spec.devices) for each in self._to_allocate())
                self._known.clear()
                self._solvers.clear()
                self._numbers.clear()
                self._reasons = [None]  # all nodes are asked anew
        if len(self._codes) < (rows := max(rows, changes.rows)):
            more = (0, rows - len(self._codes))
            self._codes, self._scores = np.pad(self._codes, more), np.pad(self._scores, more)
        again: list[int] = []
        if self._round != devices.round:
            # Half of what is left, so that others can go on as well.
            self._round, self._left = devices.round, devices.steps_left // 2
            again, self._postponed = list(self._postponed), {}
        if self._seen == changes.now and not again:
            return
        changed = np.array(changes.found[: changes.since(self._seen)]).tolist()
        for row in dict.fromkeys((*again, *changed)) if again else changed:
            found = self._answer(row) if devices.has_node(row) else _NOTHING
            if isinstance(found, Answer):
                self._codes[row] = 0
                self._scores[row] = weighted_score(found.score, *self._weights)
            else:
                self._codes[row] = self._number(found)
                self._scores[row] = NEVER
            if found is _POSTPONED:
                self._postponed.setdefault(row)
                devices.postponed = True
            elif self._postponed:
                self._postponed.pop(row, None)
        self._seen = changes.now

    def _count(self) -> None:
        of_solvers = sum(_PER_DEVICE * len(each.candidates) for each in self._solvers.values())
        before, self._bytes = self._bytes, _PER_STATE * len(self._known) + of_solvers
        self._devices.remembered += self._bytes - before

    def close(self) -> None:
        """Forget all, and release what is counted of it."""
        self._known.clear()
        self._solvers.clear()
        self._count()

    def _number(self, reason: DeviceReason | None) -> int:
        if reason is None:
            return _UNEXPLAINED
        if reason not in self._numbers:
            self._numbers[reason] = len(self._reasons)
            self._reasons.append(reason)
        return self._numbers[reason]

    def _answer(self, row: int) -> Answer | DeviceReason | None:
        """Return the devices on a node, or why there are none, None: the reason was not asked for."""
        if self._shared and any(each is not None and not self._devices.usable(each, row) for each in self._allocations):
            return _ELSEWHERE
        if not self._devices.in_scope(row) and self._to_allocate():
            return _OUT_OF_SCOPE
        if self._whole:
            return self._searched(row)
        state = self._devices.state(row)
        if state not in self._known:
            found = self._searched(row)
            if found is _POSTPONED:
                return found
            self._remember(state, found)
        return self._known[state]

    def _searched(self, row: int) -> Answer | DeviceReason | None:
        """Search a node, with what is left of the round."""
        left = max(0, min(self._left, self._devices.steps_left))
        if self._whole and not left:
            return _POSTPONED
        found, tried = self._solve(row, min(MAX_STEPS, NODE_STEPS + left))
        beyond = min(left, tried + WHOLE_STEPS if self._whole else max(0, tried - NODE_STEPS))
        self._left -= beyond
        self._devices.steps_left -= beyond
        return found

    def _remember(self, state: Hashable, found: Answer | DeviceReason | None) -> None:
        if len(self._known) >= min(MAX_STATES, 2 * len(self._codes) + 100):
            self._known.clear()
        self._known[state] = found
        self._count()

    def _explained(self, row: int) -> DeviceReason:
        """Return why a node does not fit."""
        state = self._devices.state(row)
        found = self._known.get(state)
        if not isinstance(found, DeviceReason):
            try:
                found = why_not(self._solver(row), self._devices.taken(row))
            except AllocationError as error:
                found = _failed(error)
            self._remember(state, found)
        return found

    def _solver(self, row: int) -> Solver:
        layout = self._devices.seen(row, whole=self._whole).layout
        found = self._solvers.get(layout)
        if found is None:
            if len(self._solvers) >= MAX_SOLVERS:
                self._solvers.clear()
            devices, claims = self._devices, self._to_allocate()
            found = Solver(layout, devices.classes, devices.selectors, claims)
            if not self._whole:
                self._solvers[layout] = found
        return found

    def _to_allocate(self) -> list[ResourceClaim]:
        return [
            claim
            for claim, allocation in zip(self._new, self._allocations, strict=True)
            if claim is not None and allocation is None
        ]

    def _solve(self, row: int, allowed: int = MAX_STEPS) -> tuple[Answer | DeviceReason | None, int]:
        """Search, and return how many devices were tried as well."""
        solver, taken = self._solver(row), self._devices.taken(row)
        try:
            found = solver.solve(taken, allowed, self._order)
            if found.claims is None and self._whole:
                return why_not(solver, taken), solver.steps  # now, since the solver is not kept
        except AllocationError as error:
            if error.kind != "search-too-long":
                return _failed(error), solver.steps
            return _TOO_LONG if allowed == MAX_STEPS else _POSTPONED, solver.steps
        return found if found.claims is not None else None, solver.steps

    def on_node(self, row: int) -> NodeDevices:
        """Return what the claims get on a node that fits; some nodes are searched for it again."""
        answer = self._of(row)
        given = iter(answer.claims or ())
        pools = self._devices.seen(row).pools
        found = []
        for claim, allocation in zip(self._new, self._allocations, strict=True):
            if claim is None or allocation is not None:
                found.append(DeviceClaim(""))
                continue
            of_claim = next(given)
            bound = any(local(each.device.candidate.device, each.device.candidate.slice) for each in of_claim)
            node = self._devices.node_name(row) if bound else ""
            found.append(DeviceClaim("", "", tuple(each.result(pools) for each in of_claim), node))
        return NodeDevices(tuple(found), answer.score)

    def _of(self, row: int) -> Answer:
        self._refresh(row + 1)
        found = self._answer(row)
        if found is _POSTPONED:
            # The answer was forgotten, and is needed whatever other searches have tried.
            found, _ = self._solve(row)
        assert isinstance(found, Answer), "the node does not fit"
        return found


def _failed(error: AllocationError) -> DeviceReason:
    return DeviceReason("DeviceAllocationFailed", f"node(s) could not be asked for devices: {error.text}")


def _name(request: ClaimRequest, at: int) -> str:
    return request.claim.partition("/")[2] or f"number {at + 1}"
