"""ConfigMaps in which a component of the cluster says what the devices of nodes are like.

Where a device plugin writes what it knows onto the Node itself there is nothing here.
"""

import msgspec

from deviceshare.formats import mindcluster
from deviceshare.formats.mindcluster import DevicesByNode
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import ConfigMapObject

describes_devices = mindcluster.describes_devices

_DECODER = msgspec.json.Decoder(ConfigMapObject)


def decode_device_info(raw: bytes) -> DevicesByNode:
    """Return what a ConfigMap given as JSON, of which ``tells_of_devices`` is true, says of the devices of nodes.

    Raises:
        FormatError: where nothing of it can be read.
    """
    view, problems = decode_view(raw, _DECODER, "ConfigMap")
    metadata = view.metadata
    found = mindcluster.read_devices(
        metadata.namespace or "", metadata.name or "", metadata.labels or {}, view.data or {}
    )
    return found._replace(problems=(*problems, *found.problems))
