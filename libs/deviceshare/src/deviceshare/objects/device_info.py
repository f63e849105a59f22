"""ConfigMaps with the devices of nodes, for device plugins that do not write all of it on the Node."""

import msgspec

from deviceshare.formats import mindcluster
from deviceshare.formats.mindcluster import DevicesByNode
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import ConfigMapObject

describes_devices = mindcluster.describes_devices

_DECODER = msgspec.json.Decoder(ConfigMapObject)


def decode_device_info(raw: bytes) -> DevicesByNode:
    """Return the devices of nodes in a ConfigMap, given as JSON, for which ``describes_devices`` is true.

    Raises:
        FormatError: the whole ConfigMap is malformed.
    """
    view, problems = decode_view(raw, _DECODER, "ConfigMap")
    metadata = view.metadata
    found = mindcluster.read_devices(
        metadata.namespace or "", metadata.name or "", metadata.labels or {}, view.data or {}
    )
    return found._replace(problems=(*problems, *found.problems))
