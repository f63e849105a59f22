"""How volcano-vgpu-device-plugin chooses the pod for a request of kubelet.

Among all pods whose ``vgpu-node`` is its node, in any phase, it considers those with as many devices left to hand out,
over all containers, as kubelet requests for one container, and chooses the one with the smallest ``vgpu-time``. Source:
volcano-vgpu-device-plugin, pkg/util/util.go (GetPendingPod).
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import SERVED_TIME, DevicePlugin
from deviceshare.families.vgpu import wire
from deviceshare.model import ContainerGrant

_NAME_LENGTH = 253
"""Characters of the name of a node, as in Kubernetes."""


def _key(count: int) -> str:
    return f"{count} {'vGPU' if count == 1 else 'vGPUs'}"


class VgpuPlugin(DevicePlugin):
    """The plugin of hami-core, MPS and MIG."""

    name = "the vGPU device plugin"
    locks = ("hamivgpu", "volcano.sh/mutex.lock")
    given_up: Mapping[str, str] = {wire.TO_ALLOCATE: "", wire.BIND_PHASE: wire.FAILED, wire.TIME: SERVED_TIME}
    selects = wire.TO_ALLOCATE
    decision = frozenset({wire.NODE, wire.TIME, wire.IDS, wire.TO_ALLOCATE, wire.BIND_PHASE, wire.BIND_TIME})
    passing = frozenset({wire.TIME, wire.BIND_TIME, wire.BIND_PHASE, wire.TO_ALLOCATE})

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the numbers of vGPUs of the pod, by which it is chosen, and of each container, as kubelet requests."""
        counts = [len(grant.devices) for grant in grants]
        total = sum(len(grant.devices) for grant in grants if not grant.stage)
        return tuple(_key(count) for count in sorted({*counts, total} - {0}))

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether no devices are left to hand out: the plugin reads no phase, not even its own."""
        return "," not in annotations.get(wire.TO_ALLOCATE, "")

    def selectable(self, annotations: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """Return the node that the pod names, and the number of devices left to hand out."""
        node, left = annotations.get(wire.NODE, ""), annotations.get(wire.TO_ALLOCATE, "")
        if len(node) > _NAME_LENGTH:
            return "", ()
        count = sum("," in device for slot in left.split(";") for device in slot.split(":"))
        return (node, (_key(count),)) if node and count else ("", ())

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Erase the devices left to hand out, and make the pod the youngest."""
        if self.served(annotations):
            return {}
        erased = ";" * annotations[wire.TO_ALLOCATE].count(";")
        return {wire.TO_ALLOCATE: erased, wire.BIND_PHASE: wire.SUCCESS, wire.TIME: SERVED_TIME}
