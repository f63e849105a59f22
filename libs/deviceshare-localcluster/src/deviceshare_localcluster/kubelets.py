"""The kubelets of the local cluster, as far as pods have stages (:mod:`.stages`): they start and end pods in time."""

import asyncio
import heapq
import logging
import time
from collections.abc import Iterable

from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed, Object
from deviceshare_cluster.readable import readable

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.stages import MARK, StageProblem, next_stage
from deviceshare_localcluster.warn_once import WarnOnce

log = logging.getLogger("deviceshare.local_cluster")

_RETRY_SECONDS = 0.5
_STAGES_AT_ONCE = 64


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
        self._changed = asyncio.Event()
        self._warnings = WarnOnce()

    def take(self, batch: Iterable[Change | Listed]) -> None:
        """Note the stages of changed pods."""
        for change in batch:
            if not isinstance(change, Change) or change.kind != "Pod":
                continue
            key = Key("Pod", change.namespace, change.name)
            if change.type is ChangeType.DELETED or MARK not in change.raw:
                self._times.pop(key, None)
            else:
                self._note(key, change.raw)

    def _note(self, key: Key, raw: bytes) -> None:
        pod: Object = {}
        try:
            pod = readable("Pod", raw)
            stage = next_stage(pod)
        except (StageProblem, ClusterError) as problem:
            self._warnings.warn(str(problem), str(key))
            stage = None
        if stage is None:
            self._times.pop(key, None)
        elif self._times.get(key) != stage.at:
            self._times[key] = stage.at
            heapq.heappush(self._due, (stage.at, key, pod["metadata"]["uid"]))
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
            await self._cluster.run_stage(key, uid, time.time())
        except ClusterError as error:
            log.warning("%s", error)
            again = time.time() + _RETRY_SECONDS
            self._times[key] = again
            heapq.heappush(self._due, (again, key, uid))
        else:
            if self._times.get(key) == at:
                del self._times[key]
