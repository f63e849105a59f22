"""The devices of a cluster: what drivers publish, and what claims use, as facts say and as was decided."""

from collections.abc import Iterable, Sequence

from msgspec.json import encode
from msgspec.structs import replace

from deviceshare.families.dra.binding_conditions import binding_of
from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.cluster_slices import ClusterSlices, NodeLayout, State
from deviceshare.families.dra.in_use import DevicesInUse, PoolUse, device_result
from deviceshare.families.dra.layout import Taken
from deviceshare.families.dra.pools import Features, Place, PoolName, selects
from deviceshare.families.dra.quota import given_devices, has_choice, requested_devices
from deviceshare.families.dra.selectors import Selectors
from deviceshare.families.dra.taint_rules import TaintRules
from deviceshare.kernels import Changes
from deviceshare.model import (
    ClaimRequest,
    DeviceClaim,
    DeviceClaimFact,
    DeviceClassFact,
    DeviceFact,
    DeviceResult,
    DeviceSliceFact,
    DeviceTaintRuleFact,
    Labels,
    NodeFact,
    PodFact,
    ResourceAmounts,
    object_uid,
)
from deviceshare.model.device_objects import (
    AllocationStatus,
    Device,
    DeviceClass,
    DevicesSpec,
    Metadata,
    ResourceSlice,
    SliceSpec,
    TaintRuleSpec,
)

_SERVED = """AdminAccess PrioritizedList PartitionableDevices DeviceTaints ConsumableCapacity FractionalCapacityRange
ListTypeAttributes CompatibilityGroups DeviceBindingAndStatus"""
FEATURES = Features(frozenset(_SERVED.split()))
"""All that are served: an API server drops what belongs to features that are off."""
MAX_RESERVED = 256
"""Pods for which a claim is reserved, as in the API."""

ROUND_STEPS = 40_000
"""Devices that the searches of a round try together, beyond those that every search may."""


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
        """Grows with every change of a class, and with the attributes that layouts lack."""
        self.round = 0
        """Grows with every round of decisions: the searches of a round have a limit together."""
        self.steps_left = ROUND_STEPS
        """How many devices the searches of this round may try, beyond those that every search may."""
        self.postponed = False
        """Whether nodes were not searched to the end in this round, since nothing was left."""
        self.remembered = 0
        """Bytes, roughly, of what is remembered of searches; the callers change it."""
        self.selectors = Selectors(evaluator())
        self._rules = TaintRules(self.classes, self.selectors)
        self._slices = ClusterSlices(self._rules)
        self._slices_version = 0
        self._in_use = DevicesInUse(self.claims)
        self._seen: dict[int, NodeLayout] = {}
        """By row what its node sees, as long as no slice and not the node has changed."""
        self._states: dict[int, State] = {}
        self._taken: dict[int, Taken] = {}
        """Both by row, as long as nothing has changed there."""

    def begin_round(self) -> None:
        """Begin a round of decisions."""
        self.round += 1
        self.steps_left, self.postponed = ROUND_STEPS, False

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
                self._touch_classes()
                self._taint_again(self._rules.of_class(fact.name))
                return True
            case DeviceTaintRuleFact():
                return self._taint_again(self._rules.put(fact.name, fact.spec))
            case DeviceSliceFact():
                return self._put_slice(fact.name, fact.spec)
            case DeviceClaimFact():
                before = self.claims.get(fact.key)
                self.claims[fact.key] = fact
                self._charge(fact.key)
                return _frees(before, fact)

    def drop(self, fact: DeviceFact) -> bool:
        """Remove an object; return whether pods may fit that did not."""
        match fact:
            case DeviceClassFact():
                self.classes.pop(fact.name, None)
                self._touch_classes()
                return self._taint_again(self._rules.of_class(fact.name))
            case DeviceTaintRuleFact():
                return self._taint_again(self._rules.put(fact.name, None))
            case DeviceSliceFact():
                return self._put_slice(fact.name, None)  # a pool of which it was one too many may be complete
            case DeviceClaimFact():
                before = self.claims.pop(fact.key, None)
                self._charge(fact.key)
                return _frees(before, None)

    def _touch_classes(self) -> None:
        self.version += 1
        self._touch_all()

    def _put_slice(self, name: str, spec: SliceSpec | None) -> bool:
        return self._slices_changed(self._slices.put(name, spec))

    def _taint_again(self, rules: Sequence[TaintRuleSpec]) -> bool:
        return self._slices_changed(self._slices.taint_again(rules) if rules else [])

    def _slices_changed(self, changed: Iterable[tuple[PoolName, str]]) -> bool:
        if self._slices_version != self._slices.version:
            self._slices_version = self._slices.version
            self._seen.clear()
            self._touch_classes()
        for pool, node in changed:
            self._touch_pool(pool, node, slices=True)
        return bool(changed)

    # Nodes

    def limit(self, labels: Labels) -> None:
        """Give only devices of nodes with these labels, which no other node sees; (): all devices."""
        if labels != self._slices.scope:
            self._slices.scope = labels
            self._seen.clear()
            self._touch_classes()

    def in_scope(self, row: int) -> bool:
        """Return whether the devices of the node in a row are given."""
        node = self._nodes[row]
        assert node is not None
        return not self._slices.scope or self._slices.in_scope(place_of(node))

    def set_node(self, row: int) -> None:
        """Apply that a row has another node, another state of it, or none."""
        self._seen.pop(row, None)
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
            if (failed := binding_of(fact).failed) and {*fact.reserved_for} - {object_uid(pod.uid)}:
                # Without other pods the binder takes its devices away.
                return ClaimRequest(obstacle=f"ResourceClaim {name}: {failed}")
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

    def counted(self, key: str, decided: Iterable[DeviceClaim]) -> ResourceAmounts:
        """Return what a claim counts in queues; ``decided``: the devices that pods of it will get, none if not known.

        What was decided for a claim that had the name before is none of it; a trial does not say for which one it is.
        """
        fact = self.claims.get(key)
        if fact is None:
            return ()
        if fact.allocation is not None:
            return given_devices(fact.devices, map(device_result, fact.allocation.devices.results))
        chosen = next((each for each in decided if each.uid in ("", fact.uid)), None)
        return requested_devices(fact.devices) if chosen is None else given_devices(fact.devices, chosen.results)

    def depends_on_devices(self, key: str, names: Iterable[str]) -> bool:
        """Return whether a claim may count another amount of these resources once it has devices."""
        fact = self.claims.get(key)
        return fact is not None and fact.allocation is None and has_choice(fact.devices, names)

    def charge(self, claims: Iterable[DeviceClaim], sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) the claims of a pod with the devices that were decided for them."""
        for each in claims:
            if each.results:
                self._in_use.decide(each, sign)
                self._charge(each.key)

    def allocation(self, key: str) -> AllocationStatus | DeviceClaim | None:
        """Return the devices that a claim has, or that were decided for it; None: it has none.

        What was decided for a claim that had the name before is none of it.
        """
        fact = self.claims.get(key)
        if fact is not None and fact.allocation is not None:
            return fact.allocation
        return next((each for each in self._in_use.decided(key) if fact is None or each.uid == fact.uid), None)

    def usable(self, allocation: AllocationStatus | DeviceClaim, row: int) -> bool:
        """Return whether pods on a node can use the devices of a claim."""
        node = self._nodes[row]
        assert node is not None
        place = place_of(node)
        if isinstance(allocation, AllocationStatus):
            return allocation.node_selector is None or selects(allocation.node_selector, place)
        if allocation.node:
            return allocation.node == node.name
        return all(self._slices.has(result, place) for result in allocation.results)

    @property
    def spans_nodes(self) -> bool:
        """Whether there are devices that several nodes may use."""
        return self._slices.span_nodes

    def node_name(self, row: int) -> str:
        """Return the name of the node in a row."""
        node = self._nodes[row]
        assert node is not None
        return node.name

    def has_node(self, row: int) -> bool:
        """Return whether there is a node in a row."""
        return row < len(self._nodes) and self._nodes[row] is not None

    def _charge(self, key: str) -> None:
        for pool in self._in_use.count(key):
            self._touch_pool(pool)

    # Answers

    def device(self, result: DeviceResult) -> tuple[Device, ResourceSlice]:
        """Return a device with its slice, of the newest generation. Raises LookupError: there is none."""
        return self._slices.device(result)

    def use(self, pool: PoolName) -> PoolUse | None:
        """Return what is in use of a pool, None: nothing."""
        return self._in_use.of_pool(pool)

    def row_of(self, pool: PoolName) -> int | None:
        """Return the row of the node of a pool, None if it has none, or several nodes see it."""
        return next((self._rows[node] for node in self._slices.nodes(pool) if node in self._rows), None)

    def names_apart(self, devices: DevicesSpec) -> bool:
        """Return whether a claim may look at attributes in which nodes differ: it needs the ``whole`` devices."""
        exact = [each for request in devices.requests for each in (request.exactly, *request.first_available)]
        names = {each.device_class_name for each in exact if each is not None}
        selectors = [one for each in names & self.classes.keys() for one in self.classes[each].spec.selectors]
        return self._slices.names_apart(selectors, devices)

    def seen(self, row: int, *, whole: bool = False) -> NodeLayout:
        """Return the devices that the node in a row sees.

        ``whole``: with the attributes in which nodes differ. Devices have the same numbers with and without. Nothing
        keeps it, so it costs as much each time.
        """
        found = None if whole else self._seen.get(row)
        if found is None:
            node = self._nodes[row]
            assert node is not None
            found = self._slices.layout(place_of(node), FEATURES, whole=whole)
            if not whole:
                self._seen[row] = found
        return found

    def state(self, row: int) -> State:
        """Return what decides which claims fit on a node: equal for nodes on which the same claims fit."""
        found = self._states.get(row)
        if found is None:
            seen = self.seen(row)
            keys = [use.key if (use := self._in_use.of_pool(pool)) is not None else None for pool in seen.pools]
            found = self._states[row] = State(seen.layout, tuple(keys))
        return found

    def taken(self, row: int) -> Taken:
        """Return the devices in use that the node in a row sees."""
        found = self._taken.get(row)
        if found is None:
            seen = self.seen(row)
            found = self._taken[row] = seen.layout.taken([self._in_use.of_pool(pool) for pool in seen.pools])
        return found

    # Changes

    def _touch(self, row: int) -> None:
        if not self._active:
            return
        # What is charged to a new node is charged before its fact has changed.
        if self.changes.rows < (rows := max(self._facts.rows, row + 1)):
            self.changes.grow(rows)
        self.changes.touch(row)
        self._states.pop(row, None)
        self._taken.pop(row, None)

    def _touch_pool(self, pool: PoolName, *nodes: str, slices: bool = False) -> None:
        """Apply that a pool has changed; ``nodes``: where it may have no slice now; ``slices``: not only its use."""
        found = dict.fromkeys([*nodes, *self._slices.nodes(pool)])
        if "" in found:
            if slices:
                self._seen.clear()
            self._touch_all()
            return
        for node in found:
            if (row := self._rows.get(node)) is not None:
                if slices:
                    self._seen.pop(row, None)
                self._touch(row)

    def _touch_all(self) -> None:
        self.changes.touch_all()
        self._states.clear()
        self._taken.clear()


def place_of(node: NodeFact) -> Place:
    """Return a node as the solver sees it."""
    return Place(node.name, node.labels)


def _frees(before: DeviceClaimFact | None, after: DeviceClaimFact | None) -> bool:
    """Return whether a claim has no devices any more that it had."""
    had = before is not None and before.allocation is not None
    return had and (after is None or after.allocation is None)
