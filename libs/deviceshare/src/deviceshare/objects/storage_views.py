"""The fields of PersistentVolumeClaims, PersistentVolumes, StorageClasses and CSINodes that facts are decoded from.

As in :mod:`.views`, every field may be missing or null.
"""

from deviceshare.objects.pod_views import ResourceRequirements
from deviceshare.objects.views import (
    Int32,
    LabelSelector,
    NodeSelector,
    Object,
    OwnedMetadata,
    Quantities,
    Status,
    View,
)


class ClaimSpec(View):
    """``spec`` of a PersistentVolumeClaim."""

    access_modes: list[str] | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str | None = None


class ClaimObject(Object):
    """A PersistentVolumeClaim."""

    metadata: OwnedMetadata
    spec: ClaimSpec | None = None
    status: Status | None = None


class ClaimReference(View):
    """``spec.claimRef`` of a PersistentVolume."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class CsiSource(View):
    """``spec.csi`` of a PersistentVolume."""

    driver: str | None = None
    volume_handle: str | None = None


class VolumeNodeAffinity(View):
    """``spec.nodeAffinity`` of a PersistentVolume."""

    required: NodeSelector | None = None


class VolumeSpec(View):
    """``spec`` of a PersistentVolume."""

    access_modes: list[str] | None = None
    capacity: Quantities | None = None
    claim_ref: ClaimReference | None = None
    csi: CsiSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None


class VolumeObject(Object):
    """A PersistentVolume."""

    spec: VolumeSpec | None = None
    status: Status | None = None


class TopologyRequirement(View):
    """``allowedTopologies[].matchLabelExpressions[]``."""

    key: str | None = None
    values: list[str] | None = None


class TopologyTerm(View):
    """``allowedTopologies[]``."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClassObject(Object):
    """A StorageClass."""

    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverLimit(View):
    """``spec.drivers[].allocatable`` of a CSINode."""

    count: Int32 | None = None


class CsiDriver(View):
    """``spec.drivers[]`` of a CSINode."""

    name: str | None = None
    allocatable: DriverLimit | None = None


class CsiNodeSpec(View):
    """``spec`` of a CSINode."""

    drivers: list[CsiDriver] | None = None


class CsiNodeObject(Object):
    """A CSINode."""

    spec: CsiNodeSpec | None = None
