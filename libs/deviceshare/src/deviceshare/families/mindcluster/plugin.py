"""How MindCluster's ascend-device-plugin chooses the pod for a request of kubelet.

Among the active pods of its node with as many AI cores as kubelet requests, it chooses the one with the smallest
``predicate-time`` and makes it the youngest. It writes the devices that it made later, as ``huawei.com/AscendReal``.
Source: ascend-device-plugin, pkg/server/plugin.go (doWithVolcanoSchedule), pkg/common/common.go.
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import SERVED_TIME, DevicePlugin
from deviceshare.families.mindcluster import wire
from deviceshare.model import INIT, ContainerGrant


class MindClusterPlugin(DevicePlugin):
    """The plugin of the family ``mindcluster``."""

    name = "MindCluster's Ascend device plugin"
    passing = frozenset({wire.PREDICATE_TIME})

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the AI cores of the pod, and of each container, as kubelet requests them."""
        each = [sum(device.cores for device in grant.devices) for grant in grants]
        # An init container shares its AI cores with the containers that start after it.
        total = sum(cores for cores, grant in zip(each, grants, strict=True) if grant.stage != INIT)
        return tuple(f"{cores} {wire.CORES}" for cores in sorted({*each, total} - {0}))

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the plugin has made the pod the youngest, or has written its devices."""
        return annotations.get(wire.PREDICATE_TIME, SERVED_TIME) == SERVED_TIME or bool(wire.read_real(annotations))

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Make the pod the youngest and write its devices, a part as one of the chip's first group."""
        given = annotations.get(wire.CORES, "")
        if not given or self.served(annotations):
            return {}
        chips, template = wire.read_given(given, "")
        part = wire.TEMPLATES.get(template, wire.WHOLE)
        kind = f"{wire.KIND}-{part.cores}c.{part.cpus}cpu-100"
        made = [f"{kind}-{chip}_0" if template else wire.chip_id(chip) for chip in chips]
        return {wire.PREDICATE_TIME: SERVED_TIME, wire.REAL: ",".join(made)}

    def difference(self, annotations: Mapping[str, str], grants: Sequence[ContainerGrant]) -> str:
        """Compare the chips of the devices that the plugin reports with those that the pod holds."""
        reported = wire.chips_of(annotations.get(wire.REAL, ""))
        if not reported:
            return super().difference(annotations, grants)
        held = {device.index for grant in grants for device in grant.devices}
        if reported <= held:
            return ""
        names = [", ".join(wire.chip_id(chip) for chip in sorted(chips)) for chips in (reported, held)]
        return f"its containers have devices of {names[0]}, and it holds {names[1]}"
