"""The controller of PodDisruptionBudgets of the local cluster: it writes their status (:mod:`.budgets`)."""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from deviceshare.model import PodDisruptionBudgetFact
from deviceshare.objects import decode_disruption_budget
from deviceshare_cluster.interface import Change, ClusterError, Object

from deviceshare_localcluster.budgets import BUDGET, PodHealth, Scale, is_ready, observed, selects
from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.termination import is_terminating
from deviceshare_localcluster.work_list import UNEXPECTED, WorkList, read

log = logging.getLogger("deviceshare.local_cluster")

SCALED = ("Deployment", "ReplicaSet", "StatefulSet", "LeaderWorkerSet")
"""The kinds of controllers whose number of pods counts for percentages, and for ``maxUnavailable``."""
KINDS = (BUDGET, "Pod", *SCALED)
"""The kinds that it follows."""


class _Scaled(NamedTuple):
    """A controller of pods, and the uid of its own controller ('': none)."""

    scale: Scale
    owner: str


class _Budget(NamedTuple):
    uid: str
    fact: PodDisruptionBudgetFact


class DisruptionController(WorkList):
    """Writes the status of budgets."""

    kinds = KINDS

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self._pods: defaultdict[str, dict[str, PodHealth]] = defaultdict(dict)
        """By namespace and name."""
        self._scales: dict[Key, _Scaled] = {}
        self._budgets: defaultdict[str, dict[str, _Budget]] = defaultdict(dict)
        """By namespace and name."""
        self._again: dict[Key, float] = {}
        """When the status of a budget has to be computed again though nothing changes, unix seconds."""

    def _changed(self, key: Key, change: Change) -> None:
        obj = read(change)
        if key.kind == "Pod":
            before = self._pods[key.namespace].pop(key.name, None)
            after = None if obj is None else _health(obj)
            if after is not None:
                self._pods[key.namespace][key.name] = after
            if before != after:
                self._mark(key.namespace, [pod.labels for pod in (before, after) if pod is not None])
        elif key.kind == BUDGET:
            self._budgets[key.namespace].pop(key.name, None)
            self._again.pop(key, None)
            self.keys.pop(key, None)
            if obj is not None:
                self._budgets[key.namespace][key.name] = _Budget(
                    obj["metadata"]["uid"], decode_disruption_budget(change.raw)
                )
                self.keys[key] = None
        else:
            earlier = self._scales.pop(key, None)
            scaled = None if obj is None else _scaled(obj)
            if scaled is not None:
                self._scales[key] = scaled
            if earlier != scaled:
                self._mark(key.namespace, [pod.labels for pod in self._pods[key.namespace].values()])

    def _mark(self, namespace: str, changed: list[Mapping[str, str]]) -> None:
        """Compute the status of budgets again that select pods with these labels."""
        for name, budget in self._budgets[namespace].items():
            if any(selects(budget.fact, labels) for labels in changed):
                self.keys[Key(BUDGET, namespace, name)] = None

    def _pause(self) -> float | None:
        return min(self._again.values()) - time.time() if self._again else None

    async def _act_on_all(self, keys: Mapping[Key, None]) -> Mapping[Key, None]:
        """Write the statuses of budgets, and of those that are due; return these again after a transient error."""
        now = time.time()
        keys = {**keys, **{key: None for key, at in self._again.items() if at <= now}}
        try:
            for key in keys:
                await self._write(key)
        except ClusterError as error:
            log.warning("%s", error)
            return keys
        return {}

    async def _write(self, key: Key) -> None:
        """Write the status of a budget, if it changes. Raises a transient ClusterError."""
        budget = self._budgets[key.namespace].get(key.name)
        self._again.pop(key, None)
        if budget is None:
            return
        scales = self._totals()

        def revised(live: Object) -> Mapping[str, Any]:
            found = observed(live, self._pods[key.namespace].values(), scales, time.time())
            self._again.pop(key, None)
            if found.again is not None:
                self._again[key] = found.again
            return found.status

        try:
            await self._cluster.revise_status(key, budget.uid, revised)
        except (*UNEXPECTED, ClusterError) as error:
            if isinstance(error, ClusterError) and not error.final:
                raise
            self._warnings.warn(f"{key}: no status is written: {type(error).__name__}: {error}")

    def _totals(self) -> dict[str, Scale]:
        """Return how many pods there should be, by the uid of the controller that pods name."""
        by_uid = {scaled.scale.uid: scaled for scaled in self._scales.values()}
        return {uid: by_uid.get(scaled.owner, scaled).scale for uid, scaled in by_uid.items()}


def _health(pod: Object) -> PodHealth:
    metadata = pod["metadata"]
    return PodHealth(
        metadata["name"], metadata.get("labels") or {}, is_ready(pod), is_terminating(pod), _controller(metadata)
    )


def _controller(metadata: Mapping[str, Any]) -> str:
    """Return the uid of an object's controller, '' if it has none."""
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner.get("uid") or "") for owner in owners if owner.get("controller")), "")


def _scaled(obj: Object) -> _Scaled:
    replicas = (obj.get("spec") or {}).get("replicas")
    scale = Scale(obj["metadata"]["uid"], 1 if replicas is None else int(replicas))
    return _Scaled(scale, _controller(obj["metadata"]))
