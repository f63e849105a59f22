"""Answers of the HTTP API, computed in threads on copies of the core's state: a large cluster takes seconds."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec
from deviceshare.queueing import Queues
from deviceshare_bus.runtime.garbage import return_memory
from deviceshare_bus.runtime.service import real_time
from msgspec.structs import replace

from deviceshare_metrics import api, lists
from deviceshare_metrics.api_dashboard import NodeDetail
from deviceshare_metrics.core import MetricsCore, Snapshot, StateStore, build_snapshot, count
from deviceshare_metrics.core.accounts import queue_accounts
from deviceshare_metrics.core.claimed_devices import with_node_devices
from deviceshare_metrics.core.explaining import explain
from deviceshare_metrics.core.fragmented_pods import FragmentedPods
from deviceshare_metrics.core.queue_position import has_queue_position, queue_positions
from deviceshare_metrics.core.queue_reasons import has_queue_reasons, with_queue_reasons, with_queue_state
from deviceshare_metrics.core.states import Counts
from deviceshare_metrics.core.usage import Cards
from deviceshare_metrics.core.visibility import (
    EVERYTHING,
    Visibility,
    namespaces_of,
    shown_item,
    visible,
    visible_store,
)

T = TypeVar("T")
KEEP = 10.0
"""Seconds for which a value is kept after it was last asked for: one of a large cluster takes hundreds of megabytes. A
dashboard asks every five seconds: while the cluster does not change, each answer would else be computed anew."""
RETURN = 1.0
"""Seconds after which the memory of released values is returned to the system, once for all that were released
meanwhile: it blocks the process for some tenths of a second in a large cluster."""
MAX_VISIBILITIES = 32
"""Views of users whose counts are kept."""


def in_thread(compute: Callable[[StateStore], T]) -> Callable[[StateStore], Awaitable[T]]:
    """Return a pure function of a store as one that runs in a thread."""
    return lambda store: asyncio.to_thread(compute, store)


class Computed(Generic[T]):
    """A value that is computed from the store once per version of the store, and kept for :data:`KEEP`.

    Args:
        store: the state, which changes between calls of :meth:`get`.
        compute: computes the value from an unchanging copy of the store, what takes long in a thread.
    """

    _returning: ClassVar[asyncio.TimerHandle | None] = None

    def __init__(self, store: StateStore, compute: Callable[[StateStore], Awaitable[T]]) -> None:
        self._store = store
        self._compute = compute
        self._lock = asyncio.Lock()
        self._latest: tuple[int, T] | None = None
        self._release: asyncio.TimerHandle | None = None

    async def get(self) -> T:
        """Return the value of the store's version at the time of the call, or of a later one.

        Concurrent calls share a computation: at most one runs, and at most one more follows for those that wait.
        """
        wanted = self._store.version
        async with self._lock:
            if self._release is not None:
                self._release.cancel()
            if self._latest is None or self._latest[0] < wanted:
                self._latest = None  # at most one value at a time
                copy = self._store.copy()
                self._latest = (copy.version, await self._compute(copy))
            self._release = asyncio.get_running_loop().call_later(KEEP, self._forget)
            return self._latest[1]

    def _forget(self) -> None:
        self._latest = None
        if Computed._returning is not None:
            Computed._returning.cancel()
        Computed._returning = asyncio.get_running_loop().call_later(RETURN, return_memory)


class Queries:
    """Answers queries about the state of a core, while the service applies events to it."""

    def __init__(self, core: MetricsCore) -> None:
        self._core = core
        self.snapshot: Callable[[], Awaitable[Snapshot]] = Computed(core.store, in_thread(build_snapshot)).get
        """Returns the current snapshot."""
        self.accounts: Callable[[], Awaitable[Queues]] = Computed(core.store, in_thread(queue_accounts)).get
        """Returns the current accounts of the queues."""
        self.pods: Callable[[], Awaitable[Sequence[api.Pod]]] = Computed(core.store, self._pods).get
        """Returns the pods of the current snapshot; what is said of queues is current."""
        self.namespaces: Callable[[], Awaitable[frozenset[str]]] = Computed(core.store, in_thread(namespaces_of)).get
        """Returns the namespaces that have pods."""
        self._positions = Computed(core.store, self._queue_positions).get
        self._fragmented = Computed(core.store, in_thread(lambda store: FragmentedPods(store, Cards(store)))).get
        self._counts: OrderedDict[Visibility, Computed[Counts]] = OrderedDict()

    async def status(self, visibility: Visibility = EVERYTHING) -> api.ClusterStatus:
        """Return the counts; of pods and claims those that a user sees."""
        counts = self._counts.get(visibility)
        if counts is None:
            counts = self._counts[visibility] = Computed(
                self._core.store, in_thread(lambda store: count(visible_store(store, visibility)))
            )
            if len(self._counts) > MAX_VISIBILITIES:
                self._counts.popitem(last=False)
        self._counts.move_to_end(visibility)
        nodes, pods, claims, problems = await counts.get()
        return api.ClusterStatus(
            pods={state: pods[state] for state in api.POD_STATES},
            claims={state: claims[state] for state in api.CLAIM_STATES},
            nodes={state: nodes[state] for state in api.NODE_STATES},
            open_claims=claims["open"] + claims["withdrawing"],
            undecodable=self._core.tallies.undecodable.total(),
            problems=problems,
            synced=self._core.store.synced,
            seconds_since_change=round(self._core.seconds_since_change(real_time()), 3),
        )

    async def items(self, kind: str, visibility: Visibility = EVERYTHING) -> Sequence[msgspec.Struct]:
        """Return all items of a kind of :data:`.listing.LISTINGS` that a user sees."""
        store = self._core.store
        items: Sequence[msgspec.Struct]
        match kind:
            case "pods":
                items = await self.pods()
            case "queues":
                items = lists.queues(await self.accounts(), await self.snapshot(), store)
            case "events":
                steps, copy = self._core.events.latest(), store.copy()
                items = await asyncio.to_thread(lambda: [*lists.events(steps, copy)])
            case "waiting":
                pods, copy = await self.pods(), store.copy()
                # By what is visible: of a group some pods may be hidden, and reasons that differ look the same.
                return await asyncio.to_thread(lambda: lists.waiting(visible(pods, visibility), copy))
            case _:
                items = getattr(await self.snapshot(), kind)
        return items if visibility.everything else await asyncio.to_thread(visible, items, visibility)

    async def _pods(self, store: StateStore) -> Sequence[api.Pod]:
        snapshot = await self.snapshot()
        if not await asyncio.to_thread(has_queue_reasons, store, snapshot.pods):
            return snapshot.pods
        return await asyncio.to_thread(with_queue_reasons, store, snapshot.pods, await self.accounts())

    async def _queue_positions(self, store: StateStore) -> Mapping[str, api.QueuePosition]:
        return await asyncio.to_thread(queue_positions, store, await self.accounts())

    async def node(self, name: str, visibility: Visibility = EVERYTHING) -> NodeDetail | None:
        """Return a node with its cards and pods, None if it is unknown. Costs no snapshot of the cluster."""
        part = self._core.changed_nodes.part(self._core.store, [name])
        slices, claims = self._core.store.device_slices.copy(), self._core.store.device_claims.copy()
        snapshot = await asyncio.to_thread(lambda: build_snapshot(with_node_devices(part, slices, claims, name)))
        if not snapshot.nodes:
            return None
        (node,) = snapshot.nodes
        pods = tuple(pod for pod in snapshot.pods if pod.node == name and pod.state != "Ended")
        drivers = tuple(each for each in snapshot.drivers if each.node == name)
        detail = NodeDetail(node=node, devices=snapshot.devices, pods=pods, claims=snapshot.claims, drivers=drivers)
        shown: NodeDetail = shown_item(detail, visibility)
        return shown

    async def explain(
        self, namespace: str, name: str, visibility: Visibility = EVERYTHING
    ) -> api.PodExplanation | None:
        """Return what is known of a pod, also of one that is gone; None if it is unknown, or hidden from the user."""
        if not visibility.sees(namespace):
            return None
        part = self._core.changed_nodes.part_of_pod(self._core.store, namespace, name)
        snapshot = await asyncio.to_thread(build_snapshot, part)
        # For a pod that is gone all histories are searched.
        store = part if snapshot.pods else self._core.store.copy()
        found = await asyncio.to_thread(explain, store, snapshot, namespace, name)
        if found is not None and found.pod is not None and has_queue_position(found.pod):
            accounts, positions = await self.accounts(), await self._positions()
            model = (await self._fragmented()).model(found.explanation)
            found = replace(found, pod=replace(found.pod, fragmented=model))
            found = with_queue_state(store, found, accounts, positions, real_time().wall)
        if found is not None and found.pod is not None:
            found = replace(found, start=self._core.start_times.of(found, real_time()))
        return None if found is None else shown_item(found, visibility)
