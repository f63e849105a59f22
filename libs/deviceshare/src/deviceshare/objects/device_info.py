"""ConfigMaps with the devices of nodes, for device plugins that do not write them on the Node."""

import msgspec

from deviceshare.families.mindcluster.wire import DevicesByNode, read_devices
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import ConfigMapObject

_DECODER = msgspec.json.Decoder(ConfigMapObject)


def decode_device_info(raw: bytes) -> DevicesByNode:
    """Decode a ConfigMap in JSON for which :func:`deviceshare.families.mindcluster.wire.describes_devices` is true.

    Raises:
        FormatError: the ConfigMap as a whole is malformed.
    """
    view, problems = decode_view(raw, _DECODER, "ConfigMap")
    metadata = view.metadata
    found = read_devices(metadata.namespace or "", metadata.name or "", metadata.labels or {}, view.data or {})
    return found._replace(problems=(*problems, *found.problems))
