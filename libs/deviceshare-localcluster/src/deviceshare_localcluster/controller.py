"""The controllers of the local cluster: the objects of workloads, life-cycle stages, and garbage collection by owner.

Level-triggered and stateless: may be restarted at any time. Created objects pass the same admission as user objects.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed, Object
from deviceshare_cluster.readable import MALFORMED, readable

from deviceshare_localcluster.admission import SYSTEM_PRIORITIES
from deviceshare_localcluster.budgets import BUDGET
from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.device_claims import KINDS as DEVICE_CLAIM_KINDS
from deviceshare_localcluster.device_claims import DeviceClaims
from deviceshare_localcluster.disruption_controller import DisruptionController
from deviceshare_localcluster.ephemeral_volumes import EphemeralVolumes
from deviceshare_localcluster.job_phases import is_finished, job_state, next_phase
from deviceshare_localcluster.jobs import companion_objects, pod_maker, pod_names
from deviceshare_localcluster.kinds import VOLCANO_JOB, Key, key_of, known_kind
from deviceshare_localcluster.kubelets import Kubelets
from deviceshare_localcluster.object_heads import Metadata, Owner, PodHead, class_value, decode_head, decode_pod_head
from deviceshare_localcluster.store import BATCHES
from deviceshare_localcluster.volume_controller import KINDS as VOLUME_KINDS
from deviceshare_localcluster.volume_controller import VolumeController
from deviceshare_localcluster.warn_once import WarnOnce
from deviceshare_localcluster.work_list import RETRY_SECONDS, UNEXPECTED, WorkList
from deviceshare_localcluster.workloads import CONTROLLER_HASH, FOLLOWS_PODS, WORKLOADS, Owned, PodState, desired
from deviceshare_localcluster.writer import Action, Applied

log = logging.getLogger("deviceshare.local_cluster")

_OWNERS = (VOLCANO_JOB, "PodGroup", "Pod", "Queue", "Node")
"""Kinds of owners whose dependents are deleted even if they were never here."""
_WATCHED = (
    *VOLUME_KINDS,
    *(kind for kind in DEVICE_CLAIM_KINDS if kind != "Pod"),
    BUDGET,
    "PodGroup",
    "Pod",
    "ConfigMap",
    "Secret",
    "Service",
    "Queue",
    "PriorityClass",
    *WORKLOADS,
)
_CONTROLLED = ("Pod", "PodGroup", *WORKLOADS)
"""Kinds of objects that their controllers delete if they are no longer wanted."""
_REVISION = f'"{CONTROLLER_HASH}"'.encode()
_MAX_LOST = 10_000
_JOBS_AT_ONCE = 8
"""Each has up to 1,000 writes in flight; the server accepts 10,000."""


class Controller:
    """Reconciles workloads and collects orphans; :meth:`run` until cancelled."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._workloads: dict[Key, Object] = {}
        self._pods: dict[Key, PodState] = {}
        """The states of the pods of workloads that follow them."""
        self._lost: dict[str, None] = {}
        """The uids of workloads that were deleted, the latest last."""
        self._kubelets = Kubelets(cluster)
        self._others: tuple[WorkList, ...] = (
            VolumeController(cluster),
            EphemeralVolumes(cluster),
            DeviceClaims(cluster),
            DisruptionController(cluster),
        )
        self._priorities: dict[str, int] = dict(SYSTEM_PRIORITIES)
        """Values of PriorityClasses by name."""
        self._heads: dict[Key, Metadata] = {}
        self._owned: defaultdict[str, set[Key]] = defaultdict(set)
        self._to_check: set[Key] = set()
        self._dirty: set[Key] = set()
        self._to_judge: set[Key] = set()
        """Jobs of Volcano whose phase may have changed."""
        self._listed = False
        self._acting = 0
        self._changes: asyncio.Queue[list[Change | Listed]] = asyncio.Queue(maxsize=BATCHES)
        self._warnings = WarnOnce()
        self.observers: list[Callable[[list[Change | Listed]], None]] = []
        """Called with each batch of changes that the controllers receive."""
        self.observers += [self._kubelets.take, *(each.take for each in self._others)]

    @property
    def open(self) -> int:
        """The amount of pending work; 0 if all observed workloads are reconciled."""
        mine = len(self._to_check) + len(self._dirty) + len(self._to_judge) + self._acting
        return (not self._listed) + self._changes.qsize() + mine + sum(each.open for each in self._others)

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
            tasks.create_task(self._kubelets.run())
            for each in self._others:
                tasks.create_task(each.run())
            while True:
                if not self._listed or not (self._to_check or self._dirty or self._to_judge):
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
        workload: Object = {}
        try:
            if key.kind in WORKLOADS:
                workload = readable(key.kind, raw)
            decoded = (decode_pod_head if key.kind == "Pod" else decode_head)(raw)
        except (*MALFORMED, ClusterError) as error:
            self._warnings.warn(f"{key}: is not read: {error}")
            self._gone(key)
            self._heads[key] = Metadata(key.name, "", key.namespace)
            return
        head = decoded.metadata
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
        if key.kind in WORKLOADS:
            self._workloads[key] = workload
            self._dirty.add(key)
            if key.kind == VOLCANO_JOB:
                self._to_judge.add(key)
            self._dirty_owners(head, key)
        elif isinstance(decoded, PodHead):
            self._pod_changed(key, decoded, raw)
        elif key.kind == "PriorityClass":
            self._priorities[key.name] = class_value(raw)
            self._dirty |= {workload for workload in self._workloads if workload.kind == VOLCANO_JOB}

    def _pod_changed(self, key: Key, head: PodHead, raw: bytes) -> None:
        """Note the state of a pod whose workload follows it."""
        for owner in head.metadata.owners:
            controller = _owner_key(owner, key)
            if owner.controller and controller.kind in WORKLOADS:
                labels = readable("Pod", raw)["metadata"].get("labels") or {} if _REVISION in raw else {}
                phase = head.status.phase if head.status else ""
                state = PodState(phase, labels.get(CONTROLLER_HASH, ""), str(head.metadata.created or ""))
                if self._pods.get(key) != state:
                    self._pods[key] = state
                    if controller.kind in FOLLOWS_PODS:
                        self._dirty_owners(head.metadata, key)
                    elif controller in self._workloads:
                        self._to_judge.add(controller)

    def _dirty_owners(self, head: Metadata, key: Key) -> None:
        """Reconcile the workload that controls an object."""
        for owner in head.owners:
            controller = _owner_key(owner, key)
            if owner.controller and controller in self._workloads:
                self._dirty.add(controller)

    def _gone(self, key: Key) -> None:
        self._workloads.pop(key, None)
        self._pods.pop(key, None)
        if key.kind == "PriorityClass":
            self._priorities.pop(key.name, None)
        self._dirty.discard(key)
        self._to_judge.discard(key)
        self._to_check.discard(key)
        head = self._heads.pop(key, None)
        if head is None:
            return
        for owner in head.owners:
            self._owned[owner.uid].discard(key)
            if not self._owned[owner.uid]:
                del self._owned[owner.uid]
        self._dirty_owners(head, key)
        if key.kind in WORKLOADS:
            self._lost[head.uid] = None
            while len(self._lost) > _MAX_LOST:
                del self._lost[next(iter(self._lost))]
        self._to_check |= self._owned.get(head.uid, set())

    async def _act(self) -> None:
        """Collect orphans and reconcile changed workloads; retries after a ClusterError."""
        to_check, self._to_check = self._to_check, set()
        dirty, self._dirty = self._dirty, set()
        to_judge, self._to_judge = self._to_judge, set()
        self._acting = len(to_check) + len(dirty) + len(to_judge)
        try:
            await self._collect(to_check)
            await self._for_each(dirty, self._reconcile)
            await self._for_each(to_judge, self._write_phase)
        except ClusterError as error:
            log.warning("%s", error)
            self._to_check |= to_check & self._heads.keys()
            self._dirty |= dirty & self._workloads.keys()
            self._to_judge |= to_judge & self._workloads.keys()
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._acting = 0

    async def _collect(self, to_check: set[Key]) -> None:
        """Delete objects without a living owner."""
        orphans = []
        known: dict[tuple[Key, str], bool] = {}
        for key in to_check:
            head = self._heads.get(key)
            if head is None or not all(self._is_collected(owner, key) for owner in head.owners):
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

    def _is_collected(self, owner: Owner, owned: Key) -> bool:
        """Return whether the dependents of an owner are deleted once it is gone.

        Those of workloads that were never here are not: a directory may have the pods of a cluster without these.
        """
        kind = _owner_key(owner, owned).kind
        return kind in _OWNERS or owner.uid in self._lost or (kind in WORKLOADS and self._exists(owner, owned))

    def _exists(self, owner: Owner, owned: Key) -> bool:
        head = self._heads.get(_owner_key(owner, owned))
        return head is not None and head.uid == owner.uid

    async def _lives(self, key: Key, uid: str) -> bool:
        """Return whether an owner exists. Reads an unknown owner, since changes of different kinds are not ordered."""
        head = self._heads.get(key)
        if head is not None:
            return head.uid == uid
        try:
            owner = await self._cluster.get(*key)
        except ClusterError as error:
            if not error.final:
                raise
            self._warnings.warn(str(error))  # it exists, and cannot be read
            return True
        return owner is not None and owner["metadata"]["uid"] == uid

    async def _for_each(self, keys: set[Key], step: Callable[[Key, Object], Awaitable[None]]) -> None:
        """Run a step for workloads, some at a time; raises the first error after all have ended."""
        limit = asyncio.Semaphore(_JOBS_AT_ONCE)

        async def one(key: Key) -> None:
            async with limit:
                workload = self._workloads.get(key)
                if workload is None:
                    return
                try:
                    await step(key, workload)
                except (*UNEXPECTED, ClusterError) as error:
                    if isinstance(error, ClusterError) and not error.final:
                        raise
                    self._warnings.warn(f"{key}: is not reconciled: {type(error).__name__}: {error}")

        for result in await asyncio.gather(*(one(key) for key in sorted(keys)), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _reconcile(self, key: Key, workload: Object) -> None:
        await (self._sync_job(workload) if key.kind == VOLCANO_JOB else self._sync(key, workload))

    async def _write_phase(self, key: Key, job: Object) -> None:
        """Write the phase of a Job of Volcano; nothing if it has not changed."""
        uid = job["metadata"]["uid"]
        phases = {each.name: self._pods[each].phase for each in self._owned_by(uid) if each in self._pods}
        await self._cluster.write_status(key, uid, {"state": job_state(job) | {"phase": next_phase(job, phases)}})

    async def _sync_job(self, job: Object) -> None:
        """Reconcile the objects of a Job of Volcano."""
        if is_finished(job):
            return
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

    async def _sync(self, key: Key, workload: Object) -> None:
        """Reconcile the objects of another workload."""
        uid = workload["metadata"]["uid"]
        owned = self._owned_by(uid)
        found = desired(
            workload,
            Owned(
                {each.name: self._pods[each] for each in owned if each in self._pods},
                [self._workloads[each] for each in sorted(owned) if each in self._workloads],
                lambda name: self._is_of_another(Key("Pod", key.namespace, name), owned),
            ),
        )
        wanted = {key_of(obj) for obj in (*found.created, *found.updated)} | found.kept
        if surplus := [each for each in owned if each.kind in _CONTROLLED and each not in wanted]:
            await self._cluster.delete_all(surplus)
        results = await self._cluster.make(found.updated, update=True)
        for obj in found.created:
            if "ownerReferences" in obj["metadata"] and self._is_of_another(key_of(obj), owned):
                self._warnings.warn(
                    f"{key}: {key_of(obj)} is not made: it exists, and belongs to another owner or to none"
                )
        if missing := [obj for obj in found.created if key_of(obj) not in self._heads]:
            made = await self._cluster.make(missing)
            if any(result.action is Action.UNCHANGED and result.kind in _CONTROLLED for result in made):
                self._dirty.add(key)  # another workload was quicker with the name
            results += made
        if found.status:
            await self._cluster.write_status(key, uid, found.status)
        self._report(workload, results)

    def _is_of_another(self, key: Key, owned: set[Key]) -> bool:
        """Return whether an object exists that a workload does not own; not one that is deleted with its owner."""
        head = self._heads.get(key)
        if head is None or key in owned:
            return False
        controllers = [owner for owner in head.owners if owner.controller]
        return not controllers or any(self._exists(owner, key) for owner in controllers)

    def _owned_by(self, uid: str) -> set[Key]:
        """Return the objects that a workload controls."""
        return {
            each
            for each in self._owned.get(uid, set())
            if any(owner.controller and owner.uid == uid for owner in self._heads[each].owners)
        }

    def _report(self, workload: Object, results: list[Applied]) -> None:
        """Log created objects, and each refusal once."""
        metadata = workload["metadata"]
        created = sum(result.action is Action.CREATED for result in results)
        if created:
            log.info(
                "created %d objects for %s %s/%s", created, workload["kind"], metadata["namespace"], metadata["name"]
            )
        for result in results:
            if result.problem is not None:
                self._warnings.warn(str(result.problem))


def _owner_key(owner: Owner, owned: Key) -> Key:
    """Return the key of an owner; the key of an unknown kind has a kind that is not in KINDS."""
    kind = known_kind(owner.api_version, owner.kind)
    name = kind.name if kind is not None else f"{owner.api_version} {owner.kind}"
    namespaced = kind is None or kind.namespaced
    return Key(name, owned.namespace if namespaced else "", owner.name)
