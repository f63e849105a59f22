"""The controllers of the local cluster: creation of the objects of Jobs, and garbage collection by owner.

Level-triggered and stateless: may be restarted at any time. Created objects pass the same admission as user objects.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

import msgspec

from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed, Object
from deviceshare_cluster.local.admission import SYSTEM_PRIORITIES
from deviceshare_cluster.local.cluster import LocalCluster
from deviceshare_cluster.local.jobs import companion_objects, pod_maker, pod_names
from deviceshare_cluster.local.kinds import Key
from deviceshare_cluster.local.store import BATCHES
from deviceshare_cluster.local.writer import Action, Applied

log = logging.getLogger("deviceshare.local_cluster")

_OWNERS = ("Job", "PodGroup", "Pod", "Queue", "Node")
"""Kinds of owners whose dependents are collected; objects with other kinds of owners are left alone."""
_WATCHED = ("Job", "PodGroup", "Pod", "ConfigMap", "Secret", "Service", "Queue", "Node", "PriorityClass")
_RETRY_SECONDS = 0.5
_JOBS_AT_ONCE = 8
"""Each has up to 1,000 writes in flight; the server accepts 10,000."""


class _Owner(msgspec.Struct):
    kind: str
    name: str
    uid: str
    controller: bool = False


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    namespace: str = ""
    owners: list[_Owner] = msgspec.field(default_factory=list, name="ownerReferences")


class _Head(msgspec.Struct):
    """The metadata of an object that garbage collection needs."""

    metadata: _Metadata


_decode_head = msgspec.json.Decoder(_Head).decode


class Controller:
    """Reconciles Jobs and collects orphans; :meth:`run` until cancelled."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._jobs: dict[Key, Object] = {}
        self._priorities: dict[str, int] = dict(SYSTEM_PRIORITIES)
        """Values of PriorityClasses by name."""
        self._heads: dict[Key, _Metadata] = {}
        self._owned: defaultdict[str, set[Key]] = defaultdict(set)
        self._to_check: set[Key] = set()
        self._dirty: set[Key] = set()
        self._listed = False
        self._acting = 0
        self._changes: asyncio.Queue[list[Change | Listed]] = asyncio.Queue(maxsize=BATCHES)
        self._reported: set[str] = set()
        self.observers: list[Callable[[list[Change | Listed]], None]] = []
        """Called with each batch of changes that the controllers receive."""

    @property
    def open(self) -> int:
        """The amount of pending work; 0 if all observed Jobs are reconciled."""
        return (not self._listed) + self._changes.qsize() + len(self._to_check) + len(self._dirty) + self._acting

    async def run(self) -> None:
        """Watch and reconcile without end. The cluster must be set up."""
        changes = self._changes

        async def watch() -> None:
            async for batch in self._cluster.watch(_WATCHED):
                for observer in self.observers:
                    observer(batch)
                await changes.put(batch)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch())
            while True:
                if not self._listed or not (self._to_check or self._dirty):
                    self._take(await changes.get())
                while not changes.empty():
                    self._take(changes.get_nowait())
                if self._listed:
                    await self._act()

    def _take(self, batch: list[Change | Listed]) -> None:
        for change in batch:
            if isinstance(change, Listed):
                self._listed = True
                continue
            key = Key(change.kind, change.namespace, change.name)
            if change.type is ChangeType.DELETED:
                self._gone(key)
            else:
                self._changed(key, change.raw)

    def _changed(self, key: Key, raw: bytes) -> None:
        head = _decode_head(raw).metadata
        before = self._heads.get(key)
        if before is not None and before.uid != head.uid:
            self._gone(key)
            before = None
        self._heads[key] = head
        if before is None or before.owners != head.owners:
            for owner in head.owners:
                self._owned[owner.uid].add(key)
            if head.owners:
                self._to_check.add(key)
        if key.kind == "Job":
            self._jobs[key] = msgspec.json.decode(raw)
            self._dirty.add(key)
        elif key.kind == "PriorityClass":
            self._priorities[key.name] = msgspec.json.decode(raw)["value"]
            self._dirty |= self._jobs.keys()

    def _gone(self, key: Key) -> None:
        self._jobs.pop(key, None)
        if key.kind == "PriorityClass":
            self._priorities.pop(key.name, None)
        self._dirty.discard(key)
        self._to_check.discard(key)
        head = self._heads.pop(key, None)
        if head is None:
            return
        for owner in head.owners:
            self._owned[owner.uid].discard(key)
            if not self._owned[owner.uid]:
                del self._owned[owner.uid]
            job = Key(owner.kind, key.namespace, owner.name)
            if owner.controller and job in self._jobs:
                self._dirty.add(job)
        self._to_check |= self._owned.get(head.uid, set())

    async def _act(self) -> None:
        """Collect orphans and reconcile changed Jobs; retries after a ClusterError."""
        to_check, self._to_check = self._to_check, set()
        dirty, self._dirty = self._dirty, set()
        self._acting = len(to_check) + len(dirty)
        try:
            await self._collect(to_check)
            await self._sync_all([self._jobs[key] for key in sorted(dirty) if key in self._jobs])
        except ClusterError as error:
            log.warning("%s", error)
            self._to_check |= to_check & self._heads.keys()
            self._dirty |= dirty & self._jobs.keys()
            await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._acting = 0

    async def _collect(self, to_check: set[Key]) -> None:
        """Delete objects without a living owner."""
        orphans = []
        known: dict[tuple[Key, str], bool] = {}
        for key in to_check:
            head = self._heads.get(key)
            if head is None or not all(owner.kind in _OWNERS for owner in head.owners):
                continue
            for owner in head.owners:
                place = (_owner_key(owner, key), owner.uid)
                if place not in known:
                    known[place] = await self._lives(*place)
                if known[place]:
                    break
            else:
                orphans.append(key)
        if orphans:
            log.info("deleting %d objects whose owner is gone, such as %s", len(orphans), orphans[0])
            await self._cluster.delete_all(orphans)

    async def _lives(self, key: Key, uid: str) -> bool:
        """Return whether an owner exists. Reads an unknown owner, since changes of different kinds are not ordered."""
        head = self._heads.get(key)
        if head is not None:
            return head.uid == uid
        owner = await self._cluster.get(*key)
        return owner is not None and owner["metadata"]["uid"] == uid

    async def _sync_all(self, jobs: list[Object]) -> None:
        """Reconcile Jobs, some at a time; raises the first error after all have ended."""
        limit = asyncio.Semaphore(_JOBS_AT_ONCE)

        async def one(job: Object) -> None:
            async with limit:
                await self._sync(job)

        for result in await asyncio.gather(*(one(job) for job in jobs), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _sync(self, job: Object) -> None:
        """Reconcile the objects of a Job."""
        namespace = job["metadata"]["namespace"]
        owned = self._owned.get(job["metadata"]["uid"], set())
        results = await self._cluster.make(companion_objects(job, self._priorities), update=True)
        makers = {task["name"]: pod_maker(job, task) for task in job["spec"]["tasks"]}
        wanted = {}
        for name, task, index in pod_names(job):
            wanted[Key("Pod", namespace, name)] = (task["name"], index)
        surplus = [key for key in owned if key.kind == "Pod" and key not in wanted]
        missing = [makers[task](index) for key, (task, index) in wanted.items() if key not in self._heads]
        if surplus:
            await self._cluster.delete_all(surplus)
        if missing:
            results += await self._cluster.make(missing)
        self._report(job, results)

    def _report(self, job: Object, results: list[Applied]) -> None:
        """Log created objects, and each refusal once."""
        created = sum(result.action is Action.CREATED for result in results)
        if created:
            log.info("created %d objects for Job %s/%s", created, job["metadata"]["namespace"], job["metadata"]["name"])
        for result in results:
            if result.problem is not None and (text := str(result.problem)) not in self._reported:
                self._reported.add(text)
                log.warning("%s", text)


def _owner_key(owner: _Owner, owned: Key) -> Key:
    namespaced = owner.kind not in ("Queue", "Node")
    return Key(owner.kind, owned.namespace if namespaced else "", owner.name)
