"""The simulated API server: objects with revisions, optimistic concurrency, bindings, and the changes for watches."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from deviceshare_cluster.changes import set_condition, timestamp
from deviceshare_cluster.interface import Change, ChangeType, Object

from deviceshare_lab.clusters.manifests import FORGED

Key = tuple[str, str, str]
"""Kind, namespace and name."""
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Seen(NamedTuple):
    """A write as observers hear of it: the object before and after, None if it does not exist."""

    kind: str
    before: Object | None
    after: Object | None
    by: str


class NotAllowed(Exception):
    """The API server refuses a request; ``status`` is HTTP's, ``reason`` that of the answer."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class ApiServer:
    """All objects of a cluster. Objects that it returns are copies, or must not be changed where it says so."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.revision = 100
        self.changes: list[Change] = []
        """All changes but those of Events, by revision."""
        self.watchers: dict[Callable[[Change], None], None] = {}
        self.observers: list[Callable[[Seen], None]] = []
        self.evictable: Callable[[Object], None] = lambda pod: None
        """Raises NotAllowed if budgets do not allow that a pod is evicted."""
        self._objects: defaultdict[str, dict[Key, Object]] = defaultdict(dict)
        """By kind: those of one kind are asked for at each change."""
        self._raw: dict[Key, bytes] = {}
        self._wall = wall
        self._uids = 0

    def now(self) -> str:
        """Return the time as a timestamp of the API."""
        return timestamp(self._wall())

    def objects(self, kind: str) -> Iterator[Object]:
        """Yield the objects of a kind, not to be changed."""
        return iter(self._objects[kind].values())

    def peek(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return an object, not to be changed."""
        return self._objects[kind].get((kind, namespace, name))

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return a copy of an object."""
        raw = self._raw.get((kind, namespace, name))
        return _decode(raw) if raw is not None else None

    def listed(self, kind: str) -> list[Change]:
        """Return the state of all objects of a kind."""
        return [
            Change(ChangeType.APPLIED, *key, int(found["metadata"]["resourceVersion"]), self._raw[key])
            for key, found in self._objects[kind].items()
        ]

    def create(self, obj: Object, by: str = "user") -> Object:
        """Create an object. Raises NotAllowed: 409 if it exists."""
        key = key_of(obj)
        if key in self._objects[key[0]]:
            raise NotAllowed(409, f"{key} already exists")
        created: Object = _decode(_encode(obj))
        metadata = created["metadata"]
        if "uid" not in metadata:
            self._uids += 1
            metadata["uid"] = f"uid-{self._uids}-{metadata['name']}"
        metadata.setdefault("creationTimestamp", timestamp(self._wall()))
        if created["kind"] == "Pod":
            created.setdefault("status", {}).setdefault("phase", "Pending")
        self._store(key, None, created, by)
        return created

    def update(self, key: Key, change: Callable[[Object], bool], by: str) -> Object | None:
        """Change a copy of an object and store it; return the object as it is afterwards, None if it does not exist.

        ``change`` returns whether it has changed anything.
        """
        before = self._objects[key[0]].get(key)
        if before is None:
            return None
        after: Object = _decode(self._raw[key])
        if not change(after):
            return before
        self._store(key, before, after, by)
        return after

    def delete(self, key: Key, by: str = "user") -> bool:
        """Remove an object; return whether it was there."""
        before = self._objects[key[0]].pop(key, None)
        if before is None:
            return False
        self.revision += 1
        last: Object = _decode(self._raw.pop(key))
        last["metadata"]["resourceVersion"] = str(self.revision)
        self._changed(Change(ChangeType.DELETED, *key, self.revision, _encode(last)))
        for observer in self.observers:
            observer(Seen(key[0], before, None, by))
        return True

    def _store(self, key: Key, before: Object | None, after: Object, by: str) -> None:
        self.revision += 1
        after["metadata"]["resourceVersion"] = str(self.revision)
        self._objects[key[0]][key] = after
        raw = self._raw[key] = _encode(after)
        self._changed(Change(ChangeType.APPLIED, *key, self.revision, raw))
        for observer in self.observers:
            observer(Seen(key[0], before, after, by))

    def _changed(self, change: Change) -> None:
        if change.kind == "Event":
            return
        self.changes.append(change)
        for watcher in self.watchers:
            watcher(change)

    # Subresources

    def bind(self, key: Key, uid: str, node: str, annotations: Mapping[str, str], version: str, by: str) -> None:
        """Bind a pod, as a POST of a Binding does. ``version``: the revision that the pod must have, '' for any.

        Source: pkg/registry/core/pod/storage (BindingREST). Raises NotAllowed.
        """
        pod = self._objects[key[0]].get(key)
        if pod is None:
            raise NotAllowed(404, f"pods {key[2]!r} not found")
        metadata = pod["metadata"]
        if uid and metadata["uid"] != uid:
            raise NotAllowed(409, f"the UID in the precondition ({uid}) does not match the UID in record")
        if version and metadata["resourceVersion"] != version:
            raise NotAllowed(409, f"the object has been modified: revision {metadata['resourceVersion']}")
        if "deletionTimestamp" in metadata:
            raise NotAllowed(409, f"pod {key[2]} is being deleted, cannot be assigned to a host")
        if where := pod["spec"].get("nodeName"):
            raise NotAllowed(409, f"pod {key[2]} is already assigned to node {where!r}")
        if pod["spec"].get("schedulingGates"):
            raise NotAllowed(409, f"pod {key[2]} has non-empty .spec.schedulingGates")

        def bound(found: Object) -> bool:
            found["spec"]["nodeName"] = node
            found["metadata"]["annotations"] = {**(found["metadata"].get("annotations") or {}), **annotations}
            set_condition(found, status=True, reason="", message="", at=self._wall())
            return True

        self.update(key, bound, by)

    def evict(self, key: Key, uid: str, *, dry_run: bool, by: str) -> None:
        """Evict a pod, as a POST of an Eviction does; a pod on no node is gone at once.

        Source: pkg/registry/core/pod/storage (EvictionREST). Raises NotAllowed.
        """
        pod = self._objects[key[0]].get(key)
        if pod is None:
            raise NotAllowed(404, f"pods {key[2]!r} not found")
        metadata = pod["metadata"]
        self.evictable(pod)
        if uid and metadata["uid"] != uid:
            raise NotAllowed(409, f"the UID in the precondition ({uid}) does not match the UID in record")
        if dry_run or "deletionTimestamp" in metadata:
            return
        if not pod["spec"].get("nodeName"):
            self.delete(key, by)
            return
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30)

        def terminated(found: Object) -> bool:
            found["metadata"]["deletionTimestamp"] = timestamp(self._wall() + grace)
            found["metadata"]["deletionGracePeriodSeconds"] = grace
            reason = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
            found["status"]["conditions"] = [*(found["status"].get("conditions") or ()), reason]
            return True

        self.update(key, terminated, by)


def key_of(obj: Object) -> Key:
    """Return the key of an object."""
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def holds_nothing(pod: Object) -> bool:
    """Return whether a pod's annotations are forged: it was never given the devices that they name."""
    return FORGED in (pod["metadata"].get("labels") or {})
