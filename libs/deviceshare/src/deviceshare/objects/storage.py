"""PersistentVolumeClaims and PersistentVolumes, ``v1``; StorageClasses and CSINodes, ``storage.k8s.io/v1``."""

from collections.abc import Mapping
from math import ceil

import msgspec

from deviceshare.model import (
    LARGEST,
    NodeTerms,
    Requirement,
    StorageClassFact,
    VolumeClaimFact,
    VolumeFact,
    VolumeLimitsFact,
    limited,
    parse_quantity,
)
from deviceshare.objects.affinity import selector_terms
from deviceshare.objects.bounds import MAX_MODES, cut, has_many_texts
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.metadata import bounded_annotations
from deviceshare.objects.pod_topology import label_selector
from deviceshare.objects.problems import Problems
from deviceshare.objects.storage_views import ClaimObject, ClaimSpec, CsiNodeObject, StorageClassObject, VolumeObject
from deviceshare.objects.storage_views import VolumeSpec as VolumeSpecView
from deviceshare.objects.views import Quantities

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation by which a scheduler requests a volume for a claim on a node."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""The annotation of a claim whose binding to its volume is complete."""
_CLASS = "volume.beta.kubernetes.io/storage-class"
"""The annotation that takes precedence over ``spec.storageClassName``."""
_BLOCK, _LOST, _AVAILABLE, _WAITS = "Block", "Lost", "Available", "WaitForFirstConsumer"
_NO_VOLUME = (Requirement("", "In", ()),)
"""A selector that matches no labels."""
_CLAIM = msgspec.json.Decoder(ClaimObject)
_VOLUME = msgspec.json.Decoder(VolumeObject)
_STORAGE_CLASS = msgspec.json.Decoder(StorageClassObject)
_CSI_NODE = msgspec.json.Decoder(CsiNodeObject)


def decode_volume_claim(raw: bytes) -> VolumeClaimFact:
    """Decode a PersistentVolumeClaim in JSON. Raises FormatError: it has no name."""
    view, found = decode_view(raw, _CLAIM, "PersistentVolumeClaim")
    metadata, spec = view.metadata, view.spec or ClaimSpec()
    key = f"{metadata.namespace or 'default'}/{metadata.name or ''}"
    problems = Problems(f"PersistentVolumeClaim {key}", found)
    annotations = bounded_annotations(metadata.annotations, (_CLASS, SELECTED_NODE), problems)
    too_large = has_many_texts(spec.selector, "spec.selector", problems)
    owners = [each.uid or "" for each in metadata.owner_references or () if each.controller]
    requests = spec.resources.requests if spec.resources is not None else None
    return VolumeClaimFact(
        revision=metadata.resource_version or "",
        key=key,
        uid=metadata.uid or "",
        owner=owners[0] if owners else "",
        storage_class=_storage_class(annotations, spec.storage_class_name),
        volume=spec.volume_name or "",
        bound=bool(spec.volume_name) and BIND_COMPLETED in annotations,
        lost=view.status is not None and view.status.phase == _LOST,
        terminating=bool(metadata.deletion_timestamp),
        requested=_storage(requests, "spec.resources.requests", problems),
        access_modes=_access_modes(spec.access_modes, problems),
        block=spec.volume_mode == _BLOCK,
        selector=_NO_VOLUME if too_large else label_selector(spec.selector, "spec.selector", problems),
        selected_node=annotations.get(SELECTED_NODE, ""),
        problems=limited(found),
    )


def decode_volume(raw: bytes) -> VolumeFact:
    """Decode a PersistentVolume in JSON. Raises FormatError: it has no name."""
    view, found = decode_view(raw, _VOLUME, "PersistentVolume")
    metadata, spec = view.metadata, view.spec or VolumeSpecView()
    problems = Problems(f"PersistentVolume {metadata.name}", found)
    claim = spec.claim_ref
    return VolumeFact(
        revision=metadata.resource_version or "",
        name=metadata.name or "",
        storage_class=_storage_class(metadata.annotations or {}, spec.storage_class_name),
        available=view.status is not None and view.status.phase == _AVAILABLE,
        terminating=bool(metadata.deletion_timestamp),
        claim=f"{claim.namespace or 'default'}/{claim.name or ''}" if claim is not None else "",
        claim_uid=claim.uid or "" if claim is not None else "",
        capacity=_storage(spec.capacity, "spec.capacity", problems),
        access_modes=_access_modes(spec.access_modes, problems),
        block=spec.volume_mode == _BLOCK,
        labels=tuple(sorted((metadata.labels or {}).items())),
        node_terms=_node_terms(spec, problems),
        driver=spec.csi.driver or "" if spec.csi is not None else "",
        handle=spec.csi.volume_handle or "" if spec.csi is not None else "",
        problems=limited(found),
    )


def decode_storage_class(raw: bytes) -> StorageClassFact:
    """Decode a StorageClass in JSON. Raises FormatError: it has no name."""
    view, found = decode_view(raw, _STORAGE_CLASS, "StorageClass")
    return StorageClassFact(
        revision=view.metadata.resource_version or "",
        name=view.metadata.name or "",
        provisioner=view.provisioner or "",
        waits=view.volume_binding_mode == _WAITS,
        topologies=tuple(
            tuple(
                Requirement(each.key or "", "In", tuple(each.values or ()))
                for each in term.match_label_expressions or ()
            )
            for term in view.allowed_topologies or ()
        ),
        problems=limited(found),
    )


def decode_volume_limits(raw: bytes) -> VolumeLimitsFact:
    """Decode a CSINode in JSON. Raises FormatError: it has no name."""
    view, found = decode_view(raw, _CSI_NODE, "CSINode")
    drivers = (view.spec.drivers if view.spec is not None else None) or ()
    limits = {
        each.name: each.allocatable.count
        for each in drivers
        if each.name and each.allocatable is not None and each.allocatable.count is not None
    }
    return VolumeLimitsFact(
        revision=view.metadata.resource_version or "",
        name=view.metadata.name or "",
        drivers=tuple(sorted(limits.items())),
        problems=limited(found),
    )


def _storage_class(annotations: Mapping[str, str], name: str | None) -> str:
    return annotations.get(_CLASS, name or "")


def _access_modes(modes: list[str] | None, problems: Problems) -> tuple[str, ...]:
    return tuple(sorted(set(cut(modes or [], MAX_MODES, "spec.accessModes", problems))))


def _storage(amounts: Quantities | None, field: str, problems: Problems) -> int:
    """Return an amount of storage in bytes, at most LARGEST; 0, and a problem, if it is invalid."""
    given = (amounts or {}).get("storage", 0)
    try:
        exact = parse_quantity(given)
    except ValueError:
        problems.add(f"{field}[storage]", str(given), "an amount of bytes such as 10Gi")
        return 0
    return min(max(0, ceil(exact)), LARGEST)


def _node_terms(spec: VolumeSpecView, problems: Problems) -> NodeTerms | None:
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    if required is None:
        return None
    return selector_terms(required, "spec.nodeAffinity.required.nodeSelectorTerms", problems)
