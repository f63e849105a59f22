"""The local cluster: :class:`deviceshare_cluster.interface.Cluster` on a nats-server of its own.

It also has the operations of ``kubectl``: create, apply, load, delete. There is no kubelet: a bound pod has its devices
and runs at once, a deleted one is gone at once. Controllers are in :mod:`deviceshare_cluster.local.controller`.
"""

import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Self

from deviceshare.model import DEFAULT_QUEUE

from deviceshare_cluster.changes import annotated, bind, changed_status, merged, set_condition, timestamp, why_not_bound
from deviceshare_cluster.conflicts import VersionConflict, update_with_retry
from deviceshare_cluster.interface import (
    Binding,
    BindState,
    Change,
    ClusterError,
    EventRecord,
    Listed,
    Object,
    Revisions,
    StatusValue,
)
from deviceshare_cluster.local.kinds import KINDS, Key, decode
from deviceshare_cluster.local.plugins import served
from deviceshare_cluster.local.reader import Stored
from deviceshare_cluster.local.store import Store
from deviceshare_cluster.local.writer import Action, Applied, Writer

EVENT_SECONDS = 3600.0
"""How long an Event is kept after its last occurrence, as by the API server."""


class LocalCluster:
    """A connection to a local cluster. Use as an async context manager; :meth:`setup` once on a fresh server."""

    def __init__(
        self, url: str, *, name: str = "local-cluster", component: str = "deviceshare", timeout: float = 5.0
    ) -> None:
        """Connect later to ``url`` as ``name``; ``component`` reports Events; ``timeout`` in seconds per request."""
        self._store = Store(url, name, timeout)
        self._writer = Writer(self._store)
        self._component = component

    async def __aenter__(self) -> Self:
        """Connect; wait for the server without a time limit."""
        await self._store.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Disconnect."""
        await self._store.stop()

    async def setup(self) -> None:
        """Create the stream and the queue ``default`` if they do not exist. Raises ClusterError."""
        await self._store.setup()
        await self._writer.ensure_queue(DEFAULT_QUEUE)

    def watch(self, kinds: Sequence[str]) -> AsyncIterator[list[Change | Listed]]:
        """List and follow, see :meth:`deviceshare_cluster.interface.Cluster.watch`.

        After a lost connection it continues without a new list, unless the cluster was wiped.
        """
        return self._store.watch(kinds)

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object, or None. Raises ClusterError."""
        return await self._store.get(_key(kind, namespace, name))

    async def ensure(self, obj: Object) -> None:
        """Create an object, unless there is one of its kind and name. Raises ClusterError."""
        (result,) = await self._writer.make([obj], update=False)
        if result.action is Action.REFUSED:
            raise ClusterError(f"cannot create {result.kind} {result.name}: {result.problem}", final=True)

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Binding:
        """Bind a pod, with the annotations of its device plugins, in one write.

        Like the API server, it does not check that the node exists. Raises ClusterError.
        """
        done = Binding(BindState.GONE)

        def bound(pod: Object) -> Object | None:
            nonlocal done
            if (answer := why_not_bound(pod, uid)) is not None:
                done = answer
                return None
            bind(pod, node, {**annotations, **served(annotations)}, time.time())
            done = Binding(BindState.BOUND, node, pod["metadata"].get("annotations") or {})
            return pod

        exists = await self._update(Key("Pod", namespace, name), bound)
        return done if exists else Binding(BindState.GONE)

    async def annotate(
        self,
        kind: str,
        namespace: str,
        name: str,
        annotations: Mapping[str, str | None],
        *,
        uid: str = "",
        expected: Mapping[str, str | None] = {},
    ) -> Mapping[str, str] | None:
        """Merge annotations into an object if it has the expected ones. Raises ClusterError."""
        standing: dict[str, str] | None = None

        def changed(found: Object) -> Object | None:
            nonlocal standing
            if uid and found["metadata"]["uid"] != uid:
                standing = None
                return None
            after = annotated(found, annotations, expected)
            standing = (found["metadata"].get("annotations") or {}) if after is None else after
            if after is None:
                return None
            found["metadata"]["annotations"] = after
            return found

        exists = await self._update(_key(kind, namespace, name), changed)
        return standing if exists else None

    async def set_pod_condition(
        self, namespace: str, name: str, uid: str, *, status: bool, reason: str, message: str, at: float
    ) -> None:
        """Write the condition ``PodScheduled`` of a pending pod. Raises ClusterError."""

        def changed(pod: Object) -> Object | None:
            if pod["metadata"]["uid"] != uid or pod["spec"].get("nodeName"):
                return None
            return pod if set_condition(pod, status=status, reason=reason, message=message, at=at) else None

        await self._update(Key("Pod", namespace, name), changed)

    async def set_status(
        self,
        kind: str,
        namespace: str,
        name: str,
        uid: str,
        fields: Mapping[str, StatusValue],
        *,
        condition: Mapping[str, str] | None,
        at: float,
    ) -> None:
        """Write fields of an object's status, and a condition that is true. Raises ClusterError."""

        def changed(found: Object) -> Object | None:
            if uid and found["metadata"]["uid"] != uid:
                return None
            patch = changed_status(found, fields, condition, at)
            return None if patch is None else found | {"status": merged(found.get("status") or {}, patch)}

        await self._update(_key(kind, namespace, name), changed)

    async def _update(self, key: Key, changed: Callable[[Object], Object | None]) -> bool:
        """Write the result of ``changed``, None for nothing; returns whether the object exists.

        Raises ClusterError, also after too many conflicts.
        """
        exists = False

        async def get() -> Object | None:
            nonlocal exists
            found = await self._store.get(key)
            exists = found is not None
            return found

        async def put(obj: Object) -> None:
            await self._store.write(obj, int(obj["metadata"]["resourceVersion"]))

        await update_with_retry(str(key), get, changed, put)
        return exists

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
            "metadata": {"name": f"{name}.{digest}", "namespace": namespace or "default"},
            "involvedObject": {"apiVersion": KINDS[kind].api_version} | involved,
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": timestamp(at),
            "lastTimestamp": timestamp(at),
            "count": 1,
        }
        key = Key("Event", namespace or "default", f"{name}.{digest}")

        def again(stored: Stored) -> tuple[Object, int] | None:
            if not stored.data:
                return event, stored.revision
            known = decode("Event", stored.data, stored.revision)
            seen = {"firstTimestamp": known["firstTimestamp"], "count": known["count"] + 1}
            return None if once else (event | seen, stored.revision)

        async def put(change: tuple[Object, int]) -> None:
            await self._store.write(*change, ttl=EVENT_SECONDS)

        try:
            await put((event, 0))
        except VersionConflict:
            await update_with_retry(str(key), partial(self._store.read, key), again, put)

    async def create(self, obj: Object) -> Applied:
        """Create an object. Raises RequestError if it is refused or exists, ClusterError."""
        return await self._writer.create(obj)

    async def apply(self, obj: Object) -> Applied:
        """Create an object, or update the existing one. Raises RequestError, ClusterError.

        Its status, where a pod is bound, and annotations that no manifest named, stay.
        """
        return await self._writer.apply(obj)

    async def load(self, objects: Iterable[Object]) -> list[Applied]:
        """Apply many objects, pipelined, referenced objects first; a refusal is in the object's result.

        The results are in the order of ``objects``. Raises ClusterError.
        """
        return await self._writer.load(objects)

    async def make(self, objects: Iterable[Object], *, update: bool = False) -> list[Applied]:
        """Create the objects of a controller, pipelined; existing ones are kept, or updated with ``update``.

        The results are in the order of ``objects``. Raises ClusterError.
        """
        return await self._writer.make(objects, update=update)

    async def delete(self, kind: str, namespace: str, name: str) -> Applied:
        """Delete an object, at once. Raises ClusterError."""
        return await self._writer.delete(*_key(kind, namespace, name))

    async def delete_all(self, keys: Iterable[Key]) -> list[Applied]:
        """Delete many objects, many at a time. Raises ClusterError."""
        return await self._writer.delete_all(keys)

    async def list(self, kind: str) -> list[Object]:
        """Return all objects of a kind. Raises ClusterError."""
        return await self._store.list_kind(kind)

    async def revisions(self, kind: str) -> Revisions:
        """Return the revision of each object of a kind. Raises ClusterError."""
        return await self._store.revisions(kind)


def _key(kind: str, namespace: str, name: str) -> Key:
    known = KINDS.get(kind)
    if known is not None and known.namespaced:
        return Key(kind, namespace or "default", name)
    return Key(kind, "", name)
