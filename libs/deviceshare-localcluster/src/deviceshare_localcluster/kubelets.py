"""The kubelets of the local cluster, as far as pods have stages (:mod:`.stages`): they start and end pods in time.

They also end pods that are being deleted (:mod:`.termination`), on nodes that are ready.
"""

import asyncio
import heapq
import logging
import time
from collections.abc import Iterable
from typing import NamedTuple

from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed
from deviceshare_cluster.readable import readable

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.stages import MARK, StageProblem, next_stage
from deviceshare_localcluster.termination import end_of, is_node_ready, is_terminating
from deviceshare_localcluster.warn_once import WarnOnce
from deviceshare_localcluster.work_list import RETRY_SECONDS, UNEXPECTED

log = logging.getLogger("deviceshare.local_cluster")

_TERMINATING = b'"deletionTimestamp"'
"""In the bytes of each pod that is being deleted."""
_STAGES_AT_ONCE = 64


class _Ending(NamedTuple):
    """A pod that is being deleted: its uid, its node, and when it ends there (unix seconds)."""

    uid: str
    node: str
    at: float


class Kubelets:
    """Moves pods through their stages; :meth:`run` until cancelled, :meth:`take` for each batch of changes.

    Stateless: the times of stages are computed from the pods, so that it may be restarted at any time.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._due: list[tuple[float, Key, str]] = []
        """Times (unix seconds), keys and uids; entries of pods that changed meanwhile have no effect."""
        self._times: dict[Key, float] = {}
        """The time of the valid entry of each pod."""
        self._ending: dict[Key, _Ending] = {}
        """The pods that are being deleted."""
        self._unready: set[str] = set()
        """The nodes that are not ready."""
        self._changed = asyncio.Event()
        self._warnings = WarnOnce()

    def take(self, batch: Iterable[Change | Listed]) -> None:
        """Note the stages of changed pods, and which nodes are ready."""
        for change in batch:
            if not isinstance(change, Change):
                continue
            if change.kind == "Node":
                self._node_changed(change)
            if change.kind != "Pod":
                continue
            key = Key("Pod", change.namespace, change.name)
            self._ending.pop(key, None)
            if change.type is ChangeType.DELETED or not any(mark in change.raw for mark in (MARK, _TERMINATING)):
                self._times.pop(key, None)
            else:
                self._note(key, change.raw)

    def _node_changed(self, change: Change) -> None:
        """Note whether a node is ready; a node that is gone keeps no pod."""
        ready = True
        if change.type is not ChangeType.DELETED:
            try:
                ready = is_node_ready(readable("Node", change.raw))
            except (ClusterError, *UNEXPECTED) as problem:
                self._warnings.warn(str(problem), change.name)
        (self._unready.discard if ready else self._unready.add)(change.name)
        for key, ending in self._ending.items():
            if ending.node == change.name:
                self._schedule(key, ending.uid, ending.at if ready else None)

    def _note(self, key: Key, raw: bytes) -> None:
        at: float | None = None
        uid = ""
        try:
            pod = readable("Pod", raw)
            uid = pod["metadata"]["uid"]
            if is_terminating(pod):
                ending = self._ending[key] = _Ending(uid, pod["spec"].get("nodeName") or "", end_of(pod))
                at = None if ending.node in self._unready else ending.at
            elif (stage := next_stage(pod)) is not None:
                at = stage.at
        except (StageProblem, ClusterError, *UNEXPECTED) as problem:
            self._warnings.warn(str(problem), str(key))
        self._schedule(key, uid, at)

    def _schedule(self, key: Key, uid: str, at: float | None) -> None:
        """Let a pod enter its next stage, or end, at a unix time; None: not now."""
        if at is None:
            self._times.pop(key, None)
        elif self._times.get(key) != at:
            self._times[key] = at
            heapq.heappush(self._due, (at, key, uid))
            self._changed.set()

    async def run(self) -> None:
        """Start and end pods without end."""
        while True:
            now = time.time()
            due: list[tuple[float, Key, str]] = []
            while self._due and self._due[0][0] <= now and len(due) < _STAGES_AT_ONCE:
                at, key, uid = heapq.heappop(self._due)
                if self._times.get(key) == at:
                    due.append((at, key, uid))
            if due:
                await asyncio.gather(*(self._enter(*each) for each in due))
                continue
            self._changed.clear()
            pause = self._due[0][0] - now if self._due else None
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _enter(self, at: float, key: Key, uid: str) -> None:
        """Let a pod enter its next stage; again later after a ClusterError."""
        try:
            if key in self._ending:
                await self._cluster.pods.end(key, uid)
            else:
                await self._cluster.run_stage(key, uid, time.time())
        except ClusterError as error:
            log.warning("%s", error)
            again = time.time() + RETRY_SECONDS
            self._times[key] = again
            heapq.heappush(self._due, (again, key, uid))
        else:
            if self._times.get(key) == at:
                del self._times[key]
