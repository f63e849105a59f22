"""The kinds of objects that inventory watches, in one table, and the decoders of those with few fields.

From the table follow the paths of the API, the watch, the subjects on the bus, and which kinds ``check`` and a
simulation read; tests compare the permissions of inventory with it. A kind that only has to be watched is a row here, a
fact in ``AnyFact``, and its permission in the chart.
"""

from collections.abc import Callable
from typing import NamedTuple, get_args

import msgspec

from deviceshare.model import (
    ConfigFact,
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
    limited,
)
from deviceshare.objects.disruption_budget import decode_disruption_budget
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.metadata import bounded_labels
from deviceshare.objects.pod import decode_pod
from deviceshare.objects.podgroup import decode_podgroup
from deviceshare.objects.problems import Problems
from deviceshare.objects.queue import decode_queue
from deviceshare.objects.storage import (
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
    decode_volume_limits,
)
from deviceshare.objects.views import Int32, Object


class PriorityClassObject(Object):
    """A PriorityClass, ``scheduling.k8s.io/v1``."""

    value: Int32 | None = None
    global_default: bool | None = None


_PRIORITY_CLASS = msgspec.json.Decoder(PriorityClassObject)
_NAMESPACE = msgspec.json.Decoder(Object)


def decode_priority_class(raw: bytes) -> PriorityClassFact:
    """Decode a PriorityClass in JSON; an invalid value is 0 and a problem.

    Raises:
        FormatError: the object has no name.
    """
    view, problems = decode_view(raw, _PRIORITY_CLASS, "PriorityClass")
    return PriorityClassFact(
        revision=view.metadata.resource_version or "",
        name=view.metadata.name or "",
        value=view.value or 0,
        default=bool(view.global_default),
        problems=limited(problems),
    )


def decode_namespace(raw: bytes) -> NamespaceFact:
    """Decode a Namespace in JSON; labels that are not text are omitted, and a problem.

    Raises:
        FormatError: the object has no name.
    """
    view, problems = decode_view(raw, _NAMESPACE, "Namespace")
    labels = bounded_labels(view.metadata.labels, Problems(f"Namespace {view.metadata.name}", problems))
    return NamespaceFact(
        revision=view.metadata.resource_version or "",
        name=view.metadata.name or "",
        labels=tuple(sorted(labels.items())),
        problems=limited(problems),
    )


class Kind(NamedTuple):
    """A kind of objects: its group and version (``v1``, ``storage.k8s.io/v1``), its plural, and its facts.

    ``decode`` makes a fact of an object in JSON, None: the fact depends on other objects as well.
    """

    version: str
    plural: str
    namespaced: bool
    fact: type[Fact]
    decode: Callable[[bytes], Fact] | None = None
    optional: bool = False
    """Whether its CRD may be missing; the cluster then has no such objects."""
    status_apart: bool = True
    """Whether its status is a subresource."""


_STORAGE, _VOLCANO = "storage.k8s.io/v1", "scheduling.volcano.sh/v1beta1"
KINDS = {
    "Node": Kind("v1", "nodes", False, NodeFact),
    "Pod": Kind("v1", "pods", True, PodFact, decode_pod),
    "PodGroup": Kind(_VOLCANO, "podgroups", True, PodGroupFact, decode_podgroup, optional=True, status_apart=False),
    "Queue": Kind(_VOLCANO, "queues", False, QueueFact, decode_queue, optional=True),
    "PriorityClass": Kind("scheduling.k8s.io/v1", "priorityclasses", False, PriorityClassFact, decode_priority_class),
    "PodDisruptionBudget": Kind(
        "policy/v1", "poddisruptionbudgets", True, PodDisruptionBudgetFact, decode_disruption_budget
    ),
    "Namespace": Kind("v1", "namespaces", False, NamespaceFact, decode_namespace),
    "ConfigMap": Kind("v1", "configmaps", True, ConfigFact),
    "StorageClass": Kind(_STORAGE, "storageclasses", False, StorageClassFact, decode_storage_class, status_apart=False),
    "PersistentVolume": Kind("v1", "persistentvolumes", False, VolumeFact, decode_volume),
    "PersistentVolumeClaim": Kind("v1", "persistentvolumeclaims", True, VolumeClaimFact, decode_volume_claim),
    "CSINode": Kind(_STORAGE, "csinodes", False, VolumeLimitsFact, decode_volume_limits, status_apart=False),
}
"""The kinds that inventory watches, by name, in the order in which they are shown."""

STORAGE_KINDS = tuple(name for name, kind in KINDS.items() if kind.fact in get_args(StorageFact))
"""The kinds that are on CLUSTER only where they concern pods."""
DECODERS = {name: kind.decode for name, kind in KINDS.items() if kind.decode is not None}
"""The decoders of the kinds whose facts depend on no other objects."""
