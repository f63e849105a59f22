"""How volcano-vgpu-device-plugin finds the pod that kubelet asks for. Source: its pkg/util/util.go (GetPendingPod).

Of all pods whose ``vgpu-node`` is its own node, whatever became of them, it takes those whose devices left to hand out
are, over all containers, as many as kubelet asks for one container, and of these the one with the smallest
``vgpu-time``.
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import SERVED_TIME, DevicePlugin
from deviceshare.formats import vgpu
from deviceshare.model import ContainerGrant


class VgpuPlugin(DevicePlugin):
    """The plugin of hami-core, MPS and MIG."""

    name = "the vGPU device plugin"
    locks = ("hamivgpu", "volcano.sh/mutex.lock")
    given_up: Mapping[str, str] = {vgpu.TO_ALLOCATE: "", vgpu.BIND_PHASE: vgpu.FAILED, vgpu.TIME: SERVED_TIME}
    passing = frozenset({vgpu.TIME, vgpu.BIND_TIME, vgpu.BIND_PHASE, vgpu.TO_ALLOCATE})

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the numbers of vGPUs: of the pod, by which it is found, and of each container, as kubelet asks."""
        counts = [len(grant.devices) for grant in grants]
        total = sum(len(grant.devices) for grant in grants if not grant.stage)
        return tuple(f"{count} {'vGPU' if count == 1 else 'vGPUs'}" for count in sorted({*counts, total} - {0}))

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the phase says so, or nothing is left to hand out."""
        phase = annotations.get(vgpu.BIND_PHASE, "")
        return phase in (vgpu.SUCCESS, vgpu.FAILED) or "," not in annotations.get(vgpu.TO_ALLOCATE, "")

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Erase what is to be handed out; the pod is the youngest of all from then on."""
        if self.served(annotations):
            return {}
        erased = ";" * annotations[vgpu.TO_ALLOCATE].count(";")
        return {vgpu.TO_ALLOCATE: erased, vgpu.BIND_PHASE: vgpu.SUCCESS, vgpu.TIME: SERVED_TIME}
