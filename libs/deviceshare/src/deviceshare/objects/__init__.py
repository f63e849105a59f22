"""Decoding of Kubernetes objects into typed facts, one module per kind. Invalid parts become ``problems``.

:mod:`.kinds` has the table of all kinds that are watched.
"""

from typing import TYPE_CHECKING

from deviceshare.lazy_imports import importing

if TYPE_CHECKING:
    from deviceshare.objects.decoders import (
        DECODERS as DECODERS,
        decode_namespace as decode_namespace,
        decode_priority_class as decode_priority_class,
    )
    from deviceshare.objects.device_info import (
        decode_device_info as decode_device_info,
        describes_devices as describes_devices,
    )
    from deviceshare.objects.disruption_budget import decode_disruption_budget as decode_disruption_budget
    from deviceshare.objects.held import held_by_any_reading as held_by_any_reading
    from deviceshare.objects.kinds import (
        DEVICE_KINDS as DEVICE_KINDS,
        KINDS as KINDS,
        STORAGE_KINDS as STORAGE_KINDS,
    )
    from deviceshare.objects.lenient import decode_view as decode_view, repair as repair
    from deviceshare.objects.node import decode_node as decode_node
    from deviceshare.objects.pod import decode_pod as decode_pod
    from deviceshare.objects.pod_devices import decode_device_claims as decode_device_claims
    from deviceshare.objects.pod_request import requests_devices as requests_devices
    from deviceshare.objects.podgroup import decode_podgroup as decode_podgroup
    from deviceshare.objects.queue import decode_queue as decode_queue
    from deviceshare.objects.storage import (
        BIND_COMPLETED as BIND_COMPLETED,
        SELECTED_NODE as SELECTED_NODE,
        decode_storage_class as decode_storage_class,
        decode_volume as decode_volume,
        decode_volume_claim as decode_volume_claim,
        decode_volume_limits as decode_volume_limits,
    )
    from deviceshare.objects.unserved import as_counted as as_counted
    from deviceshare.objects.views import ConfigMapObject as ConfigMapObject
else:
    __getattr__ = importing(
        __name__,
        {
            "device_info": "decode_device_info describes_devices",
            "disruption_budget": "decode_disruption_budget",
            "held": "held_by_any_reading",
            "decoders": "DECODERS decode_namespace decode_priority_class",
            "kinds": "DEVICE_KINDS KINDS STORAGE_KINDS",
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
