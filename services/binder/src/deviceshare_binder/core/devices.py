"""The devices of a pod's ResourceClaims before the pod: what is to be allocated for a claim, and why it fails.

Placement decides which devices a ResourceClaim gets. The binder checks that against today's facts, writes it to the
ResourceClaims (:class:`.AllocateClaims`), and waits until facts show it: then all that others wrote before is known as
well. A claim that is refused or withdrawn frees what was written for it (:class:`.ReleaseClaims`).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2s
from typing import Any, NamedTuple

import msgspec
from deviceshare.conf import DeviceScope
from deviceshare.families.dra import (
    AllocationError,
    ClusterDevices,
    DeviceBinding,
    DeviceConflict,
    Solver,
    allocation,
    binding_of,
    device_result,
    new_conflicts,
    overused,
)
from deviceshare.kernels import Changes
from deviceshare.model import Claim, DeviceClaim, DeviceClaimFact, DeviceFact, DeviceResult, NodeFact, object_uid
from deviceshare.model.device_objects import AllocationStatus, ClaimSpec, Metadata, ResourceClaim, Result

from deviceshare_binder.core.commands import AllocateClaims, ClaimDevices, ReleaseClaims
from deviceshare_binder.core.views import NodeView

REMEMBERED = 3600.0
"""Seconds for which another scheduler counts as one that allocates ResourceClaims."""
_GATES = "the feature gates DRADeviceBindingConditions and DRAResourceClaimDeviceStatus"
_FEW_ROWS = 64
"""Rows of nodes to begin with; they double, since each growth copies all."""


class DeviceProgress(NamedTuple):
    """How far the ResourceClaims of a claim are.

    ``failed``: why they cannot be used, '' if they can; ``doubtful``: placement may have newer facts than those by
    which they cannot; ``unknown``: the ResourceClaim that is not known (yet); ``open``: those that are not reserved for
    the pod; ``waits``: the one whose devices another pod's claim allocates; ``binding``: the first one of which a
    device lacks a binding condition, whose name its text begins with.
    """

    failed: str = ""
    doubtful: bool = False
    unknown: str = ""
    open: tuple[DeviceClaim, ...] = ()
    waits: str = ""
    binding: DeviceBinding = DeviceBinding()

    @property
    def done(self) -> bool:
        """Whether all of them have devices and are reserved for the pod."""
        return not (self.failed or self.unknown or self.open or self.waits)


class Devices:
    """The objects of devices of CLUSTER, and what the claims of all ledgers have.

    ``views``: the nodes by name, which the caller changes in place. Nothing is kept of them before there are objects.
    """

    def __init__(self, views: Mapping[str, NodeView | None]) -> None:
        self._views = views
        self._active = False
        self._facts = Changes()
        self._nodes: list[NodeFact | None] = []
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._known = ClusterDevices(self._facts, self._nodes, self._rows)
        self._users: defaultdict[str, dict[str, DeviceClaim]] = defaultdict(dict)
        """By ResourceClaim the claims of ledgers that use it, by their ids with what was decided for it."""
        self._others_until = float("-inf")
        self._guarded = True
        """Whether others may allocate the same devices."""

    def configure(self, scope: DeviceScope) -> None:
        """Check and guard allocations as a configuration says."""
        self._known.limit(scope.nodes)
        self._guarded = scope.guarded

    # What is known

    def put(self, before: DeviceFact | None, fact: DeviceFact | None) -> list[str]:
        """Apply an object as it was and as it is now; return the claims of ledgers that may have waited for it."""
        if fact is not None:
            if not self._active:
                self._active = True
                for name, view in self._views.items():
                    self.put_node(name, view)
            self._known.put(fact)
        elif before is not None:
            self._known.drop(before)
        keys = {each.key for each in (before, fact) if isinstance(each, DeviceClaimFact)}
        return sorted({user for key in keys for user in self._users.get(key, ())})

    def put_node(self, name: str, view: NodeView | None) -> None:
        """Apply a node, None if it is gone."""
        if not self._active:
            return
        row = self._rows.get(name)
        if view is None:
            if row is not None:
                self._nodes[row] = None
                self._free.append(self._rows.pop(name))
            return
        if row is None:
            row = self._rows[name] = self._free.pop() if self._free else len(self._nodes)
            if row == len(self._nodes):
                self._nodes.append(None)
                if row >= self._facts.rows:
                    self._facts.grow(max(_FEW_ROWS, 2 * row))
        self._nodes[row] = NodeFact(name=name, labels=view.labels)
        self._known.set_node(row)

    def set_claims(self, before: Mapping[str, Claim], after: Mapping[str, Claim]) -> None:
        """Apply the claims in the ledger of a node, by id."""
        for claims, others, sign in ((before, after, -1), (after, before, 1)):
            for claim in claims.values():
                if claim.devices and claim is not others.get(claim.id):
                    self._known.charge(claim.devices, sign)
                    for each in claim.devices:
                        self._use(each, claim.id, add=sign > 0)

    def _use(self, of_claim: DeviceClaim, claim: str, *, add: bool) -> None:
        users = self._users[of_claim.key]
        if add:
            users[claim] = of_claim
            return
        users.pop(claim, None)
        if not users:
            del self._users[of_claim.key]

    # What is to be done

    def progress(self, claim: Claim, now: float) -> DeviceProgress:
        """Return how far the ResourceClaims of a claim are; ``now``: unix seconds."""
        unknown, waits, found, pending = "", "", list[DeviceClaim](), DeviceBinding()
        for each in claim.devices:
            fact, name = self._known.claims.get(each.key), f"ResourceClaim {each.key}"
            if fact is None:
                unknown = unknown or name
            elif fact.uid != each.uid:
                return DeviceProgress(f"{name} is another one than at the time of the decision", doubtful=True)
            elif fact.terminating:
                return DeviceProgress(f"{name} is being deleted")
            elif fact.allocation is None:
                if each.results:
                    found.append(each)
                elif any(other.results and other.uid == each.uid for other in self._users.get(each.key, {}).values()):
                    waits = waits or name
                else:  # the other pod is gone, or its ledger is not known yet
                    return DeviceProgress(f"{name} has no devices, and no pod gets some for it", doubtful=True)
            elif each.results and _ids(fact.allocation) != sorted(result.id for result in each.results):
                return DeviceProgress(f"{name} was allocated elsewhere")
            elif problem := (binding := binding_of(fact)).problem(now):
                return DeviceProgress(f"{name}: {problem}")
            elif object_uid(claim.uid) not in fact.reserved_for:
                found.append(each)
            elif binding.waits and not pending.waits:
                pending = binding._replace(waits=f"{name}: {binding.waits}")
        return DeviceProgress(unknown=unknown, open=tuple(found), waits=waits, binding=pending)

    def objection(self, claim: Claim, node: str) -> str:
        """Return why the devices cannot be allocated on a node as it was decided, '' if they can."""
        row = self._rows.get(node)
        if row is None:
            return f"there is no node {node}"
        wanted = [each for each in claim.devices if each.results and self._fact(each).allocation is None]
        self._known.charge(claim.devices, -1)
        try:
            whole = any(self._known.names_apart(self._fact(each).devices) for each in wanted)
            seen = self._known.seen(row, whole=whole)
            results = [result for each in wanted for result in each.results]
            only = {number for result in results for number in seen.numbers(result)}
            claims = [_object(self._fact(each)) for each in wanted]
            solver = Solver(seen.layout, self._known.classes, self._known.selectors, claims, only)
            solved = solver.solve(self._known.taken(row)).claims
        except AllocationError as error:
            return f"node {node}: {error.text}"
        finally:
            self._known.charge(claim.devices, 1)
        for each, given in zip(wanted, solved or [()] * len(wanted), strict=True):
            if sorted(one.result(seen.pools) for one in given) != sorted(each.results):
                names = ", ".join(result.device for result in each.results)
                return f"ResourceClaim {each.key} cannot have the devices {names} of node {node}"
        return ""

    def conflict(self, claim: Claim, node: str) -> str:
        """Return why the devices that a claim has on a node are not its own alone, '' if they are."""
        for each in claim.devices:
            for result in each.results:
                if found := overused(self._known, result, self._rows.get(node)):
                    device = f"device {'/'.join(result.id)} of ResourceClaim {each.key}"
                    counters = "consumes counters of which others have the rest"
                    return f"{device} {'has another one as well' if result.id in found else counters}"
        return ""

    def dropped(self, claim: Claim) -> str:
        """Return which device was allocated without its binding conditions, '' if none was.

        An API server drops them whose features were switched off after the slice was published, and so does an
        inventory of an earlier version.
        """
        for each in claim.devices:
            status = self._fact(each).allocation if each.results else None
            for result in status.devices.results if status is not None else ():
                try:
                    device = self._known.device(device_result(result))[0]
                except LookupError:
                    continue
                if device.binding_conditions and not result.binding_conditions:
                    name = f"{result.driver}/{result.pool}/{result.device}"
                    why = f"the binding conditions of device {name} were dropped (are {_GATES} on?)"
                    return f"ResourceClaim {each.key}: {why}"
        return ""

    def new_conflicts(
        self,
        before: DeviceFact | None,
        fact: DeviceFact | None,
        owns: Callable[[str], bool],
        waits: Callable[[str], bool],
        now: float,
    ) -> list[DeviceConflict]:
        """Return the conflicts of a ResourceClaim that has got devices; notice who allocated it.

        ``owns``: whether this replica reports devices of a pool. ``waits``: whether a pod (uid) waits for us.
        """
        if not isinstance(fact, DeviceClaimFact) or fact.allocation is None:
            return []
        if isinstance(before, DeviceClaimFact) and before.allocation == fact.allocation:
            return []
        self._notice(fact, waits, now)
        return list(new_conflicts(self._known, fact, owns))

    def start(self, waits: Callable[[str], bool], now: float) -> None:
        """Notice who allocated the ResourceClaims that have devices when facts and ledgers have been read."""
        for fact in self._known.claims.values():
            self._notice(fact, waits, now)

    def _notice(self, fact: DeviceClaimFact, waits: Callable[[str], bool], now: float) -> None:
        """Notice that others allocate, if a ResourceClaim has devices that no ledger has for it.

        An allocation is written together with the reservation for the pod that needs it, and a pod of ours is bound
        after facts have shown it: the first pod in the list still waits for us. Ledgers may be known later than that,
        and tell only of pods that are deleted meanwhile.
        """
        if fact.allocation is None or any(map(waits, fact.reserved_for[:1])):
            return
        found, decided = _ids(fact.allocation), self._users.get(fact.key, {}).values()
        if not any(sorted(one.id for one in each.results) == found for each in decided):
            self._others_until = now + REMEMBERED

    def may_be_taken(self, claim: Claim, now: float) -> bool:
        """Return whether others may allocate the devices of a claim: they allocated some within the hour."""
        return self._guarded and now < self._others_until and any(each.results for each in claim.devices)

    def request(self, claim: Claim, node: str, claims: tuple[DeviceClaim, ...], now: float) -> AllocateClaims | str:
        """Return the request that allocates ResourceClaims, or why there is none; ``now``: unix seconds."""
        at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = []
        for each in claims:
            status: dict[str, Any] | None = None
            if each.results:
                devices = {result.id: self._known.device(result) for result in each.results}
                shares, of_claim = _shares(claim, each), _object(self._fact(each))
                try:
                    status = allocation(of_claim, each.results, shares, self._known.classes, devices, node)
                except LookupError as error:
                    return f"ResourceClaim {each.key} cannot be allocated: {error}"
                status["allocationTimestamp"] = at
            fact = self._fact(each)
            untouched = fact.revision if fact.allocation is None and fact.no_finalizers else ""
            found.append(ClaimDevices(each.key, each.uid, "" if status is None else _encoded(status), untouched))
        return AllocateClaims(claim.id, claim.name, claim.uid, tuple(found))

    def release(self, claim: Claim) -> ReleaseClaims:
        """Return the request that frees what was written for a claim, and devices whose binding conditions fail it.

        The latter also where another pod allocated them.
        """
        found = []
        for each in claim.devices:
            fact, written = self._known.claims.get(each.key), list[tuple[DeviceResult | Result, str]]()
            if each.results:
                shares = zip(each.results, _shares(claim, each), strict=True)
                written += [(one, share if one.shared else "") for one, share in shares]
            elif fact is not None and fact.allocation is not None and binding_of(fact) != DeviceBinding():
                written += [(one, one.share_id) for one in fact.allocation.devices.results]
            results = [
                {"request": one.request, "driver": one.driver, "pool": one.pool, "device": one.device}
                | ({"shareID": share} if share else {})
                for one, share in written
            ]
            status = {"devices": {"results": results}} if results else None
            found.append(ClaimDevices(each.key, each.uid, "" if status is None else _encoded(status)))
        return ReleaseClaims(claim.id, claim.name, claim.uid, tuple(found))

    def _fact(self, each: DeviceClaim) -> DeviceClaimFact:
        return self._known.claims[each.key]


def _shares(claim: Claim, each: DeviceClaim) -> list[str]:
    """Return ids of shares, in the form of a UUID, the same whenever the claim is written."""
    digests = (
        blake2s(f"{claim.id}/{each.key}/{at}".encode(), digest_size=16).hexdigest() for at in range(len(each.results))
    )
    return [f"{text[:8]}-{text[8:12]}-8{text[13:16]}-8{text[17:20]}-{text[20:]}" for text in digests]


def _ids(status: AllocationStatus) -> list[tuple[str, str, str]]:
    return sorted((each.driver, each.pool, each.device) for each in status.devices.results)


def _object(fact: DeviceClaimFact) -> ResourceClaim:
    namespace, _, name = fact.key.partition("/")
    metadata = Metadata(name=name, namespace=namespace, uid=fact.uid)
    return ResourceClaim(metadata=metadata, spec=ClaimSpec(devices=fact.devices))


def _encoded(status: dict[str, Any]) -> str:
    return msgspec.json.encode(status).decode()
