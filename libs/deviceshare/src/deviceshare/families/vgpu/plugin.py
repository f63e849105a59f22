"""How volcano-vgpu-device-plugin chooses the pod for a request of kubelet.

Among all pods whose ``vgpu-node`` is its node, in any phase, it considers those with as many devices left to hand out,
over all containers, as kubelet requests for one container, and chooses the one with the smallest ``vgpu-time``. Source:
volcano-vgpu-device-plugin, pkg/util/util.go (GetPendingPod).
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import SERVED_TIME, DevicePlugin
from deviceshare.formats import vgpu
from deviceshare.model import ContainerGrant

_NAME_LENGTH = 253
"""Characters of the name of a node, as in Kubernetes."""


def _key(count: int) -> str:
    return f"{count} {'vGPU' if count == 1 else 'vGPUs'}"


class VgpuPlugin(DevicePlugin):
    """The plugin of hami-core, MPS and MIG."""

    name = "the vGPU device plugin"
    locks = ("hamivgpu", "volcano.sh/mutex.lock")
    given_up: Mapping[str, str] = {vgpu.TO_ALLOCATE: "", vgpu.BIND_PHASE: vgpu.FAILED, vgpu.TIME: SERVED_TIME}
    selects = vgpu.TO_ALLOCATE
    decision = frozenset({vgpu.NODE, vgpu.TIME, vgpu.IDS, vgpu.TO_ALLOCATE, vgpu.BIND_PHASE, vgpu.BIND_TIME})
    passing = frozenset({vgpu.TIME, vgpu.BIND_TIME, vgpu.BIND_PHASE, vgpu.TO_ALLOCATE})

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the numbers of vGPUs of the pod, by which it is chosen, and of each container, as kubelet requests."""
        counts = [len(grant.devices) for grant in grants]
        total = sum(len(grant.devices) for grant in grants if not grant.stage)
        return tuple(_key(count) for count in sorted({*counts, total} - {0}))

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether no devices are left to hand out: the plugin reads no phase, not even its own."""
        return "," not in annotations.get(vgpu.TO_ALLOCATE, "")

    def selectable(self, annotations: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """Return the node that the pod names, and the number of devices left to hand out."""
        node, left = annotations.get(vgpu.NODE, ""), annotations.get(vgpu.TO_ALLOCATE, "")
        if len(node) > _NAME_LENGTH:
            return "", ()
        count = sum("," in device for slot in left.split(";") for device in slot.split(":"))
        return (node, (_key(count),)) if node and count else ("", ())

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Erase the devices left to hand out, and make the pod the youngest."""
        if self.served(annotations):
            return {}
        erased = ";" * annotations[vgpu.TO_ALLOCATE].count(";")
        return {vgpu.TO_ALLOCATE: erased, vgpu.BIND_PHASE: vgpu.SUCCESS, vgpu.TIME: SERVED_TIME}
