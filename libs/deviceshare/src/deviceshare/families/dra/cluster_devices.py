"""The devices of a cluster: what drivers publish, and what claims use, as facts say and as was decided."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence

from msgspec.json import encode
from msgspec.structs import replace

from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.in_use import DeviceUse
from deviceshare.families.dra.pools import DeviceId, Features, Place, sees, selects
from deviceshare.families.dra.selectors import Selectors
from deviceshare.families.dra.slice_kinds import SliceKinds
from deviceshare.families.dra.solver import Solver
from deviceshare.kernels import Changes
from deviceshare.model import (
    ClaimRequest,
    DeviceClaim,
    DeviceClaimFact,
    DeviceClassFact,
    DeviceFact,
    DeviceResult,
    DeviceSliceFact,
    NodeFact,
    PodFact,
    object_uid,
)
from deviceshare.model.device_objects import AllocationStatus, Device, DeviceClass, Metadata, ResourceSlice, Result

FEATURES = Features(
    frozenset(
        [
            "AdminAccess",
            "PrioritizedList",
            "PartitionableDevices",
            "DeviceTaints",
            "ConsumableCapacity",
            "FractionalCapacityRange",
            "ListTypeAttributes",
            "CompatibilityGroups",
        ]
    )
)
"""All that are served: an API server drops what belongs to features that are off. Without ``DeviceBindingAndStatus``
devices with binding conditions match no request: the binder does not wait for conditions."""
MAX_RESERVED = 256
"""Pods for which a claim is reserved, as in the API."""

_Pool = tuple[str, str]
_NO_POOLS: Counter[_Pool] = Counter()


class ClusterDevices:
    """DeviceClasses, ResourceSlices and ResourceClaims, and the devices in use.

    Args:
        facts: the changes of the nodes.
        nodes: the node of each row, None for a row without one; the caller changes it in place.
        rows: the rows of the nodes by name; likewise.
    """

    def __init__(self, facts: Changes, nodes: Sequence[NodeFact | None], rows: dict[str, int]) -> None:
        self._facts = facts
        self._nodes = nodes
        self._rows = rows
        self._active = False
        """Whether an object of devices was ever known: before, nothing is kept of nodes."""
        self.changes = Changes()
        """The rows in which devices, or their use, have changed."""
        self.classes: dict[str, DeviceClass] = {}
        self.claims: dict[str, DeviceClaimFact] = {}
        """By ``namespace/name``."""
        self.version = 0
        """Grows with every change of a class, or of what is known of several nodes."""
        self.round = 0
        """Grows with every round of decisions: the searches of a round have a limit together."""
        self.selectors = Selectors(evaluator())
        self._kinds = SliceKinds()
        self._slices: dict[str, ResourceSlice] = {}
        self._of_pool: defaultdict[_Pool, dict[str, ResourceSlice]] = defaultdict(dict)
        self._pools_of: defaultdict[str, Counter[_Pool]] = defaultdict(Counter)
        """By node its pools, each with the number of its slices; '': those that several nodes may see."""
        self._decided: defaultdict[str, Counter[DeviceClaim]] = defaultdict(Counter)
        """By claim what was decided for it, with the number of pods."""
        self._charged: dict[str, tuple[DeviceResult, ...]] = {}
        """By claim the devices that are counted for it."""
        self._use = DeviceUse()
        self._states: dict[int, Hashable] = {}
        """By row, as long as nothing has changed there."""

    # Objects

    def put(self, fact: DeviceFact) -> bool:
        """Add or update an object; return whether pods may fit that did not."""
        if not self._active:
            self._active = True
            for row, node in enumerate(self._nodes):
                if node is not None:
                    self._touch(row)
        match fact:
            case DeviceClassFact():
                self.classes[fact.name] = DeviceClass(metadata=Metadata(name=fact.name), spec=fact.spec)
                self._kinds.read(fact.spec.selectors)
                self._touch_all()
                return True
            case DeviceSliceFact():
                self._put_slice(fact.name, ResourceSlice(metadata=Metadata(name=fact.name), spec=fact.spec))
                return True
            case DeviceClaimFact():
                before = self.claims.get(fact.key)
                self.claims[fact.key] = fact
                if fact.allocation is None and self._kinds.read((), fact.devices):
                    self._touch_all()
                self._charge(fact.key)
                return _frees(before, fact)

    def drop(self, fact: DeviceFact) -> bool:
        """Remove an object; return whether pods may fit that did not."""
        match fact:
            case DeviceClassFact():
                self.classes.pop(fact.name, None)
                self._touch_all()
            case DeviceSliceFact():
                self._put_slice(fact.name, None)
                return True  # a pool of which it was one slice too many may be complete
            case DeviceClaimFact():
                before = self.claims.pop(fact.key, None)
                self._charge(fact.key)
                return _frees(before, None)
        return False

    def _put_slice(self, name: str, after: ResourceSlice | None) -> None:
        before = self._slices.pop(name, None)
        if after is not None:
            self._slices[name] = after
        for each, sign in ((before, -1), (after, 1)):
            if each is None:
                continue
            pool, node = (each.spec.driver, each.spec.pool.name), each.spec.node_name
            if sign > 0:
                self._of_pool[pool][name] = each
            elif self._of_pool[pool].pop(name, None) is not None and not self._of_pool[pool]:
                del self._of_pool[pool]
            pools = self._pools_of[node]
            pools[pool] += sign
            if not pools[pool]:
                del pools[pool]
            if not pools:
                del self._pools_of[node]
            self._touch_pool(pool, node)

    # Nodes

    def set_node(self, row: int) -> None:
        """Apply that a row has another node, another state of it, or none."""
        self._touch(row)

    # Claims of pods

    def requests(self, pod: PodFact) -> tuple[ClaimRequest, ...]:
        """Return what the ResourceClaims of a waiting pod ask for, in their order."""
        return tuple(self._request(pod, each.claim, each.template) for each in pod.device_claims)

    def _request(self, pod: PodFact, key: str, template: str) -> ClaimRequest:
        name = key.partition("/")[2]
        if not key:
            return ClaimRequest(obstacle=f"the ResourceClaim of template {template} is not created yet")
        fact = self.claims.get(key)
        if fact is None:
            return ClaimRequest(obstacle=f"ResourceClaim {name} does not exist")
        if template and fact.owner != object_uid(pod.uid):
            return ClaimRequest(obstacle=f"ResourceClaim {name} is not owned by the pod")
        if fact.terminating:
            return ClaimRequest(obstacle=f"ResourceClaim {name} is being deleted")
        if fact.problems:
            return ClaimRequest(obstacle=str(fact.problems[0]))
        if fact.allocation is not None:
            if len(fact.reserved_for) >= MAX_RESERVED and object_uid(pod.uid) not in fact.reserved_for:
                return ClaimRequest(obstacle=f"ResourceClaim {name} is in use by {MAX_RESERVED} pods")
            return ClaimRequest(claim=key)
        return ClaimRequest(encode(fact.devices).decode(), "" if template else key)

    def decided(self, claims: Sequence[DeviceClaim], chosen: Sequence[DeviceClaim]) -> tuple[DeviceClaim, ...]:
        """Return the claims of a pod with the devices that were chosen for them, both in the pod's order.

        Nothing is chosen where claims are not served.
        """
        found = []
        if not chosen:
            return ()
        for each, choice in zip(claims, chosen, strict=True):
            fact = self.claims.get(each.key)
            found.append(replace(choice, key=each.key, uid=fact.uid if fact is not None else ""))
        return tuple(found)

    def charge(self, claims: Iterable[DeviceClaim], sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) the claims of a pod with the devices that were decided for them."""
        for each in claims:
            if each.results:
                decided = self._decided[each.key]
                decided[each] += sign
                if not decided[each]:
                    del decided[each]
                if not decided:
                    del self._decided[each.key]
                self._charge(each.key)

    def allocation(self, key: str) -> AllocationStatus | DeviceClaim | None:
        """Return the devices that a claim has, or that were decided for it; None: it has none."""
        fact = self.claims.get(key)
        if fact is not None and fact.allocation is not None:
            return fact.allocation
        return next(iter(self._decided.get(key, ())), None)

    def usable(self, allocation: AllocationStatus | DeviceClaim, row: int) -> bool:
        """Return whether pods on a node can use the devices of a claim."""
        node = self._nodes[row]
        assert node is not None
        place = place_of(node)
        if isinstance(allocation, AllocationStatus):
            return allocation.node_selector is None or selects(allocation.node_selector, place)
        if allocation.node:
            return allocation.node == node.name
        return all(
            any(
                sees(each, place) and any(device.name == result.device for device in each.spec.devices)
                for each in self._of_pool.get((result.driver, result.pool), {}).values()
            )
            for result in allocation.results
        )

    @property
    def spans_nodes(self) -> bool:
        """Whether there are devices that several nodes may use."""
        return "" in self._pools_of

    def node_name(self, row: int) -> str:
        """Return the name of the node in a row."""
        node = self._nodes[row]
        assert node is not None
        return node.name

    def has_node(self, row: int) -> bool:
        """Return whether there is a node in a row."""
        return row < len(self._nodes) and self._nodes[row] is not None

    def _charge(self, key: str) -> None:
        """Count the devices of a claim anew."""
        fact = self.claims.get(key)
        results = dict.fromkeys(each for claim in self._decided.get(key, ()) for each in claim.results)
        if fact is not None and fact.allocation is not None:
            # What facts say comes before what was decided: the claim has these devices.
            results = dict.fromkeys(_result(each) for each in fact.allocation.devices.results)
        before, after = self._charged.pop(key, ()), tuple(results)
        if after:
            self._charged[key] = after
        if before == after:
            return
        for results_of, sign in ((before, -1), (after, 1)):
            for each in results_of:
                self._use.add(each, sign)
        for pool in dict.fromkeys((each.driver, each.pool) for each in (*before, *after)):
            self._touch_pool(pool)

    # Answers

    def device(self, result: DeviceResult) -> tuple[Device, ResourceSlice]:
        """Return a device with its slice, of the newest generation. Raises LookupError: there is none."""
        found = [
            (each.spec.pool.generation, device, each)
            for each in self._of_pool.get((result.driver, result.pool), {}).values()
            for device in each.spec.devices
            if device.name == result.device
        ]
        if not found:
            raise LookupError(f"there is no device {'/'.join(result.id)}")
        _, device, of_slice = max(found, key=lambda each: each[0])
        return device, of_slice

    def is_overused(self, result: DeviceResult) -> bool:
        """Return whether claims have more of a device than there is: one that is not shared, more than once."""
        try:
            device, _ = self.device(result)
        except LookupError:
            return False
        return self._use.is_overused(result.id, device)

    def solver(self, row: int, only: Collection[DeviceId] | None = None) -> Solver:
        """Return the solver for a node; ``only``: the devices that may be chosen, None: all."""
        node = self._nodes[row]
        assert node is not None
        pools = {**self._pools_of.get(node.name, _NO_POOLS), **self._pools_of.get("", _NO_POOLS)}
        slices = [each for pool in pools for each in self._of_pool[pool].values()]
        return Solver(place_of(node), slices, self.classes, self._use.now, FEATURES, self.selectors, only)

    def state(self, row: int) -> Hashable:
        """Return what decides which claims fit on a node: equal for nodes on which the same claims fit."""
        found = self._states.get(row)
        if found is None:
            found = self._states[row] = self._state(row)
        return found

    def _state(self, row: int) -> Hashable:
        node = self._nodes[row]
        assert node is not None
        found: list[Hashable] = [self.version]
        place = place_of(node)
        several = self._pools_of.get("", _NO_POOLS)
        for pool in sorted({*self._pools_of.get(node.name, _NO_POOLS), *several}):
            of_pool = sorted(self._of_pool[pool].items())
            generations = sorted({each.spec.pool.generation for _, each in of_pool})
            found.append(pool[0])
            for name, each in of_pool:
                seen = each.spec.node_name == node.name or (pool in several and sees(each, place))
                kind = self._kinds.of(each, node.name)
                generation = generations.index(each.spec.pool.generation) if len(generations) > 1 else 0
                # A pool of several nodes is another one for each node whose devices are selected one by one.
                where = node.name if each.spec.per_device_node_selection else ""
                found.append((kind, generation, seen, where, name if pool in several else "", self._use.of(each)))
        return tuple(found)

    # Changes

    def _touch(self, row: int) -> None:
        if not self._active:
            return
        # What is charged to a new node is charged before its fact has changed.
        if self.changes.rows < (rows := max(self._facts.rows, row + 1)):
            self.changes.grow(rows)
        self.changes.touch(row)
        self._states.pop(row, None)

    def _touch_pool(self, pool: _Pool, *nodes: str) -> None:
        """Apply that a pool has changed; ``nodes``: where it may have no slice any more."""
        found = dict.fromkeys([*nodes, *(each.spec.node_name for each in self._of_pool.get(pool, {}).values())])
        if "" in found:
            self._touch_all()
            return
        for node in found:
            if (row := self._rows.get(node)) is not None:
                self._touch(row)

    def _touch_all(self) -> None:
        self.version += 1
        self.changes.touch_all()
        self._states.clear()


def place_of(node: NodeFact) -> Place:
    """Return a node as the solver sees it."""
    return Place(node.name, node.labels)


def _result(result: Result) -> DeviceResult:
    consumed = tuple(sorted((name, str(value)) for name, value in result.consumed_capacity.items()))
    return DeviceResult(
        result.request,
        result.driver,
        result.pool,
        result.device,
        shared=bool(result.share_id),
        consumed=consumed,
        admin=result.admin_access,
    )


def _frees(before: DeviceClaimFact | None, after: DeviceClaimFact | None) -> bool:
    """Return whether a claim has no devices any more that it had."""
    had = before is not None and before.allocation is not None
    return had and (after is None or after.allocation is None)
