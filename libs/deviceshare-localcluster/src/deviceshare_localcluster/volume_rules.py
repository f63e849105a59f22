"""What Kubernetes' controllers and a provisioner do with PersistentVolumes and their claims: pure functions of objects.

A claim is bound to the volume that is reserved for it (``spec.claimRef``), one of mode Immediate to the smallest that
matches. Else a volume is made: at once, or when a node is selected for a claim that waits for its first pod; it can be
used in the zone of this node, or only on the node if it has no zone. Claims without a class get the default one. A
volume that was made is deleted with its claim, unless its class retains it. Source: kubernetes
pkg/controller/volume/persistentvolume/pv_controller.go.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from deviceshare.model import HOSTNAME, StorageClassFact, VolumeClaimFact
from deviceshare.objects import BIND_COMPLETED, SELECTED_NODE, decode_storage_class, decode_volume, decode_volume_claim
from deviceshare_cluster.changes import BOUND_BY_CONTROLLER, merged, reservation
from deviceshare_cluster.interface import Object

CLAIM, VOLUME, CLASS, NODE = "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "Node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
"""The annotation of a volume that was made for a claim, with its provisioner."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_ZONE = "topology.kubernetes.io/zone"
MAX_DELETED = 10_000
"""Deleted claims that are remembered: their volumes are released."""


class Patch(NamedTuple):
    """Merge a patch (RFC 7386) into an object at this revision."""

    kind: str
    namespace: str
    name: str
    revision: str
    body: Object


class Create(NamedTuple):
    """Create an object unless it exists."""

    obj: Object


class Remove(NamedTuple):
    """Delete a PersistentVolume."""

    name: str


Action = Patch | Create | Remove
Name = tuple[str, str]


class VolumeRules:
    """The objects, and what is to be done for each claim and volume, in order. Once it is done, there is nothing.

    An action that is not possible any more ends those of its object: a change of it is on its way.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[Name, Object]] = {CLAIM: {}, VOLUME: {}, CLASS: {}, NODE: {}}
        """By kind, and by namespace and name."""
        self._deleted: dict[str, None] = {}
        """The uids of deleted claims, the latest last."""
        self._reserved: dict[Name, set[str]] = {}
        """By claim the volumes that name it."""
        self.dirty: dict[tuple[str, Name], None] = {}
        """Claims and volumes for which something may have to be done."""

    def put(self, kind: str, namespace: str, name: str, obj: Object | None) -> None:
        """Apply an object, None if it is gone."""
        key = (namespace, name)
        before = self.objects[kind].pop(key, None)
        if obj is not None:
            self.objects[kind][key] = obj
        if kind == CLAIM and before is not None and (obj is None or _uid(obj) != _uid(before)):
            self._deleted[_uid(before)] = None
            if len(self._deleted) > MAX_DELETED:
                del self._deleted[next(iter(self._deleted))]
        match kind:
            case "PersistentVolumeClaim":
                self.dirty |= dict.fromkeys((VOLUME, ("", volume)) for volume in self._reserved.get(key, ()))
            case "PersistentVolume":
                for each, add in ((before, False), (obj, True)):
                    self._index(name, each, add=add)
                if obj is not None and obj["spec"].get("claimRef") is None:
                    self._claims_dirty(obj["spec"].get("storageClassName"))
            case "StorageClass":
                self._claims_dirty(name)
        if kind in (CLAIM, VOLUME) and obj is not None:
            self.dirty[kind, key] = None

    def _index(self, name: str, volume: Object | None, *, add: bool) -> None:
        claim = _claim_of(volume) if volume is not None else None
        if claim is None:
            return
        self.dirty[CLAIM, claim] = None
        if add:
            self._reserved.setdefault(claim, set()).add(name)
        elif claim in self._reserved:
            self._reserved[claim].discard(name)
            if not self._reserved[claim]:
                del self._reserved[claim]

    def _claims_dirty(self, of_class: str | None) -> None:
        """Look again at the claims of a class that have no volume, and at those without a class."""
        for key, claim in self.objects[CLAIM].items():
            if not claim["spec"].get("volumeName") and claim["spec"].get("storageClassName") in (None, "", of_class):
                self.dirty[CLAIM, key] = None

    def all_dirty(self) -> None:
        """Look at all claims and volumes again."""
        self.dirty = {(kind, key): None for kind in (CLAIM, VOLUME) for key in self.objects[kind]}

    def take(self) -> list[tuple[str, Name]]:
        """Return the claims and volumes for which something may have to be done; see :meth:`actions`."""
        dirty, self.dirty = list(self.dirty), {}
        return dirty

    def actions(self, kind: str, key: Name) -> list[Action]:
        """Return what is to be done for a claim or a volume; the caller puts the objects that change by it.

        Raises LookupError, TypeError, ValueError: an object has an unexpected form.
        """
        obj = self.objects[kind].get(key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return []
        return list(self._of_claim(obj) if kind == CLAIM else self._of_volume(obj))

    def _of_volume(self, volume: Object) -> Iterator[Action]:
        reference = volume["spec"].get("claimRef")
        if reference is None:
            yield from _patch(volume, {"status": {"phase": "Available"}})
            return
        claim = self.objects[CLAIM].get(_claim_of(volume) or ("", ""))
        uid = reference.get("uid", "")
        if claim is not None and uid in ("", _uid(claim)):
            yield from self._of_claim(claim)
            if claim["spec"].get("volumeName", "") not in ("", volume["metadata"]["name"]) and not uid:
                yield from _patch(volume, {"status": {"phase": "Available"}})
        elif uid in self._deleted:
            if (volume["spec"].get("persistentVolumeReclaimPolicy")) == "Delete" and _annotation(
                volume, PROVISIONED_BY
            ):
                yield Remove(volume["metadata"]["name"])
            else:
                yield from _patch(volume, {"status": {"phase": "Released"}})
        elif not uid:
            yield from _patch(volume, {"status": {"phase": "Available"}})

    def _of_claim(self, claim: Object) -> Iterator[Action]:
        named = claim["spec"].get("volumeName")
        if named:
            volume = self.objects[VOLUME].get(("", named))
            if volume is not None and (volume["spec"].get("claimRef") is None or _refers(volume, claim)):
                yield from _bind(claim, volume)
            return
        names = sorted(self._reserved.get((claim["metadata"]["namespace"], claim["metadata"]["name"]), ()))
        reserved = [volume for name in names if _refers(volume := self.objects[VOLUME]["", name], claim)]
        if reserved:
            yield from _bind(claim, reserved[0])
            return
        yield from _patch(claim, {"status": {"phase": "Pending"}})
        if claim["spec"].get("storageClassName") is None and not _annotation(claim, _BETA_CLASS):
            defaults = [
                name for (_, name), each in self.objects[CLASS].items() if _annotation(each, DEFAULT_CLASS) == "true"
            ]
            if defaults:
                yield from _patch(claim, {"spec": {"storageClassName": min(defaults)}})
                return
        fact = decode_volume_claim(json.dumps(claim).encode())
        raw = self.objects[CLASS].get(("", fact.storage_class))
        of_class = decode_storage_class(json.dumps(raw).encode()) if raw is not None else None
        if of_class is None or not of_class.waits:
            found = self._matching(fact)
            if found is not None:
                yield from _bind(claim, found)
                return
        if of_class is not None and raw is not None and of_class.provisions:
            yield from self._provision(claim, fact, raw, of_class)

    def _matching(self, claim: VolumeClaimFact) -> Object | None:
        """Return the smallest volume that an Immediate claim can have, None if there is none."""
        found: list[tuple[int, str, Object]] = []
        for (_, name), obj in self.objects[VOLUME].items():
            volume = decode_volume(json.dumps(obj).encode())
            if volume.matches(claim) and not volume.claim:
                found.append((volume.capacity, name, obj))
        return min(found, key=lambda each: each[:2])[2] if found else None

    def _provision(
        self, claim: Object, fact: VolumeClaimFact, raw: Object, of_class: StorageClassFact
    ) -> Iterator[Action]:
        """Make a volume for a claim of a class, on the selected node if the claim waits for one."""
        node = None
        if of_class.waits:
            if not fact.selected_node:
                return
            node = self.objects[NODE].get(("", fact.selected_node))
            if node is None or not _allows(of_class, node):
                # The provisioner gives up: the scheduler has to select another node.
                yield from _patch(claim, {"metadata": {"annotations": {SELECTED_NODE: None}}})
                return
        yield Create(new_volume(claim, raw, node))


def new_volume(claim: Object, storage_class: Object, node: Object | None) -> Object:
    """Return the volume that a provisioner makes for a claim; ``node``: the one that is selected for it."""
    name, metadata, spec = f"pvc-{_uid(claim)}", claim["metadata"], claim["spec"]
    reference = {"apiVersion": "v1", "kind": CLAIM} | {key: metadata[key] for key in ("namespace", "name", "uid")}
    found: dict[str, Any] = {
        "accessModes": spec["accessModes"],
        "capacity": {"storage": spec["resources"]["requests"]["storage"]},
        "storageClassName": storage_class["metadata"]["name"],
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "volumeMode": spec.get("volumeMode") or "Filesystem",
        "csi": {"driver": storage_class["provisioner"], "volumeHandle": name},
        "claimRef": reference,
    }
    labels = (node["metadata"].get("labels") or {}) if node is not None else {}
    for key in (_ZONE, HOSTNAME):
        if key in labels:
            there = {"matchExpressions": [{"key": key, "operator": "In", "values": [labels[key]]}]}
            found["nodeAffinity"] = {"required": {"nodeSelectorTerms": [there]}}
            break
    annotations = {PROVISIONED_BY: storage_class["provisioner"]}
    return {"apiVersion": "v1", "kind": VOLUME, "metadata": {"name": name, "annotations": annotations}, "spec": found}


def _bind(claim: Object, volume: Object) -> Iterator[Patch]:
    """Bind a claim and a volume to each other: the volume first, as far as it is not done."""
    if volume["metadata"].get("deletionTimestamp"):
        return
    metadata, spec = claim["metadata"], volume["spec"]
    reserved = reservation(volume, metadata["namespace"], metadata["name"], _uid(claim)) or {}
    yield from _patch(volume, reserved | {"status": {"phase": "Bound"}})
    annotations = {BIND_COMPLETED: "yes"}
    if not claim["spec"].get("volumeName"):
        annotations[BOUND_BY_CONTROLLER] = "yes"
    status = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": spec.get("capacity") or {}}
    named = {"volumeName": volume["metadata"]["name"]}
    yield from _patch(claim, {"metadata": {"annotations": annotations}, "spec": named, "status": status})


def _patch(obj: Object, body: Object) -> Iterator[Patch]:
    """Yield a patch of an object unless it changes nothing."""
    if merged(obj, body) != obj and not _is_empty_removal(obj, body):
        metadata = obj["metadata"]
        yield Patch(obj["kind"], metadata.get("namespace", ""), metadata["name"], metadata["resourceVersion"], body)


def _is_empty_removal(obj: Object, body: Object) -> bool:
    """Return whether a patch only removes an annotation that is not there."""
    removed = (body.get("metadata") or {}).get("annotations") or {}
    return body.keys() == {"metadata"} and all(
        value is None and not _annotation(obj, name) for name, value in removed.items()
    )


def _allows(of_class: StorageClassFact, node: Object) -> bool:
    """Return whether volumes of a class can be made on a node."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    terms = of_class.topologies
    return not terms or any(term and all(labels.get(each.key) in each.values for each in term) for term in terms)


def _refers(volume: Object, claim: Object) -> bool:
    """Return whether a volume is reserved for a claim."""
    if _claim_of(volume) != (claim["metadata"]["namespace"], claim["metadata"]["name"]):
        return False
    return volume["spec"]["claimRef"].get("uid", "") in ("", _uid(claim))


def _claim_of(volume: Object) -> Name | None:
    reference = volume["spec"].get("claimRef")
    return None if reference is None else (reference.get("namespace") or "default", reference.get("name") or "")


def _uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def _annotation(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(name) or "")
