"""Answers of the HTTP API, computed in threads on copies of the core's state: a large cluster takes seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import msgspec
from deviceshare.queueing import Queues
from deviceshare_bus.service import real_time

from deviceshare_metrics import api, lists
from deviceshare_metrics.api_dashboard import NodeDetail
from deviceshare_metrics.core import MetricsCore, Snapshot, StateStore, build_snapshot, count
from deviceshare_metrics.core.accounts import queue_accounts
from deviceshare_metrics.core.explaining import explain

T = TypeVar("T")


class Computed(Generic[T]):
    """A value that is computed from the store in a thread, once per version of the store.

    Args:
        store: the state, which changes between calls of :meth:`get`.
        compute: a pure function of an unchanging copy of the store.
    """

    def __init__(self, store: StateStore, compute: Callable[[StateStore], T]) -> None:
        self._store = store
        self._compute = compute
        self._lock = asyncio.Lock()
        self._latest: tuple[int, T] | None = None

    async def get(self) -> T:
        """Return the value of the store's version at the time of the call, or of a later one.

        Concurrent calls share a computation: at most one runs, and at most one more follows for those that wait.
        """
        wanted = self._store.version
        async with self._lock:
            if self._latest is None or self._latest[0] < wanted:
                # At most one value at a time: that of a large cluster takes a hundred megabytes.
                self._latest = None
                copy = self._store.copy()
                self._latest = (copy.version, await asyncio.to_thread(self._compute, copy))
            return self._latest[1]


class Queries:
    """Answers queries about the state of a core, while the service applies events to it."""

    def __init__(self, core: MetricsCore) -> None:
        self._core = core
        self.snapshot: Callable[[], Awaitable[Snapshot]] = Computed(core.store, build_snapshot).get
        """Returns the current snapshot."""
        self.accounts: Callable[[], Awaitable[Queues]] = Computed(core.store, queue_accounts).get
        """Returns the current accounts of the queues."""
        self._counts = Computed(core.store, count)

    async def status(self) -> api.ClusterStatus:
        """Return the counts."""
        nodes, pods, claims, problems = await self._counts.get()
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

    async def items(self, kind: str) -> Sequence[msgspec.Struct]:
        """Return all items of a kind of :data:`.listing.LISTINGS`."""
        store, snapshot = self._core.store, await self.snapshot()
        match kind:
            case "queues":
                return lists.queues(await self.accounts(), snapshot, store)
            case "events":
                steps, copy = self._core.events.latest(), store.copy()
                return await asyncio.to_thread(lambda: [*lists.events(steps, copy)])
            case "waiting":
                return await asyncio.to_thread(lists.waiting, snapshot, store.copy())
        items: Sequence[msgspec.Struct] = getattr(snapshot, kind)
        return items

    async def node(self, name: str) -> NodeDetail | None:
        """Return a node with its cards and pods, None if it is unknown. Costs no snapshot of the cluster."""
        part = self._core.changed_nodes.part(self._core.store, [name])
        snapshot = await asyncio.to_thread(build_snapshot, part)
        if not snapshot.nodes:
            return None
        (node,) = snapshot.nodes
        pods = tuple(pod for pod in snapshot.pods if pod.node == name and pod.state != "Ended")
        return NodeDetail(node=node, devices=snapshot.devices, pods=pods, claims=snapshot.claims)

    async def explain(self, namespace: str, name: str) -> api.PodExplanation | None:
        """Return what is known of a pod, also of one that is gone; None if it is unknown."""
        part = self._core.changed_nodes.part_of_pod(self._core.store, namespace, name)
        snapshot = await asyncio.to_thread(build_snapshot, part)
        # For a pod that is gone all histories are searched.
        store = part if snapshot.pods else self._core.store.copy()
        return await asyncio.to_thread(explain, store, snapshot, namespace, name)
