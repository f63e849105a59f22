"""Writing objects: create, apply, load and delete, with admission, as the API server does for ``kubectl``."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from deviceshare.model import DEFAULT_QUEUE, FieldWarning, InputError, Problem, RequestError
from deviceshare_cluster.conflicts import VersionConflict
from deviceshare_cluster.interface import ClusterError, Object

from deviceshare_localcluster.admission import Admitted, Priorities, admit, identify, priorities_of
from deviceshare_localcluster.checks import manifest_root
from deviceshare_localcluster.claim_deletion import CLAIM, delete_claim
from deviceshare_localcluster.kinds import KINDS, VOLCANO_JOB, Key, key_of, kind_of, named_key, order_of
from deviceshare_localcluster.names import generated_name
from deviceshare_localcluster.pod_deletion import PodDeletion
from deviceshare_localcluster.store import Store
from deviceshare_localcluster.update import note_applied, updated

DELETIONS = 256
"""Objects that are deleted at once."""
_FRESH_SECONDS = 1.0


class Action(StrEnum):
    """The result for an object, in ``kubectl``'s words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    SCALED = "scaled"
    DELETED = "deleted"
    ABSENT = "not found"
    REFUSED = "refused"


class Applied(NamedTuple):
    """The result for one object; ``problem`` is the reason if it was refused."""

    action: Action
    kind: str
    namespace: str
    name: str
    warnings: Sequence[FieldWarning] = ()
    problem: Problem | None = None


class Writer:
    """Admits objects and stores them."""

    def __init__(self, store: Store) -> None:
        """Take the store, to be started before the first call."""
        self._store = store
        self.pods = PodDeletion(store)
        self._priorities = Priorities()
        self._priorities_read = -_FRESH_SECONDS
        self._queues: set[str] = set()

    async def create(self, obj: Object) -> Applied:
        """Create an object. Raises RequestError if it is refused or exists, ClusterError."""
        admitted = await self._admit(obj)
        key = key_of(admitted.object)
        if not await self._create(admitted.object):
            root = manifest_root(str(key), admitted.object)
            raise root["metadata"]["name"].error(f"a name that no other {KINDS[key.kind].kind} has")
        return Applied(Action.CREATED, *key, (*admitted.warnings, *await self._need_queue(admitted.object)))

    async def apply(self, obj: Object) -> Applied:
        """Create an object, or update the existing one. Raises RequestError, ClusterError.

        The status, the node of a pod, and annotations that no manifest named are kept.
        """
        admitted = await self._admit(obj)
        note_applied(admitted.object)
        action = await self._apply(admitted.object)
        return Applied(action, *key_of(admitted.object), (*admitted.warnings, *await self._need_queue(admitted.object)))

    async def load(self, objects: Iterable[Object]) -> list[Applied]:
        """Apply many objects, pipelined, in the order of their kinds; a refusal does not affect other objects.

        The results are in the order of ``objects``. Raises ClusterError.
        """
        given = with_own_names(objects)
        by_order: dict[int, list[int]] = {}
        for index, obj in enumerate(given):
            by_order.setdefault(order_of(obj), []).append(index)
        results: dict[int, Applied] = {}
        for _, indexes in sorted(by_order.items()):
            applied = await self._write([given[i] for i in indexes], manifests=True, update=True)
            results |= zip(indexes, applied, strict=True)
        return [results[index] for index in range(len(given))]

    async def make(self, objects: Iterable[Object], *, update: bool = False) -> list[Applied]:
        """Create a controller's objects, pipelined; existing objects are changed only with ``update``.

        The results are in the order of ``objects``. Raises ClusterError.
        """
        return await self._write(list(objects), manifests=False, update=update)

    async def scale(self, kind: str, namespace: str, name: str, replicas: int) -> Applied:
        """Set ``spec.replicas`` of a workload, as far as admission accepts it. Raises ClusterError."""
        key = named_key(kind, namespace, name)
        found = False

        def change(live: Object | None) -> Object | None:
            nonlocal found
            found = live is not None
            if live is None or live["spec"].get("replicas", 1) == replicas:
                return None
            scaled = live | {"spec": live["spec"] | {"replicas": replicas}}
            admit(scaled, uid=live["metadata"]["uid"], now="", priorities=self._priorities)
            return scaled

        try:
            await self._store.update(key, change)
        except InputError as error:
            return Applied(Action.REFUSED, *key, (), error.problem)
        return Applied(Action.SCALED if found else Action.ABSENT, *key)

    async def write_status(self, key: Key, uid: str, fields: Mapping[str, Any]) -> bool:
        """Set fields of the status of an object with this uid; return whether any changed. Raises ClusterError."""
        return await self.revise_status(key, uid, lambda live: (live.get("status") or {}) | dict(fields))

    async def revise_status(self, key: Key, uid: str, revised: Callable[[Object], Mapping[str, Any]]) -> bool:
        """Replace the status of an object with this uid; return whether it changed. Raises ClusterError.

        ``revised`` returns the status of the object that it is given, and is called again after each conflict.
        """

        def change(live: Object | None) -> Object | None:
            if live is None or live["metadata"]["uid"] != uid:
                return None
            wanted = revised(live)
            return None if wanted == (live.get("status") or {}) else live | {"status": wanted}

        return await self._store.update(key, change) > 0

    async def delete(self, kind: str, namespace: str, name: str, *, grace: int | None = None) -> Applied:
        """Delete an object; a pod within ``grace`` seconds (None: its own grace period). Raises ClusterError."""
        key = named_key(kind, namespace, name)
        if kind == "Pod":
            deleted = await self.pods.delete(key, grace=grace)
        else:
            deleted = await (delete_claim(self._store, key) if kind == CLAIM else self._store.delete(key))
        if deleted:
            self._queues.discard(name)
        return Applied(Action.DELETED if deleted else Action.ABSENT, *key)

    async def delete_all(self, keys: Iterable[Key]) -> list[Applied]:
        """Delete many objects concurrently. Raises ClusterError."""
        limit = asyncio.Semaphore(DELETIONS)

        async def one(key: Key) -> Applied:
            async with limit:
                return await self.delete(*key)

        return list(await asyncio.gather(*(one(key) for key in keys)))

    async def ensure_queue(self, name: str) -> bool:
        """Create a queue unless it exists, and return whether it was created. Raises ClusterError."""
        if name in self._queues:
            return False
        queue = {"apiVersion": KINDS["Queue"].api_version, "kind": "Queue", "metadata": {"name": name}}
        created = await self._create((await self._admit(queue)).object)
        self._queues.add(name)
        return created

    async def _write(self, objects: list[Object], *, manifests: bool, update: bool) -> list[Applied]:
        """Create objects that do not refer to each other, or update existing ones."""
        results: list[Applied] = []
        admitted: dict[int, Object] = {}
        for place, obj in enumerate(objects):
            try:
                one = await self._admit(obj)
            except InputError as error:
                results.append(_refused(obj, error))
                continue
            if manifests:
                note_applied(one.object)
            results.append(Applied(Action.CREATED, *key_of(one.object), tuple(one.warnings)))
            admitted[place] = one.object
        created = await self._store.create_all(list(admitted.values()))
        for (place, obj), new in zip(admitted.items(), created, strict=True):
            if not new:
                try:
                    if update:
                        action = await self._apply(obj)
                    else:
                        action = Action.CREATED if await self._create(obj) else Action.UNCHANGED
                    results[place] = results[place]._replace(action=action)
                except InputError as error:
                    results[place] = _refused(obj, error)
                    continue
                except ClusterError as error:
                    if not error.final:
                        raise
                    key = key_of(obj)
                    problem = Problem(str(key), "$", "", f"an object that can be read: {error}")
                    results[place] = Applied(Action.REFUSED, *key, (), problem)
                    continue
            if warning := await self._need_queue(obj):
                results[place] = results[place]._replace(warnings=(*results[place].warnings, *warning))
        return results

    async def _admit(self, obj: Object) -> Admitted:
        if obj.get("kind") == "Pod":
            spec = obj.get("spec")
            await self._read_priorities(spec.get("priorityClassName") if isinstance(spec, dict) else None)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        admitted = admit(obj, uid=str(uuid.uuid4()), now=now, priorities=self._priorities)
        if admitted.object["kind"] == "PriorityClass":
            self._priorities_read = -_FRESH_SECONDS
        return admitted

    async def _read_priorities(self, name: object) -> None:
        """Read the PriorityClasses, unless they were read recently and included the requested one."""
        now = time.monotonic()
        known = name is None or (isinstance(name, str) and name in self._priorities.values)
        if known and now - self._priorities_read < _FRESH_SECONDS:
            return
        self._priorities = priorities_of(await self._store.list_kind("PriorityClass"))
        self._priorities_read = now

    async def _create(self, obj: Object) -> bool:
        """Store a new object, possibly over a tombstone; return False if one exists."""
        try:
            await self._store.create(obj)
        except VersionConflict:
            return await self._store.update(key_of(obj), lambda found: obj if found is None else None) > 0
        return True

    async def _apply(self, obj: Object) -> Action:
        action = Action.UNCHANGED

        def change(live: Object | None) -> Object | None:
            nonlocal action
            action = Action.CREATED if live is None else Action.CONFIGURED
            wanted = obj if live is None else updated(live, obj)
            return None if wanted == live else wanted

        written = await self._store.update(key_of(obj), change)
        return action if written else Action.UNCHANGED

    async def _need_queue(self, obj: Object) -> tuple[FieldWarning, ...]:
        """Create the queue that a Job or PodGroup names, with a warning if it did not exist."""
        if kind_of(obj) not in (VOLCANO_JOB, "PodGroup"):
            return ()
        queue = obj["spec"]["queue"]
        if not await self.ensure_queue(queue) or queue == DEFAULT_QUEUE:
            return ()
        return (made_queue(obj),)


def made_queue(obj: Object) -> FieldWarning:
    """Return the warning that the queue which an admitted Job or PodGroup names was created."""
    refused = "it" if obj["kind"] == "PodGroup" else "the Job"
    queue = obj["spec"]["queue"]
    text = f"{key_of(obj)}: Queue {queue} did not exist: created with weight 1; Volcano would refuse {refused}"
    return FieldWarning("spec.queue", text)


def with_own_names(objects: Iterable[Object]) -> list[Object]:
    """Return objects; of equal ones with a ``generateName`` each but the first has a generated name of its own."""
    seen: Counter[str] = Counter()
    found = []
    for obj in objects:
        metadata = obj.get("metadata")
        prefix = metadata.get("generateName") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or metadata.get("name") is not None or not isinstance(prefix, str):
            found.append(obj)
            continue
        text = repr(obj)
        name = {"name": generated_name(prefix, text, seen[text])} if seen[text] else {}
        found.append({**obj, "metadata": {**metadata, **name}} if name else obj)
        seen[text] += 1
    return found


def _refused(obj: Object, error: InputError) -> Applied:
    try:
        key = identify(obj)
    except RequestError:
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        key = Key(str(obj.get("kind")), "", str(name or ""))
    return Applied(Action.REFUSED, *key, (), error.problem)
