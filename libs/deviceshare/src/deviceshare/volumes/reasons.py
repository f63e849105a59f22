"""Why volumes keep a pod away from some nodes, or from all."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]


class VolumeReason(NamedTuple):
    """A reason that excludes nodes; ``code`` is stable, ``text`` is kube-scheduler's."""

    code: str
    text: str


DISK_CONFLICT = VolumeReason("DiskConflict", "node(s) had no available disk")
IN_USE = VolumeReason(
    "VolumeInUse",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)
TOO_MANY = VolumeReason("VolumeLimitExceeded", "node(s) exceed max volume count")
NODE_CONFLICT = VolumeReason("VolumeNodeConflict", "node(s) didn't match PersistentVolume's node affinity")
NO_VOLUME = VolumeReason("NoVolumeToBind", "node(s) didn't find available persistent volumes to bind")
VOLUME_GONE = VolumeReason(
    "VolumeNotFound", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)
ZONE_CONFLICT = VolumeReason("VolumeZoneConflict", "node(s) had no available volume zone")


class Excluded(NamedTuple):
    """Nodes (bool[rows]) that are excluded for one reason."""

    reason: VolumeReason
    nodes: Bools


class Rejection(NamedTuple):
    """Why no node is feasible until an object changes; ``error``: kube-scheduler takes it for an error."""

    text: str
    error: bool = False


def claim_not_found(name: str) -> str:
    """Return the text about a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def not_owner(claim: str, pod: str) -> str:
    """Return the text about the claim of an ephemeral volume that another object owns."""
    return f"PVC {claim} was not created for pod {pod} (pod is not owner)"
