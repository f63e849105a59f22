"""ConfigMaps with the devices of nodes, for device plugins that do not write them on the Node."""

import msgspec

from deviceshare.families import FAMILIES, DevicesByNode
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import ConfigMapObject

_DECODER = msgspec.json.Decoder(ConfigMapObject)


def describes_devices(namespace: str, name: str) -> bool:
    """Return whether a device family reads the devices of nodes in a ConfigMap."""
    return any(family.describes_devices(namespace, name) for family in FAMILIES)


def decode_device_info(raw: bytes) -> DevicesByNode:
    """Decode a ConfigMap in JSON for which :func:`describes_devices` is true.

    Raises:
        FormatError: the ConfigMap as a whole is malformed.
    """
    view, problems = decode_view(raw, _DECODER, "ConfigMap")
    namespace, name = view.metadata.namespace or "", view.metadata.name or ""
    family = next(family for family in FAMILIES if family.describes_devices(namespace, name))
    found = family.read_devices(namespace, name, view.metadata.labels or {}, view.data or {})
    return found._replace(problems=(*problems, *found.problems))
