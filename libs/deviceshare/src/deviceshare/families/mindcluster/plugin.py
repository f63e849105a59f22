"""How MindCluster's ascend-device-plugin finds the pod that kubelet asks for. Source: its pkg/server/plugin.go
(doWithVolcanoSchedule), pkg/common/common.go.

Of the pods that live on its node it takes the one with the smallest ``predicate-time`` that was given as many AI cores
as kubelet asks, and makes it the youngest. What it made of a chip it writes later, as ``huawei.com/AscendReal``.
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import SERVED_TIME, DevicePlugin
from deviceshare.formats import mindcluster as wire
from deviceshare.model import INIT, ContainerGrant


class MindClusterPlugin(DevicePlugin):
    """The plugin of the family ``mindcluster``."""

    name = "MindCluster's Ascend device plugin"
    passing = frozenset({wire.PREDICATE_TIME})

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the AI cores that the pod was given, and those of each container, as kubelet asks."""
        each = [sum(device.cores for device in grant.devices) for grant in grants]
        # An init container has what the others have after it.
        total = sum(cores for cores, grant in zip(each, grants, strict=True) if grant.stage != INIT)
        return tuple(f"{cores} {wire.CORES}" for cores in sorted({*each, total} - {0}))

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the pod was made the youngest, or its devices are told."""
        return annotations.get(wire.PREDICATE_TIME, SERVED_TIME) == SERVED_TIME or bool(wire.read_real(annotations))

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Make the pod the youngest and tell its devices, a part as one of the chip's first group."""
        given = annotations.get(wire.CORES, "")
        if not given or self.served(annotations):
            return {}
        chips, template = wire.read_given(given, "")
        part = wire.TEMPLATES.get(template, wire.WHOLE)
        kind = f"{wire.KIND}-{part.cores}c.{part.cpus}cpu-100"
        made = [f"{kind}-{chip}_0" if template else wire.chip_id(chip) for chip in chips]
        return {wire.PREDICATE_TIME: SERVED_TIME, wire.REAL: ",".join(made)}
