"""The controller of ResourceClaims of the local cluster: it makes those of templates, and frees what no pod uses.

A claim of a template has the pod as its controlling owner, with which garbage collection deletes it, and the pod's
status has its name. A reservation of a pod that is gone or has ended is removed; with the last one the devices of the
claim are free, and its finalizer goes. Source: kubernetes pkg/controller/resourceclaim/controller.go.
"""

import asyncio
import hashlib
import logging
from collections.abc import Iterable

from deviceshare_cluster.device_claims import FINALIZER
from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed, Object
from deviceshare_cluster.readable import readable

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.warn_once import WarnOnce
from deviceshare_localcluster.workloads.model import child

log = logging.getLogger("deviceshare.local_cluster")

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
KINDS = ("Pod", CLAIM, TEMPLATE)
"""The kinds that it follows."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a claim with its name within the pod."""
_MARK = b'"resourceClaims"'
"""In the bytes of each pod that uses claims."""
_ENDED = ("Succeeded", "Failed")
_RETRY_SECONDS = 0.5
_UNEXPECTED = (AttributeError, LookupError, TypeError, ValueError, ClusterError)
"""Raised for an object of an unexpected form: the cluster may have been loaded by an earlier version."""


class DeviceClaims:
    """Makes and frees claims; :meth:`run` until cancelled, :meth:`take` for each batch of changes.

    Stateless: all that it does follows from the objects.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._pods: dict[Key, Object] = {}
        """The pods that use claims."""
        self._running: dict[str, Key] = {}
        """The uids of pods that have not ended."""
        self._claims: dict[Key, Object] = {}
        self._templates: dict[Key, Object] = {}
        self._dirty: dict[Key, None] = {}
        """Pods whose claims may have to be made, and claims that may have to be freed."""
        self._listed = False
        self._changed = asyncio.Event()
        self._acting = False
        self._warnings = WarnOnce()

    @property
    def open(self) -> int:
        """The number of pods and claims that may have to be changed."""
        return len(self._dirty) + self._acting

    def take(self, batch: Iterable[Change | Listed]) -> None:
        """Note changed pods, claims and templates."""
        for change in batch:
            if isinstance(change, Listed):
                self._listed = True
            elif change.kind in KINDS:
                self._apply(Key(change.kind, change.namespace, change.name), change)
        if self._listed and self._dirty:
            self._changed.set()

    def _apply(self, key: Key, change: Change) -> None:
        of_kind = {"Pod": self._pods, CLAIM: self._claims, TEMPLATE: self._templates}[key.kind]
        before = of_kind.pop(key, None)
        self._dirty.pop(key, None)
        if key.kind == "Pod" and before is not None:
            self._running.pop(before["metadata"]["uid"], None)
        uses = key.kind != "Pod" or _MARK in change.raw
        if change.type is not ChangeType.DELETED and uses:
            try:
                found = readable(key.kind, change.raw)
            except _UNEXPECTED as error:
                self._warnings.warn(f"{key}: is not read: {error}")
                return
            of_kind[key] = found
            if key.kind == "Pod" and (found.get("status") or {}).get("phase") not in _ENDED:
                self._running[found["metadata"]["uid"]] = key
        if key.kind == "Pod":
            self._dirty |= {key: None} if key in self._pods else {}
            self._dirty |= {claim: None for claim, obj in self._claims.items() if _reserved(obj)}
        elif key.kind == CLAIM:
            self._dirty |= {key: None} if key in self._claims else {}
        else:
            self._dirty |= dict.fromkeys(pod for pod in self._pods if pod.namespace == key.namespace)

    async def run(self) -> None:
        """Make and free claims without end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            dirty, self._dirty = self._dirty, {}
            self._acting = True
            try:
                for key in dirty:
                    if (pod := self._pods.get(key)) is not None:
                        await self._make(key, pod)
                    elif (claim := self._claims.get(key)) is not None:
                        await self._free(key, claim)
            except ClusterError as error:
                log.warning("%s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._dirty = dirty | self._dirty
                self._changed.set()
            except _UNEXPECTED as error:
                self._warnings.warn(f"claims of devices: {type(error).__name__}: {error}")
            finally:
                self._acting = False

    async def _make(self, key: Key, pod: Object) -> None:
        """Make the claims of a pod that are missing, and write their names into its status."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        if metadata.get("deletionTimestamp") or metadata["uid"] not in self._running:
            return
        known = {each["name"]: each for each in status.get("resourceClaimStatuses") or ()}
        made: dict[str, Object] = {}
        for each in pod["spec"].get("resourceClaims") or ():
            template = self._templates.get(Key(TEMPLATE, key.namespace, each.get("resourceClaimTemplateName") or ""))
            if template is None or each["name"] in known:
                continue
            suffix = hashlib.sha256(f"{metadata['uid']}/{each['name']}".encode()).hexdigest()[:5]
            spec = template["spec"]
            of_template = spec.get("metadata") or {}
            annotations = {**(of_template.get("annotations") or {}), POD_CLAIM_NAME: each["name"]}
            name = f"{metadata['name']}-{each['name']}-{suffix}"
            labels = of_template.get("labels")
            made[each["name"]] = child(pod, CLAIM, name, spec["spec"], annotations=annotations, labels=labels)
        if not made:
            return
        for result in await self._cluster.make(made.values()):
            if result.problem is not None:
                self._warnings.warn(str(result.problem))
                return
        statuses = [
            *known.values(),
            *({"name": name, "resourceClaimName": obj["metadata"]["name"]} for name, obj in made.items()),
        ]
        await self._cluster.merge(key, metadata["resourceVersion"], {"status": {"resourceClaimStatuses": statuses}})

    async def _free(self, key: Key, claim: Object) -> None:
        """Remove the reservations of pods that are gone or have ended; with the last one the claim is free."""
        reserved = _reserved(claim)
        left = [each for each in reserved if each.get("uid") in self._running]
        if len(left) == len(reserved):
            return
        patch: Object = {"status": {"reservedFor": left or None}}
        if not left:
            patch["status"] |= {"allocation": None, "devices": None}
            others = [each for each in claim["metadata"].get("finalizers") or () if each != FINALIZER]
            patch["metadata"] = {"finalizers": others or None}
        await self._cluster.merge(key, claim["metadata"]["resourceVersion"], patch)


def _reserved(claim: Object) -> list[Object]:
    """Return the pods for which a claim is reserved."""
    found = (claim.get("status") or {}).get("reservedFor") or ()
    return [each for each in found if each.get("resource", "pods") == "pods"]
