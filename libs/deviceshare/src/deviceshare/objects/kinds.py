"""The kinds of objects that inventory watches, in one table. Their decoders are in :mod:`.decoders`.

From the table follow the paths of the API, the watch, the subjects on the bus, and which kinds ``check`` and a
simulation read; tests compare the permissions of inventory with it. A kind that only has to be watched is a row
here, its decoder, a fact in ``AnyFact``, and its permission in the chart.
"""

from typing import NamedTuple, get_args

from deviceshare.model import (
    ConfigFact,
    DeviceClaimFact,
    DeviceClassFact,
    DeviceSliceFact,
    DeviceTaintRuleFact,
    Fact,
    NamespaceFact,
    NodeFact,
    PodDisruptionBudgetFact,
    PodFact,
    PodGroupFact,
    PriorityClassFact,
    QueueFact,
    StorageClassFact,
    StorageFact,
    VolumeClaimFact,
    VolumeFact,
    VolumeLimitsFact,
)


class Kind(NamedTuple):
    """A kind of objects: its group and version (``v1``, ``storage.k8s.io/v1``), its plural, and its facts."""

    version: str
    plural: str
    namespaced: bool
    fact: type[Fact]
    optional: bool = False
    """Whether its CRD, or in an old cluster its version, may be missing; the cluster then has no such objects."""
    status_apart: bool = True
    """Whether its status is a subresource."""
    older: tuple[str, ...] = ()
    """The versions that a server may have instead, newest first, with the same content."""


_STORAGE, _VOLCANO = "storage.k8s.io/v1", "scheduling.volcano.sh/v1beta1"
_DEVICES = "resource.k8s.io/v1"
KINDS = {
    "Node": Kind("v1", "nodes", False, NodeFact),
    "Pod": Kind("v1", "pods", True, PodFact),
    "PodGroup": Kind(_VOLCANO, "podgroups", True, PodGroupFact, optional=True, status_apart=False),
    "Queue": Kind(_VOLCANO, "queues", False, QueueFact, optional=True),
    "PriorityClass": Kind("scheduling.k8s.io/v1", "priorityclasses", False, PriorityClassFact),
    "PodDisruptionBudget": Kind("policy/v1", "poddisruptionbudgets", True, PodDisruptionBudgetFact),
    "Namespace": Kind("v1", "namespaces", False, NamespaceFact),
    "ConfigMap": Kind("v1", "configmaps", True, ConfigFact),
    "StorageClass": Kind(_STORAGE, "storageclasses", False, StorageClassFact, status_apart=False),
    "PersistentVolume": Kind("v1", "persistentvolumes", False, VolumeFact),
    "PersistentVolumeClaim": Kind("v1", "persistentvolumeclaims", True, VolumeClaimFact),
    "CSINode": Kind(_STORAGE, "csinodes", False, VolumeLimitsFact, status_apart=False),
}
"""The kinds that inventory watches, by name, in the order in which they are shown."""

STORAGE_KINDS = tuple(name for name, kind in KINDS.items() if kind.fact in get_args(StorageFact))
"""The kinds that are on CLUSTER only where they concern pods."""
DEVICE_KINDS = {
    "DeviceClass": Kind(_DEVICES, "deviceclasses", False, DeviceClassFact, optional=True, status_apart=False),
    "DeviceTaintRule": Kind(
        _DEVICES,
        "devicetaintrules",
        False,
        DeviceTaintRuleFact,
        optional=True,
        older=("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"),
    ),
    "ResourceSlice": Kind(_DEVICES, "resourceslices", False, DeviceSliceFact, optional=True, status_apart=False),
    "ResourceClaim": Kind(_DEVICES, "resourceclaims", True, DeviceClaimFact, optional=True),
}
"""The kinds that inventory watches once a pod uses a ResourceClaim."""
