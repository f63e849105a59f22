"""How HAMi's NVIDIA device plugin chooses the pod for a request of kubelet.

It chooses the pod in the node lock; without a lock, the first by name of the pending pods on the node that are
allocating. It serves the pod's containers in their order, and releases the lock and sets ``success`` when it has served
all of them. Source: Project-HAMi/HAMi (pkg/util/util.go GetPendingPod, pkg/device-plugin/nvidiadevice).
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.hami_gpu import wire
from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.model import ContainerGrant


class HamiGpuPlugin(DevicePlugin):
    """The plugin of the family ``hami-gpu``."""

    name = "HAMi's NVIDIA device plugin"
    locks = (hami_vnpu_wire.LOCK,)
    needs_lock = True
    pending_only = True
    passing = frozenset({hami_vnpu_wire.TIME, hami_vnpu_wire.BIND_TIME, hami_vnpu_wire.BIND_PHASE, wire.TO_ALLOCATE})

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the same key for all pods: a node has one lock."""
        return ("HAMi GPUs",) if grants else ()

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the plugin has served all containers, or reported a failure."""
        return annotations.get(hami_vnpu_wire.BIND_PHASE, "") != hami_vnpu_wire.ALLOCATING

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Erase the devices left to hand out."""
        if self.served(annotations):
            return {}
        erased = ";" * annotations.get(wire.TO_ALLOCATE, "").count(";")
        return {wire.TO_ALLOCATE: erased, hami_vnpu_wire.BIND_PHASE: hami_vnpu_wire.SUCCESS}
