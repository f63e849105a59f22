"""The ResourceSlices of a cluster by pool and node, and what each node sees of them."""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from deviceshare.families.dra.layout import Layout
from deviceshare.families.dra.pools import Features, Place, PoolName, sees
from deviceshare.families.dra.slice_kinds import KeptSlice, SliceKinds
from deviceshare.families.dra.taint_rules import TaintRules, selects_pool
from deviceshare.model import DeviceResult, Labels
from deviceshare.model.device_objects import Device, DevicesSpec, ResourceSlice, Selector, SliceSpec, TaintRuleSpec


class NodeLayout(NamedTuple):
    """What a node sees: a layout, which equal nodes share, and its pools in the layout's order."""

    layout: Layout
    pools: tuple[PoolName, ...]

    def numbers(self, result: DeviceResult) -> Sequence[int]:
        """Return the numbers of a device in the layout."""
        pool = result.driver, result.pool
        return self.layout.numbers[self.pools.index(pool)].get(result.device, ()) if pool in self.pools else ()


class State(NamedTuple):
    """A layout, and what is in use of its pools."""

    layout: Layout
    uses: tuple[Hashable, ...]


class ClusterSlices:
    """ResourceSlices; ``rules``: the taints of their devices beside those of the driver."""

    def __init__(self, rules: TaintRules) -> None:
        self._rules = rules
        self._kinds = SliceKinds()
        self._slices: dict[str, KeptSlice] = {}
        self._of_pool: dict[PoolName, tuple[KeptSlice, ...]] = {}
        """By pool its slices, as they came."""
        self._pools_of: dict[str, tuple[PoolName, ...]] = {}
        """By node its pools, sorted; '': those that several nodes may see."""
        self._layouts: WeakValueDictionary[Hashable, Layout] = WeakValueDictionary()
        self.version = 0
        """Grows when all slices are kept in another form."""
        self.scope: Labels = ()
        """The labels of the nodes that see devices, if there are some: only devices that no other node sees."""

    @property
    def span_nodes(self) -> bool:
        """Whether there are devices that several nodes may use."""
        return "" in self._pools_of

    def names_apart(self, selectors: Iterable[Selector], devices: DevicesSpec) -> bool:
        """Return whether selectors, or what a claim asks for, may look at attributes that layouts lack."""
        return self._kinds.names_apart(selectors, devices)

    def _keep_again(self) -> None:
        again = {name: self._kinds.again(each) for name, each in self._slices.items()}
        self._slices = again
        self._of_pool = {pool: tuple(again[each.name] for each in slices) for pool, slices in self._of_pool.items()}
        self.version += 1

    def put(self, name: str, spec: SliceSpec | None) -> list[tuple[PoolName, str]]:
        """Add or update a slice, None: it is gone; return the pools and nodes that have changed."""
        if spec is not None and self._kinds.learn(spec):
            self._keep_again()
        before, after = (
            self._slices.pop(name, None),
            None if spec is None else self._kinds.keep(name, self._rules.tainted(spec)),
        )
        if after is not None:
            self._slices[name] = after
        if before == after:
            return []
        changed = [each for each in (before, after) if each is not None]
        for pool in dict.fromkeys(each.pool for each in changed):
            slices = [each for each in self._of_pool.pop(pool, ()) if each.name != name]
            if after is not None and after.pool == pool:
                slices.append(after)
            if slices:
                self._of_pool[pool] = tuple(slices)
        for each in changed:
            self._set_pool_of(each.pool, each.node)
        return [(each.pool, each.node) for each in changed]

    def taint_again(self, rules: Sequence[TaintRuleSpec]) -> list[tuple[PoolName, str]]:
        """Apply that rules have changed; return the pools and nodes that have changed."""
        concerned = [each for each in self._slices.values() if any(selects_pool(rule, *each.pool) for rule in rules)]
        return [changed for each in concerned for changed in self.put(each.name, each.whole().spec)]

    def _set_pool_of(self, pool: PoolName, node: str) -> None:
        pools = {each for each in self._pools_of.pop(node, ()) if each != pool}
        if any(each.node == node for each in self._of_pool.get(pool, ())):
            pools.add(pool)
        if pools:
            self._pools_of[node] = tuple(sorted(pools))

    def nodes(self, pool: PoolName) -> Iterable[str]:
        """Return the nodes of the slices of a pool, '' for a slice that several nodes may see."""
        return (each.node for each in self._of_pool.get(pool, ()))

    def device(self, result: DeviceResult) -> tuple[Device, ResourceSlice]:
        """Return a device with its slice, of the newest generation. Raises LookupError: there is none."""
        found = [
            (each.generation, device, each)
            for each in self._of_pool.get((result.driver, result.pool), ())
            for device in each.kind.spec.devices
            if device.name == result.device
        ]
        if not found:
            raise LookupError(f"there is no device {'/'.join(result.id)}")
        _, device, of_slice = max(found, key=lambda each: each[0])
        return device, of_slice.seen()

    def has(self, result: DeviceResult, place: Place) -> bool:
        """Return whether a node sees a slice with a device."""
        return any(
            sees(each.seen(), place) and any(device.name == result.device for device in each.kind.spec.devices)
            for each in self._of_pool.get((result.driver, result.pool), ())
        )

    def _seen_pools(self, place: Place) -> tuple[PoolName, ...]:
        """Return the pools of which a node sees devices, sorted."""
        several, own = self._pools_of.get("", ()), self._pools_of.get(place.name, ())
        if not self.scope:
            return tuple(sorted({*own, *several}))
        return tuple(pool for pool in own if pool not in several) if self.in_scope(place) else ()

    def in_scope(self, place: Place) -> bool:
        """Return whether devices of a node are given."""
        return all(place.labels.get(name) == value for name, value in self.scope)

    def layout(self, place: Place, features: Features, *, whole: bool = False) -> NodeLayout:
        """Return what a node sees; ``whole``: with all attributes, which no other node shares, and nothing keeps."""
        several, pools = self._pools_of.get("", ()), self._seen_pools(place)
        key, ordered = list[Hashable](), list[KeptSlice]()
        for pool in pools:
            of_pool = self._of_pool[pool]
            if len({each.kind.spec.pool.resource_slice_count for each in of_pool}) == 1:
                # Where slices contradict each other the first one counts, as in Kubernetes.
                of_pool = tuple(sorted(of_pool, key=lambda each: each.name))
            ordered += of_pool
            generations = sorted({each.generation for each in of_pool})
            key.append(pool[0])
            for each in of_pool:
                own = each.node == place.name
                here = own or (pool in several and sees(each.seen(), place))
                # A pool of several nodes is another one for each node whose devices are selected one by one.
                where = place.name if each.kind.spec.per_device_node_selection else ""
                key.append((each.kind, generations.index(each.generation), own, here, where))
        if whole:
            return NodeLayout(Layout([each.whole() for each in ordered], place, features), pools)
        found = self._layouts.get(of_layout := tuple(key))
        if found is None:
            found = self._layouts[of_layout] = Layout([each.seen() for each in ordered], place, features)
        return NodeLayout(found, pools)
