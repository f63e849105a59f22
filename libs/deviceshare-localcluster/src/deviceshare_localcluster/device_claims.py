"""The controller of ResourceClaims of the local cluster: it makes those of templates, and frees what no pod uses.

A claim of a template has the pod as its controlling owner, with which garbage collection deletes it, and the pod's
status has its name. A reservation of a pod that is gone or has ended is removed; with the last one the devices of the
claim are free, its finalizer goes, and the claim of a pod that has ended is deleted. Source: kubernetes
pkg/controller/resourceclaim/controller.go.
"""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from deviceshare_cluster.device_claims import FINALIZER
from deviceshare_cluster.interface import Change, ClusterError, Object

from deviceshare_localcluster.claim_deletion import CLAIM
from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.owned_objects import child
from deviceshare_localcluster.termination import ENDED, is_terminating
from deviceshare_localcluster.work_list import UNEXPECTED, WorkList, read
from deviceshare_localcluster.writer import Action

log = logging.getLogger("deviceshare.local_cluster")
Of = TypeVar("Of")

TEMPLATE = "ResourceClaimTemplate"
KINDS = ("Pod", CLAIM, TEMPLATE)
"""The kinds that it follows."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a claim with its name within the pod."""
_MARK = b'"resourceClaims"'
"""In the bytes of each pod that uses claims."""
_BASE_LENGTH = 58
"""Characters of a name before those that are generated, as with ``generateName``."""
_ATTEMPTS = 10
"""Names that are tried for the claim of a pod, if other objects have them."""


class _Index(Generic[Of]):
    """Objects by what they concern."""

    def __init__(self) -> None:
        self._keys: defaultdict[Of, dict[Key, None]] = defaultdict(dict)

    def of(self, item: Of) -> dict[Key, None]:
        """Return the objects that concern an item."""
        return self._keys.get(item, {})

    def note(self, item: Of, key: Key, sign: int) -> None:
        """Add (``sign`` 1) or remove (-1) an object."""
        if sign > 0:
            self._keys[item][key] = None
        elif self._keys.get(item, {}).pop(key, key) is None and not self._keys[item]:
            del self._keys[item]


class DeviceClaims(WorkList):
    """Makes and frees claims: it acts on pods and on claims."""

    kinds = KINDS

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self._pods: dict[Key, Object] = {}
        """The pods that use claims."""
        self._by_uid: dict[str, Key] = {}
        """These pods by uid."""
        self._by_template = _Index[Key]()
        """These pods by the templates that they name."""
        self._claims: dict[Key, Object] = {}
        self._claims_of = _Index[str]()
        """By uid of a pod the claims that it owns, or that are reserved for it."""
        self._templates: dict[Key, Object] = {}

    def _changed(self, key: Key, change: Change) -> None:
        put = {"Pod": self._put_pod, CLAIM: self._put_claim, TEMPLATE: self._put_template}[key.kind]
        try:
            put(key, None if key.kind == "Pod" and _MARK not in change.raw else read(change))
        except ClusterError:
            put(key, None)
            raise

    def _put_pod(self, key: Key, pod: Object | None) -> None:
        before = self._pods.pop(key, None)
        self.keys.pop(key, None)
        for each, sign in ((before, -1), (pod, 1)):
            if each is None:
                continue
            uid = each["metadata"]["uid"]
            for template in _templates(key, each):
                self._by_template.note(template, key, sign)
            if sign > 0:
                self._pods[key], self._by_uid[uid], self.keys[key] = each, key, None
            elif self._by_uid.get(uid) == key:
                del self._by_uid[uid]
            self.keys |= self._claims_of.of(uid)

    def _put_claim(self, key: Key, claim: Object | None) -> None:
        before = self._claims.pop(key, None)
        self.keys.pop(key, None)
        for each, sign in ((before, -1), (claim, 1)):
            for uid in _pods_of(each) if each is not None else ():
                self._claims_of.note(uid, key, sign)
        if claim is not None:
            self._claims[key], self.keys[key] = claim, None
        elif before is not None and (pod := self._by_uid.get(_owner(before))) is not None:
            self.keys[pod] = None  # it needs another one

    def _put_template(self, key: Key, template: Object | None) -> None:
        self._templates.pop(key, None)
        if template is not None:
            self._templates[key] = template
            self.keys |= self._by_template.of(key)

    async def _act_on_all(self, keys: Mapping[Key, None]) -> Mapping[Key, None]:
        return {key: None for key in keys if not await self._act(key)}

    async def _act(self, key: Key) -> bool:
        """Do what a pod or a claim needs; return whether nothing is left to do as far as it is known."""
        try:
            if (pod := self._pods.get(key)) is not None:
                await self._make(key, pod)
            elif (claim := self._claims.get(key)) is not None:
                await self._free(key, claim)
        except ClusterError as error:
            if not error.final:
                log.warning("%s", error)
                return False
            self._warnings.warn(f"{key}: {error}")
        except UNEXPECTED as error:
            self._warnings.warn(f"{key}: its devices are not managed: {type(error).__name__}: {error}")
        return True

    async def _make(self, key: Key, pod: Object) -> None:
        """Make the claims of a pod that are missing, and write their names into its status."""
        if is_terminating(pod) or not _runs(pod):
            return
        known = {each["name"]: each for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
        names = dict[str, str]()
        for each in pod["spec"].get("resourceClaims") or ():
            if (name := await self._claim_for(key, pod, each, known.get(each["name"]))) is not None:
                names[each["name"]] = name
        if names:
            statuses = known | {name: {"name": name, "resourceClaimName": claim} for name, claim in names.items()}
            patch = {"status": {"resourceClaimStatuses": list(statuses.values())}}
            await self._cluster.merge(key, pod["metadata"]["resourceVersion"], patch)

    async def _claim_for(self, key: Key, pod: Object, use: Object, status: Object | None) -> str | None:
        """Return the name of the claim of a template that the pod's status has to name, None if it does or cannot."""
        template_name = use.get("resourceClaimTemplateName")
        given = status.get("resourceClaimName") if status is not None else ""
        if not template_name or given is None:  # none is needed
            return None
        known = self._claims.get(Key(CLAIM, key.namespace, given))
        if known is not None:
            if not _is_for(known, pod, use["name"]):
                self._warnings.warn(f"{key}: ResourceClaim {given} exists, and belongs to another owner or to none")
            return None
        template = self._templates.get(Key(TEMPLATE, key.namespace, template_name))
        if template is None:
            return None
        for number in range(_ATTEMPTS):
            made = _of_template(pod, use["name"], template, number)
            name = made["metadata"]["name"]
            (result,) = await self._cluster.make([made])
            if result.problem is not None:
                self._warnings.warn(f"{key}: {result.problem}")
                return None
            if result.action is not Action.CREATED:
                found = await self._cluster.get(CLAIM, key.namespace, name)
                if found is None or not _is_for(found, pod, use["name"]):
                    continue
            return name if name != given else None
        self._warnings.warn(f"{key}: no ResourceClaim is made for {use['name']}: other objects have its names")
        return None

    async def _free(self, key: Key, claim: Object) -> None:
        """Remove the reservations of pods that are gone or have ended; with the last one the claim is free."""
        reserved = _reserved(claim)
        left = [each for each in reserved if await self._needs(key.namespace, each)]
        removed, metadata = len(left) < len(reserved), claim["metadata"]
        patch: Object = {"status": {"reservedFor": left or None}} if removed else {}
        finalizers = metadata.get("finalizers") or []
        if not left and FINALIZER in finalizers and (removed or is_terminating(claim)):
            patch = {
                "status": {"reservedFor": None, "allocation": None, "devices": None},
                "metadata": {"finalizers": [each for each in finalizers if each != FINALIZER] or None},
            }
        if patch:
            await self._cluster.merge(key, metadata["resourceVersion"], patch)
        elif not left and not is_terminating(claim):
            owner = self._pods.get(self._by_uid.get(_owner(claim), key))
            if owner is not None and not _runs(owner):
                await self._cluster.delete(*key)

    async def _needs(self, namespace: str, user: Object) -> bool:
        """Return whether a claim stays reserved: for a pod that exists and has not ended, or for anything else."""
        if user.get("resource", "pods") != "pods" or user.get("apiGroup"):
            return True
        key = self._by_uid.get(user["uid"])
        if key is not None:
            return _runs(self._pods[key])
        # It may be newer than what was received.
        found = await self._cluster.get("Pod", namespace, user["name"])
        return found is not None and found["metadata"]["uid"] == user["uid"] and _runs(found)


def _of_template(pod: Object, name: str, template: Object, number: int) -> Object:
    """Return the claim of a template for a pod; ``number`` tells its names apart if others have them."""
    metadata, spec = pod["metadata"], template["spec"]
    of_template = spec.get("metadata") or {}
    again = f"/{number}" if number else ""
    suffix = hashlib.sha256(f"{metadata['uid']}/{name}{again}".encode()).hexdigest()[:5]
    full_name = f"{metadata['name']}-{name}-"[:_BASE_LENGTH] + suffix
    annotations = {**(of_template.get("annotations") or {}), POD_CLAIM_NAME: name}
    return child(pod, CLAIM, full_name, spec["spec"], annotations=annotations, labels=of_template.get("labels"))


def _templates(key: Key, pod: Object) -> Iterable[Key]:
    """Return the templates that a pod names, as far as it can be read."""
    uses = pod["spec"].get("resourceClaims")
    names = [each.get("resourceClaimTemplateName") for each in _mappings(uses)]
    return [Key(TEMPLATE, key.namespace, name) for name in names if isinstance(name, str)]


def _pods_of(claim: Object) -> list[str]:
    """Return the uids of the pods that own a claim, or for which it is reserved, as far as it can be read."""
    status = claim.get("status")
    users = _mappings(status.get("reservedFor") if isinstance(status, dict) else None)
    uids = [_owner(claim), *(each.get("uid") for each in users)]
    return [uid for uid in uids if isinstance(uid, str) and uid]


def _mappings(items: object) -> list[Object]:
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


def _reserved(claim: Object) -> list[Object]:
    """Return for what a claim is reserved. Raises ValueError: it cannot be read."""
    found = (claim.get("status") or {}).get("reservedFor") or []
    if not isinstance(found, list) or len(_mappings(found)) < len(found):
        raise ValueError("status.reservedFor is no list of mappings")
    return found


def _owner(claim: Object) -> str:
    """Return the uid of the pod that controls a claim, '' if none does."""
    owners = claim["metadata"].get("ownerReferences") or ()
    found = [each for each in owners if each.get("kind") == "Pod" and each.get("controller") is True]
    return str(found[0].get("uid") or "") if found else ""


def _is_for(claim: Object, pod: Object, name: str) -> bool:
    """Return whether a claim was made for a pod, and for this use of it."""
    annotations = claim["metadata"].get("annotations") or {}
    return _owner(claim) == pod["metadata"]["uid"] and annotations.get(POD_CLAIM_NAME) == name


def _runs(pod: Object) -> bool:
    """Return whether a pod has not ended."""
    return (pod.get("status") or {}).get("phase") not in ENDED
