"""Decoding of the volumes of pods that may bind them to nodes."""

from collections.abc import Iterable

from deviceshare.model import Disk, PodVolume
from deviceshare.objects.pod_views import Volume

_DEFAULT_POOL = "rbd"


def pod_volumes(views: Iterable[Volume]) -> tuple[PodVolume, ...]:
    """Return the volumes that need a PersistentVolumeClaim; one that names none is omitted: no API server has it."""
    found = []
    for view in views:
        claim = view.persistent_volume_claim.claim_name if view.persistent_volume_claim is not None else None
        if claim or (view.ephemeral is not None and view.persistent_volume_claim is None):
            found.append(PodVolume(view.name or "", claim or ""))
    return tuple(found)


def disks(views: Iterable[Volume]) -> tuple[Disk, ...]:
    """Return the disks that a pod names without a claim, and that pods on one node cannot always share.

    Source: isVolumeConflict of kubernetes pkg/scheduler/framework/plugins/volumerestrictions: EBS volumes are never
    shared; GCE disks, iSCSI and RBD only if all pods mount them read-only. RBD images are the same if they have a
    monitor in common.
    """
    found = []
    for view in views:
        if (gce := view.gce_persistent_disk) is not None:
            found.append(Disk((f"gce {gce.pd_name or ''}",), bool(gce.read_only)))
        if (ebs := view.aws_elastic_block_store) is not None:
            found.append(Disk((f"ebs {ebs.volume_id or ''}",)))
        if (iscsi := view.iscsi) is not None:
            found.append(Disk((f"iscsi {iscsi.iqn or ''}",), bool(iscsi.read_only)))
        if (rbd := view.rbd) is not None:
            image = f"{rbd.pool or _DEFAULT_POOL} {rbd.image or ''}"
            found.append(Disk(tuple(f"rbd {each} {image}" for each in rbd.monitors or ()), bool(rbd.read_only)))
    return tuple(found)
