"""Decoding of Kubernetes objects into typed facts, one module per kind. Invalid parts become ``problems``.

:mod:`.kinds` has the table of all kinds that are watched.
"""

from typing import TYPE_CHECKING

from deviceshare.lazy_imports import importing

if TYPE_CHECKING:
    from deviceshare.objects.decoders import DECODERS, decode_namespace, decode_priority_class
    from deviceshare.objects.device_info import decode_device_info, describes_devices
    from deviceshare.objects.disruption_budget import decode_disruption_budget
    from deviceshare.objects.held import held_by_any_reading
    from deviceshare.objects.kinds import DEVICE_KINDS, KINDS, STORAGE_KINDS, Kind
    from deviceshare.objects.lenient import decode_view, repair
    from deviceshare.objects.node import decode_node
    from deviceshare.objects.pod import decode_pod
    from deviceshare.objects.pod_devices import decode_device_claims
    from deviceshare.objects.pod_request import requests_devices
    from deviceshare.objects.podgroup import decode_podgroup
    from deviceshare.objects.queue import decode_queue
    from deviceshare.objects.storage import (
        BIND_COMPLETED,
        SELECTED_NODE,
        decode_storage_class,
        decode_volume,
        decode_volume_claim,
        decode_volume_limits,
    )
    from deviceshare.objects.unserved import as_counted
    from deviceshare.objects.views import ConfigMapObject
else:
    __getattr__ = importing(
        __name__,
        {
            "device_info": "decode_device_info describes_devices",
            "disruption_budget": "decode_disruption_budget",
            "held": "held_by_any_reading",
            "decoders": "DECODERS decode_namespace decode_priority_class",
            "kinds": "DEVICE_KINDS KINDS STORAGE_KINDS Kind",
            "lenient": "decode_view repair",
            "node": "decode_node",
            "pod": "decode_pod",
            "pod_devices": "decode_device_claims",
            "pod_request": "requests_devices",
            "podgroup": "decode_podgroup",
            "queue": "decode_queue",
            "storage": "BIND_COMPLETED SELECTED_NODE decode_storage_class decode_volume decode_volume_claim "
            "decode_volume_limits",
            "unserved": "as_counted",
            "views": "ConfigMapObject",
        },
    )

__all__ = [
    "BIND_COMPLETED",
    "DECODERS",
    "DEVICE_KINDS",
    "KINDS",
    "SELECTED_NODE",
    "STORAGE_KINDS",
    "ConfigMapObject",
    "Kind",
    "as_counted",
    "decode_device_claims",
    "decode_device_info",
    "decode_disruption_budget",
    "decode_namespace",
    "decode_node",
    "decode_pod",
    "decode_podgroup",
    "decode_priority_class",
    "decode_queue",
    "decode_storage_class",
    "decode_view",
    "decode_volume",
    "decode_volume_claim",
    "decode_volume_limits",
    "describes_devices",
    "held_by_any_reading",
    "repair",
    "requests_devices",
]
