"""A Kubernetes cluster: the implementation of :class:`deviceshare_cluster.interface.Cluster` by its API server."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Self, TypeVar

import msgspec
from deviceshare.objects import DEVICE_KINDS

from deviceshare_cluster.changes import merged, newest, why_not_bound
from deviceshare_cluster.conflicts import VersionConflict, update_with_retry
from deviceshare_cluster.eviction import EvictAnswer, EvictState
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
from deviceshare_cluster.kube.client import (
    BUDGET,
    JSON,
    MERGE,
    NAMESPACE_TERMINATING,
    NOT_PERMITTED,
    ApiRefusal,
    KubeClient,
    Query,
    decoding,
)
from deviceshare_cluster.kube.events import as_core, new_event, seen_again
from deviceshare_cluster.kube.follow import PATIENCE, ObjectWatch, Patience, decode_object, decode_page, pages
from deviceshare_cluster.kube.kinds import KINDS, ApiKind
from deviceshare_cluster.merging import merge
from deviceshare_cluster.patching import Patching, Target
from deviceshare_cluster.readable import readable, reduced

log = logging.getLogger("deviceshare.kube")
T = TypeVar("T")

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of lists of metadata without objects."""
OWN_NAMESPACE = "deviceshare-system"
"""Our namespace outside of a cluster, where no service account has one."""
CONFIG_NAMESPACES = ("volcano-system", "kube-system", "mindx-dl")
"""The namespaces whose ConfigMaps are read beside ours: Volcano's, the device plugins', ClusterD's."""
UPDATES = 1000
"""The most updates that wait for the reader of a watch."""
DEVICE_PERMISSION = "the chart's value resourceClaims gives it"
"""What gives the permission to read the objects of devices. Without it all other kinds are followed nevertheless."""
NOT_CONFIGURATION: Query = [("fieldSelector", "metadata.name!=kube-root-ca.crt")]
"""Excludes a ConfigMap that every namespace has."""


class KubeCluster(Patching):
    """A live cluster. Use as an async context manager."""

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
        """Find the API server. Raises ClusterError."""
        await self._api.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Disconnect."""
        await self._api.stop()

    async def watch(self, kinds: Sequence[str], window: float = 0.0) -> AsyncIterator[list[Change | Listed]]:
        """List and follow kinds without end; of ConfigMaps the readable ones of our namespace and
        :data:`CONFIG_NAMESPACES`.

        An exception is a defect of :class:`.follow.ObjectWatch`, which handles every answer of a server.
        """
        sources = [watch.updates() for kind in dict.fromkeys(kinds) for watch in self._watches(kind)]
        async with aclosing(merge(sources, max, UPDATES, window)) as batches:
            async for batch in batches:
                yield newest(batch)

    def _watches(self, kind: str) -> list[ObjectWatch]:
        if kind == "ConfigMap":
            namespaces = dict.fromkeys((self._api.own_namespace() or OWN_NAMESPACE, *CONFIG_NAMESPACES))
            return [
                ObjectWatch(self._api, kind, namespace, NOT_CONFIGURATION, self._patience, spared="")
                for namespace in namespaces
            ]
        spared = DEVICE_PERMISSION if kind in DEVICE_KINDS else None
        return [ObjectWatch(self._api, kind, patience=self._patience, spared=spared)]

    async def _list(self, kind: str, where: ApiKind) -> list[Object]:
        objects: list[Object] = []
        api = {"apiVersion": where.version, "kind": kind}
        async for page in pages(self._api, where.collection()):
            items = [api | each for each in _readable_items(kind, page.items or ())]
            objects += map(as_core, items) if kind == "Event" else items
        return objects

    async def list(self, kind: str) -> list[Object]:
        """Return all objects of a kind. Raises ClusterError."""
        return await self._of_served(kind, self._list) or []

    async def _of_served(self, kind: str, read: Callable[[str, ApiKind], Awaitable[T]]) -> T | None:
        """Read a kind in the newest version that the server has; None: it has none. Raises ClusterError."""
        for where in KINDS[kind].served:
            try:
                return await read(kind, where)
            except ApiRefusal as refusal:
                if not (where.optional and refusal.status == 404):
                    raise _error(f"cannot list {kind}: {refusal}", refusal) from refusal
        return None

    async def revisions(self, kind: str) -> Revisions:
        """Return the revision of each object of a kind, from the server's cache. Raises ClusterError."""
        return await self._of_served(kind, self._revisions) or Revisions({}, 0)

    async def _revisions(self, _: str, where: ApiKind) -> Revisions:
        path = where.collection()
        raw = await self._api.request("GET", path, [("resourceVersion", "0")], accept=METADATA)
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
        return _answer(path, kind, raw)

    async def ensure(self, obj: Object) -> None:
        """Create an object, unless there is one of its kind and name. Raises ClusterError."""
        kind, metadata = KINDS[obj["kind"]], obj["metadata"]
        try:
            await self._api.request("POST", kind.collection(metadata.get("namespace", "")), body=obj)
        except ApiRefusal as refusal:
            if refusal.status != 409:
                raise _error(f"cannot create {obj['kind']} {metadata['name']}: {refusal}", refusal) from refusal

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str], *, revision: str = ""
    ) -> Binding:
        """Bind a pod: the API server merges the Binding's annotations into it in the same write.

        It takes uid and resourceVersion of the Binding as preconditions (Kubernetes pkg/registry/core/pod/storage,
        ``assignPod``). After a refusal the pod is read, since the answer does not say whether it is bound already.
        Raises ClusterError.
        """
        metadata = {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata | ({"resourceVersion": revision} if revision else {}),
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._api.request("POST", f"{KINDS['Pod'].object(namespace, name)}/binding", body=body)
        except ApiRefusal as refusal:
            pod = await self.get("Pod", namespace, name)
            return why_not_bound(pod, uid, revision) or Binding(BindState.REFUSED, reason=str(refusal))
        return Binding(BindState.BOUND, node, annotations)

    async def evict(
        self, namespace: str, name: str, uid: str, *, dry_run: bool = False, grace: int | None = None
    ) -> EvictAnswer:
        """Evict a pod: the API server counts the PodDisruptionBudgets, then deletes the pod.

        It takes the uid as a precondition only after the budgets, so that after a refusal the pod is read. In a
        namespace that is being deleted it refuses evictions, and the pods end before long. Raises ClusterError.
        """
        done = EvictState.MAY_GO if dry_run else EvictState.DONE
        options: Object = {"preconditions": {"uid": uid}} | ({"dryRun": ["All"]} if dry_run else {})
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        try:
            await self._api.request("POST", f"{KINDS['Pod'].object(namespace, name)}/eviction", body=body)
        except ApiRefusal as refusal:
            pod = await self.get("Pod", namespace, name)
            if pod is None or pod["metadata"].get("uid") != uid:
                return EvictAnswer(EvictState.GONE)
            if refusal.reason == NAMESPACE_TERMINATING and pod["metadata"].get("deletionTimestamp"):
                return EvictAnswer(done)
            if refusal.reason in (BUDGET, NAMESPACE_TERMINATING):
                return EvictAnswer(EvictState.BLOCKED, str(refusal))
            if (error := _error(f"cannot evict {namespace}/{name}: {refusal}", refusal)).final:
                not_permitted = refusal.status == 403 and NOT_PERMITTED in str(refusal)
                state = EvictState.FORBIDDEN if not_permitted else EvictState.REFUSED
                return EvictAnswer(state, str(refusal))
            raise error from refusal
        return EvictAnswer(done)

    async def _patch(
        self, target: Target, patch: Callable[[Object], Object | None], known: Object | None = None
    ) -> Object | None:
        """See :meth:`.Patching._patch`.

        The patch expects the version that was read: a pod that was bound meanwhile must not be marked pending.
        """

        def versioned(found: Object) -> Object | None:
            read = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
            return None if (body := patch(found)) is None else merged(body, {"metadata": read})

        return await self._update(target, versioned, known=known)

    async def _update(
        self,
        target: Target,
        changed: Callable[[Object], Object | None],
        *,
        method: str = "PATCH",
        content: str = MERGE,
        known: Object | None = None,
    ) -> Object | None:
        """Write the result of ``changed``, None for nothing; returns the object after the call, None if there is none.

        ``known``: the object as it was answered, which need not be read.
        Raises ClusterError, also after too many conflicts.
        """
        kind = KINDS[target.kind]
        current: Object | None = None
        path = kind.object(target.namespace, target.name)
        if target.status and kind.status_apart:
            path += "/status"

        async def get() -> Object | None:
            nonlocal current, known
            if known is not None:
                current, known = known, None
                return current
            current = await self.get(target.kind, target.namespace, target.name)
            if current is not None and method == "PATCH":
                current = reduced(current)
            return current

        async def put(body: Object) -> None:
            nonlocal current
            try:
                raw = await self._api.request(method, path, (), body, content)
            except ApiRefusal as refusal:
                if refusal.status == 409:
                    raise VersionConflict(str(refusal)) from refusal
                if refusal.status != 404:
                    raise _error(f"cannot write the {target.what}: {refusal}", refusal) from refusal
                current = None
            else:
                current = reduced(_answer(path, target.kind, raw))

        await update_with_retry(f"the {target.what}", get, changed, put)
        return current

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
            target = Target("Event", *where, f"count of an Event about {named}")
            again = partial(seen_again, at=event_record.at)
            await self._update(target, again, method="PUT", content=JSON)


def _answer(path: str, kind: str, raw: bytes) -> Object:
    """Return the object in an answer. Raises a transient ClusterError: another server may have answered."""
    try:
        return readable(kind, raw)
    except ClusterError as error:
        raise ClusterError(f"the API server's answer to {path} cannot be decoded: {error}") from error


def _readable_items(kind: str, items: Sequence[msgspec.Raw]) -> Iterator[Object]:
    """Yield the objects of a list, and log those that cannot be read.

    Raises a transient ClusterError: an item is no object, so another server may have answered.
    """
    for raw in items:
        if bytes(memoryview(raw)[:1]) != b"{":
            raise ClusterError(f"the API server's list of {kind} has an item that is no object")
        try:
            yield readable(kind, raw)
        except ClusterError as error:
            log.warning("%s", error)


def _error(message: str, refusal: ApiRefusal) -> ClusterError:
    """Return the error of a refused request: final unless the request was too late (409, 410) for what it had read."""
    return ClusterError(message, final=refusal.status not in (409, 410))
