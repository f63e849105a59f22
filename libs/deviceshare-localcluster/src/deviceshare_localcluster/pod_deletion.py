"""Deleting and evicting pods, as the API server does: preconditions, PodDisruptionBudgets, grace periods.

Source: Kubernetes pkg/registry/core/pod/storage/eviction.go (EvictionREST).
"""

import time

import msgspec
from deviceshare.model import InputError
from deviceshare.objects import decode_disruption_budget
from deviceshare_cluster.eviction import EvictAnswer, EvictState
from deviceshare_cluster.interface import ClusterError, Object

from deviceshare_localcluster.budgets import BUDGET, SEVERAL, needs_no_budget, refusal, selects, spends_nothing, spent
from deviceshare_localcluster.kinds import Key, key_of
from deviceshare_localcluster.store import Store
from deviceshare_localcluster.termination import goes_at_once, grace_of, is_node_ready, is_terminating, terminating


class PodDeletion:
    """Deletes pods of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def delete(self, key: Key, *, grace: int | None = None, uid: str = "", evicted: bool = False) -> bool:
        """Delete a pod with this uid ('' for any), within ``grace`` seconds (None: its own grace period).

        Returns whether there is such a pod. Raises ClusterError.
        """
        try:
            pod = await self._store.get(key)
        except ClusterError as error:
            if error.final and not uid:  # it cannot be read
                return await self._store.delete(key)
            raise
        if pod is None or uid not in ("", pod["metadata"]["uid"]):
            return False
        ready = await self._node_is_ready(pod["spec"].get("nodeName") or "")

        def at_once(live: Object) -> bool:
            same = live["metadata"]["uid"] == pod["metadata"]["uid"]
            return same and goes_at_once(live, grace_of(live, grace), ready=ready)

        if await self._store.delete(key, at_once):
            return True
        found = False

        def change(live: Object | None) -> Object | None:
            nonlocal found
            found = live is not None and live["metadata"]["uid"] == pod["metadata"]["uid"]
            if live is None or not found:
                return None
            return terminating(live, grace_of(live, grace), time.time(), evicted=evicted)

        await self._store.update(key, change)
        return found

    async def end(self, key: Key, uid: str) -> bool:
        """End a terminating pod with this uid; return whether there was one. Raises ClusterError."""
        return await self._store.delete(key, lambda pod: pod["metadata"]["uid"] == uid and is_terminating(pod))

    async def evict(self, key: Key, uid: str, *, dry_run: bool, grace: int | None = None) -> EvictAnswer:
        """See :meth:`deviceshare_cluster.interface.Cluster.evict`."""
        pod = await self._store.get(key)
        if pod is None or pod["metadata"]["uid"] != uid:
            return EvictAnswer(EvictState.GONE)
        if not needs_no_budget(pod) and (reason := await self._spend(pod, dry_run=dry_run)):
            return EvictAnswer(EvictState.BLOCKED, reason)
        if dry_run:
            return EvictAnswer(EvictState.MAY_GO)
        found = await self.delete(key, grace=grace, uid=uid, evicted=True)
        return EvictAnswer(EvictState.DONE if found else EvictState.GONE)

    async def _spend(self, pod: Object, *, dry_run: bool) -> str:
        """Count the eviction of a pod in its budget; return why this is not possible, '' if it is."""
        budgets = [budget for budget in await self._store.list_kind(BUDGET) if _selects(budget, pod)]
        if not budgets:
            return ""
        if len(budgets) > 1:
            return SEVERAL
        reason = ""

        def change(budget: Object | None) -> Object | None:
            nonlocal reason
            reason = ""
            if budget is None or spends_nothing(budget, pod) or (reason := refusal(budget)) or dry_run:
                return None
            return spent(budget, pod["metadata"]["name"], time.time())

        await self._store.update(key_of(budgets[0]), change)
        return reason

    async def _node_is_ready(self, name: str) -> bool:
        """Return whether the kubelet of a node ends pods; of no node, or a missing one, nothing keeps them."""
        if not name:
            return True
        try:
            node = await self._store.get(Key("Node", "", name))
        except ClusterError as error:
            if error.final:  # it cannot be read
                return True
            raise
        return node is None or is_node_ready(node)


def _selects(budget: Object, pod: Object) -> bool:
    if budget["metadata"].get("namespace") != pod["metadata"].get("namespace"):
        return False
    try:
        fact = decode_disruption_budget(msgspec.json.encode(budget))
    except InputError:
        return False
    return selects(fact, pod["metadata"].get("labels") or {})
