"""The decoders of the kinds of objects, by kind, and those of kinds with few fields."""

from collections.abc import Callable, Mapping

import msgspec

from deviceshare.model import Fact, NamespaceFact, PriorityClassFact, limited
from deviceshare.objects.devices import (
    decode_device_claim,
    decode_device_class,
    decode_device_slice,
    decode_device_taint_rule,
)
from deviceshare.objects.disruption_budget import decode_disruption_budget
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.metadata import bounded_labels
from deviceshare.objects.pod import decode_pod
from deviceshare.objects.podgroup import decode_podgroup
from deviceshare.objects.problems import Problems
from deviceshare.objects.queue import decode_queue
from deviceshare.objects.storage import decode_storage_class, decode_volume, decode_volume_claim, decode_volume_limits
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


DECODERS: Mapping[str, Callable[[bytes], Fact]] = {
    "Pod": decode_pod,
    "PodGroup": decode_podgroup,
    "Queue": decode_queue,
    "PriorityClass": decode_priority_class,
    "PodDisruptionBudget": decode_disruption_budget,
    "Namespace": decode_namespace,
    "StorageClass": decode_storage_class,
    "PersistentVolume": decode_volume,
    "PersistentVolumeClaim": decode_volume_claim,
    "CSINode": decode_volume_limits,
    "DeviceClass": decode_device_class,
    "DeviceTaintRule": decode_device_taint_rule,
    "ResourceSlice": decode_device_slice,
    "ResourceClaim": decode_device_claim,
}
"""The decoders of the kinds whose facts depend on no other objects, in the order of the kinds."""
