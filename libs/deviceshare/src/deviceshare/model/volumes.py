"""The volumes of pods."""

from collections.abc import Iterable

import msgspec

VOLUMES = "spec.volumes"
"""The beginning of the fields of :attr:`PodRequest.unsupported <deviceshare.model.PodRequest.unsupported>` that name
volumes of :class:`PodVolume`."""


class PodVolume(msgspec.Struct, frozen=True, array_like=True):
    """A volume of a pod's spec that needs a PersistentVolumeClaim.

    ``claim`` is the name of the claim; '' for a generic ephemeral volume, whose claim is named after pod and volume.
    """

    name: str
    claim: str = ""


class Disk(msgspec.Struct, frozen=True, array_like=True):
    """A disk that a pod's spec names without a claim, of a kind that pods on one node cannot always share.

    Two disks are the same if they have one of their ``ids`` in common.
    """

    ids: tuple[str, ...]
    read_only: bool = False


# gc=False: there are many instances, and none can be part of a reference cycle.
class VolumeUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The use of a claim (``namespace/name``) by a pod.

    Of a generic ephemeral volume ``pod`` (``namespace/name``) and ``uid`` name the pod that has to own the claim.
    """

    claim: str
    pod: str = ""
    uid: str = ""

    @property
    def name(self) -> str:
        """The name of the claim without its namespace."""
        return self.claim.partition("/")[2]


class VolumeBinding(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What has to be done for an unbound claim (``namespace/name``) before its pod can run.

    Either it is bound to the PersistentVolume ``volume``, or a volume is made for it on ``node``, which is ''
    otherwise. ``uid`` is that of the claim, for which the decision was made.
    """

    claim: str
    uid: str
    volume: str = ""
    node: str = ""


def uses_of(volumes: Iterable[PodVolume], namespace: str, name: str, uid: str) -> tuple[VolumeUse, ...]:
    """Return the claims that volumes of a pod use; that of an ephemeral volume is named after pod and volume."""
    ref = f"{namespace}/{name}"
    return tuple(
        VolumeUse(f"{namespace}/{each.claim}") if each.claim else VolumeUse(f"{ref}-{each.name}", ref, uid)
        for each in volumes
    )
