"""The local cluster: :class:`deviceshare_cluster.interface.Cluster` on a nats-server of its own.

It also has the operations of ``kubectl`` (:class:`.writer.Writer`). There is no kubelet: a bound pod has its devices
and runs immediately, and a deleted one is gone immediately, unless it has stages (:mod:`.stages`) or its node is not
ready (:mod:`.termination`). Controllers are in :mod:`deviceshare_localcluster.controller`.
"""

import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from deviceshare.model import DEFAULT_QUEUE
from deviceshare_cluster.changes import bind, merged, timestamp, why_not_bound
from deviceshare_cluster.conflicts import VersionConflict
from deviceshare_cluster.eviction import EvictAnswer
from deviceshare_cluster.interface import (
    Binding,
    BindState,
    Change,
    ClusterError,
    EventRecord,
    Listed,
    Object,
    Revisions,
)
from deviceshare_cluster.patching import Patching, Target
from deviceshare_cluster.readable import reduced

from deviceshare_localcluster.claim_deletion import CLAIM, end_claim, is_released
from deviceshare_localcluster.kinds import KINDS, Key, key_of, named_key
from deviceshare_localcluster.local_objects import LocalObjects
from deviceshare_localcluster.plugins import served
from deviceshare_localcluster.stages import StageProblem, entered, next_stage, waits
from deviceshare_localcluster.store import Store
from deviceshare_localcluster.termination import is_terminating
from deviceshare_localcluster.writer import Action, Writer

EVENT_SECONDS = 3600.0
"""How long an Event is kept after its last occurrence, as by the API server."""


class LocalCluster(Patching, Writer, LocalObjects):
    """A connection to a local cluster. Use as an async context manager; :meth:`setup` once on a fresh server."""

    def __init__(
        self, url: str, *, name: str = "local-cluster", component: str = "deviceshare", timeout: float = 5.0
    ) -> None:
        """Connect later to ``url`` as ``name``; ``component`` reports Events; ``timeout`` in seconds per request."""
        super().__init__(Store(url, name, timeout))
        self._component = component

    async def setup(self) -> None:
        """Create the stream and the queue ``default`` if they do not exist. Raises ClusterError."""
        await self._store.setup()
        await self.ensure_queue(DEFAULT_QUEUE)

    def watch(self, kinds: Sequence[str], window: float = 0.0) -> AsyncIterator[list[Change | Listed]]:
        """List and follow, see :meth:`deviceshare_cluster.interface.Cluster.watch`.

        After a lost connection it continues without a new list, unless the cluster was wiped.
        """
        return self._store.watch(kinds, window)

    async def ensure(self, obj: Object) -> None:
        """Create an object, unless there is one of its kind and name. Raises ClusterError."""
        (result,) = await self.make([obj], update=False)
        if result.action is Action.REFUSED:
            raise ClusterError(f"cannot create {result.kind} {result.name}: {result.problem}", final=True)

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str], *, revision: str = ""
    ) -> Binding:
        """Bind a pod, with the annotations of its device plugins, in one write.

        Like the API server, it does not check that the node exists. Raises ClusterError.
        """
        answer = Binding(BindState.GONE)

        def bound(pod: Object | None) -> Object | None:
            nonlocal answer
            answer = Binding(BindState.GONE)
            if pod is None:
                return None
            if (refusal := why_not_bound(pod, uid, revision)) is not None:
                answer = refusal
                return None
            bind(pod, node, {**annotations, **served(annotations)}, time.time())
            if waits(pod):
                pod["status"]["phase"] = "Pending"
            answer = Binding(BindState.BOUND, node, pod["metadata"].get("annotations") or {})
            return pod

        await self._store.update(named_key("Pod", namespace, name), bound)
        return answer

    async def evict(
        self, namespace: str, name: str, uid: str, *, dry_run: bool = False, grace: int | None = None
    ) -> EvictAnswer:
        """Evict a pod, as its budget allows. Raises ClusterError."""
        return await self.pods.evict(named_key("Pod", namespace, name), uid, dry_run=dry_run, grace=grace)

    async def run_stage(self, key: Key, uid: str, now: float) -> bool:
        """Let a pod with this uid enter its next stage if its time has come (``now``, unix seconds).

        Returns whether it did. Raises ClusterError.
        """

        def change(pod: Object | None) -> Object | None:
            if pod is None or pod["metadata"]["uid"] != uid:
                return None
            try:
                stage = next_stage(pod)
            except StageProblem:
                return None
            if stage is None or stage.at > now or is_terminating(pod):
                return None
            entered(pod, stage.phase, now)
            return pod

        return await self._store.update(key, change) > 0

    async def merge(self, key: Key, revision: str, patch: Object) -> bool:
        """Merge a patch (RFC 7386) into an object at this revision, its status included; return whether it was done.

        Raises ClusterError.
        """
        ends = False

        def change(found: Object | None) -> Object | None:
            nonlocal ends
            if found is None or found["metadata"]["resourceVersion"] != revision:
                return None
            changed = merged(found, patch)
            ends = key.kind == CLAIM and is_released(changed)
            return changed

        written = await self._store.update(key, change) > 0
        if written and ends:
            await end_claim(self._store, key)
        return written

    async def _patch(
        self, target: Target, patch: Callable[[Object], Object | None], known: Object | None = None
    ) -> Object | None:
        current: Object | None = None

        def change(found: Object | None) -> Object | None:
            nonlocal current
            current = None if found is None else reduced(found)
            if found is None or (body := patch(found)) is None:
                return None
            changed = merged(found, body)
            current = reduced(changed)
            return changed

        key = named_key(target.kind, target.namespace, target.name)
        if revision := await self._store.update(key, change):
            assert current is not None
            current["metadata"]["resourceVersion"] = str(revision)
            if key.kind == CLAIM and is_released(current):
                await end_claim(self._store, key)
        return current

    async def record_event(self, event_record: EventRecord) -> None:
        """Record an Event: one write for a new one; a repeated one increments its count. Raises ClusterError."""
        kind, namespace, name, uid, warning, reason, message, at, once = event_record
        involved = {"kind": kind, "namespace": namespace, "name": name, "uid": uid}
        same = "\0".join((kind, namespace, name, uid, str(warning), reason, message))
        # The same event has the same name, so that no record of Events is needed.
        digest = hashlib.blake2b(same.encode(), digest_size=8).hexdigest()
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{digest}", "creationTimestamp": timestamp(at), **event_record.metadata},
            "involvedObject": {"apiVersion": KINDS[kind].api_version} | involved,
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": event_record.note,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": timestamp(at),
            "lastTimestamp": timestamp(at),
            "count": 1,
        }

        def again(known: Object | None) -> Object | None:
            if known is None:
                return event
            first = known["firstTimestamp"]
            seen = {"firstTimestamp": first, "count": known["count"] + 1}
            seen["metadata"] = event["metadata"] | {"creationTimestamp": first}
            return None if once else event | seen

        try:
            await self._store.create(event, ttl=EVENT_SECONDS)
        except VersionConflict:
            await self._store.update(key_of(event), again, ttl=EVENT_SECONDS)

    async def revisions(self, kind: str) -> Revisions:
        """Return the revision of each object of a kind. Raises ClusterError."""
        return await self._store.revisions(kind)
