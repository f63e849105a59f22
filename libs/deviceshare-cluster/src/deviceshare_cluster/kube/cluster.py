"""A Kubernetes cluster: :class:`deviceshare_cluster.interface.Cluster` through the API server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Self

import msgspec
from deviceshare_bus.tasks import end

from deviceshare_cluster.changes import annotated, changed_status, newest, set_condition, why_not_bound
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
from deviceshare_cluster.kube.client import JSON, MERGE, STRATEGIC, ApiRefusal, KubeClient, Query, decoding
from deviceshare_cluster.kube.events import as_core, new_event, seen_again
from deviceshare_cluster.kube.follow import PAGE, PATIENCE, Follower, Patience, Update, decode_object, decode_page
from deviceshare_cluster.kube.kinds import KINDS

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of lists of metadata without objects."""
CONFIG_NAMESPACES = ("deviceshare-system", "volcano-system", "kube-system", "mindx-dl")
"""The namespaces whose ConfigMaps are read: of deviceshare, Volcano, device plugins and ClusterD."""
NOT_CONFIGURATION: Query = [("fieldSelector", "metadata.name!=kube-root-ca.crt")]
"""Excludes a ConfigMap that every namespace has."""


class KubeCluster:
    """A Kubernetes cluster. Use as an async context manager."""

    def __init__(
        self,
        kubeconfig: str = "",
        context: str = "",
        name: str = "deviceshare",
        instance: str = "",
        patience: Patience = PATIENCE,
    ) -> None:
        """Connect later with a kubeconfig and its context; ``name`` and ``instance`` are the reporter of Events."""
        self._patience = patience
        self._api = KubeClient(kubeconfig, context, user_agent=name)
        self._component = name
        self._instance = instance or name

    async def __aenter__(self) -> Self:
        """Connect. Raises ClusterError."""
        await self._api.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Disconnect."""
        await self._api.stop()

    async def watch(self, kinds: Sequence[str]) -> AsyncIterator[list[Change | Listed]]:
        """List and follow kinds without end; only readable ConfigMaps of :data:`CONFIG_NAMESPACES` are included.

        An exception is a defect of a follower, which handles every answer of a server.
        """
        followers = [follower for kind in dict.fromkeys(kinds) for follower in self._followers(kind)]
        queue: asyncio.Queue[tuple[Follower, Update | Exception]] = asyncio.Queue(maxsize=1000)

        async def follow(follower: Follower) -> None:
            try:
                async with aclosing(follower.updates()) as updates:
                    async for update in updates:
                        await queue.put((follower, update))
            except Exception as error:
                await queue.put((follower, error))

        waiting = set(followers)
        revision = -1
        failed: Exception | None = None
        tasks = [asyncio.create_task(follow(follower)) for follower in followers]
        try:
            while True:
                taken = [await queue.get()]
                while not queue.empty():
                    taken.append(queue.get_nowait())
                out: list[Change | Listed] = []
                for follower, update in taken:
                    if isinstance(update, Exception):
                        failed = update
                        break
                    out += update.changes
                    if update.listed and follower in waiting:
                        waiting.remove(follower)
                        revision = max(revision, update.revision)
                        if not waiting:
                            out.append(Listed(revision))
                if out:
                    yield newest(out)
                if failed is not None:
                    raise failed
        finally:
            await end(*tasks)

    def _followers(self, kind: str) -> list[Follower]:
        if kind == "ConfigMap":
            return [
                Follower(self._api, kind, namespace, NOT_CONFIGURATION, self._patience, spared=True)
                for namespace in CONFIG_NAMESPACES
            ]
        return [Follower(self._api, kind, patience=self._patience)]

    async def list(self, kind: str) -> list[Object]:
        """Return all objects of a kind. Raises ClusterError."""
        objects: list[Object] = []
        query: Query = [("limit", str(PAGE))]
        path = KINDS[kind].collection()
        while True:
            try:
                raw = await self._api.request("GET", path, query)
            except ApiRefusal as refusal:
                if KINDS[kind].optional and refusal.status == 404:
                    return []
                raise _error(f"cannot list {kind}: {refusal}", refusal) from refusal
            api = {"apiVersion": KINDS[kind].version, "kind": kind}
            with decoding(path):
                page = decode_page(raw)
                items = [api | _decode_object(each) for each in page.items or ()]
            objects += map(as_core, items) if kind == "Event" else items
            token = page.metadata.continue_
            if not token:
                return objects
            query = [("limit", str(PAGE)), ("continue", token)]

    async def revisions(self, kind: str) -> Revisions:
        """Return the revision of each object of a kind, from the server's cache. Raises ClusterError."""
        path = KINDS[kind].collection()
        try:
            raw = await self._api.request("GET", path, [("resourceVersion", "0")], accept=METADATA)
        except ApiRefusal as refusal:
            if KINDS[kind].optional and refusal.status == 404:
                return Revisions({}, 0)
            raise _error(f"cannot list {kind}: {refusal}", refusal) from refusal
        with decoding(path):
            found = decode_page(raw)
            metadata = [decode_object(each).metadata for each in found.items or ()]
            revisions = {(each.namespace, each.name): int(each.resource_version) for each in metadata}
            return Revisions(revisions, int(found.metadata.resource_version or 0))

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object, or None. Raises ClusterError."""
        path = KINDS[kind].object(namespace, name)
        try:
            raw = await self._api.request("GET", path)
        except ApiRefusal as refusal:
            if refusal.status == 404:
                return None
            raise _error(f"cannot read {kind} {namespace}/{name}: {refusal}", refusal) from refusal
        with decoding(path):
            return _decode_object(raw)

    async def ensure(self, obj: Object) -> None:
        """Create an object, unless there is one of its kind and name. Raises ClusterError."""
        kind, metadata = KINDS[obj["kind"]], obj["metadata"]
        try:
            await self._api.request("POST", kind.collection(metadata.get("namespace", "")), body=obj)
        except ApiRefusal as refusal:
            if refusal.status != 409:
                raise _error(f"cannot create {obj['kind']} {metadata['name']}: {refusal}", refusal) from refusal

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Binding:
        """Bind a pod: the API server merges the Binding's annotations into it in the same write.

        After a refusal the pod is read, since the answer does not say whether it is bound already. Raises
        ClusterError.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._api.request("POST", f"{KINDS['Pod'].object(namespace, name)}/binding", body=body)
        except ApiRefusal as refusal:
            pod = await self.get("Pod", namespace, name)
            return why_not_bound(pod, uid) or Binding(BindState.REFUSED, reason=str(refusal))
        return Binding(BindState.BOUND, node, annotations)

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
            version = found["metadata"]["resourceVersion"]
            return {"metadata": {"resourceVersion": version, "annotations": dict(annotations)}}

        what = f"annotations of {kind} {namespace}/{name}"
        there = await self._update(kind, namespace, name, what, changed)
        return standing if there else None

    async def set_pod_condition(
        self, namespace: str, name: str, uid: str, *, status: bool, reason: str, message: str, at: float
    ) -> None:
        """Write the condition ``PodScheduled`` of a pending pod. Raises ClusterError."""

        def changed(pod: Object) -> Object | None:
            if pod["spec"].get("nodeName"):
                return None
            if not set_condition(pod, status=status, reason=reason, message=message, at=at):
                return None
            (condition,) = [one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"]
            return {"conditions": [condition]}

        what = f"condition of {namespace}/{name}"
        await self._change_status("Pod", namespace, name, uid, changed, STRATEGIC, what)

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
            return changed_status(found, fields, condition, at)

        what = f"status of {kind} {namespace}/{name}"
        await self._change_status(kind, namespace, name, uid, changed, MERGE, what)

    async def _change_status(
        self,
        kind: str,
        namespace: str,
        name: str,
        uid: str,
        changed: Callable[[Object], Object | None],
        content: str,
        what: str,
    ) -> None:
        """Patch an object's status with the result of ``changed``, None for nothing; ``what`` names it in errors.

        The patch expects the version that was read: a pod that was bound meanwhile must not be marked pending.
        """

        def patch(found: Object) -> Object | None:
            if (uid and found["metadata"]["uid"] != uid) or (status := changed(found)) is None:
                return None
            return {"metadata": {key: found["metadata"][key] for key in ("uid", "resourceVersion")}, "status": status}

        part = "/status" if KINDS[kind].status_apart else ""
        await self._update(kind, namespace, name, what, patch, content=content, part=part)

    async def _update(
        self,
        kind: str,
        namespace: str,
        name: str,
        what: str,
        changed: Callable[[Object], Object | None],
        *,
        method: str = "PATCH",
        content: str = MERGE,
        part: str = "",
    ) -> bool:
        """Write the result of ``changed`` for an object, None for nothing; return whether the object exists.

        Raises ClusterError, also after too many conflicts.
        """
        exists = False

        async def get() -> Object | None:
            nonlocal exists
            found = await self.get(kind, namespace, name)
            exists = found is not None
            return found

        async def put(body: Object) -> None:
            nonlocal exists
            try:
                await self._api.request(method, KINDS[kind].object(namespace, name) + part, (), body, content)
            except ApiRefusal as refusal:
                if refusal.status == 409:
                    raise VersionConflict(str(refusal)) from refusal
                if refusal.status != 404:
                    raise _error(f"cannot write the {what}: {refusal}", refusal) from refusal
                exists = False

        await update_with_retry(f"the {what}", get, changed, put)
        return exists

    async def record_event(self, event_record: EventRecord) -> None:
        """Record an Event: one write for a new one; a repeated one becomes a series. Raises ClusterError."""
        event = new_event(event_record, self._component, self._instance)
        named = f"{event_record.namespace}/{event_record.name}"
        where = event["metadata"]["namespace"], event["metadata"]["name"]
        try:
            await self._api.request("POST", KINDS["Event"].collection(where[0]), body=event)
        except ApiRefusal as refusal:
            if refusal.status != 409:
                raise _error(f"cannot record an Event about {named}: {refusal}", refusal) from refusal
        else:
            return
        if not event_record.once:
            what = f"count of an Event about {named}"
            again = partial(seen_again, at=event_record.at)
            await self._update("Event", *where, what, again, method="PUT", content=JSON)


def _decode_object(raw: bytes | msgspec.Raw) -> Object:
    """Return an object. Raises MsgspecError, ValueError."""
    found: Object = msgspec.json.decode(raw, type=Object)
    if not isinstance(found.get("metadata"), dict):
        raise ValueError("the object has no metadata")
    return found


def _error(message: str, refusal: ApiRefusal) -> ClusterError:
    """Return the error of a refused request: final unless the object changed after it was read (409, 410)."""
    return ClusterError(message, final=refusal.status not in (409, 410))
