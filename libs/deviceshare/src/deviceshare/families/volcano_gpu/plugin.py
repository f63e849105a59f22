"""How volcano-sh/devices chooses the pod for a request of kubelet. Source: volcano-sh/devices, pkg/plugin/nvidia.

Among the pending pods on its node that are not marked as assigned and have a container with the requested amount, it
chooses the one with the smallest ``predicate-time``. It marks the whole pod at the first container that it serves. For
the other containers it chooses the next pod with the requested amount; without one, kubelet rejects the pod. It does
not serve init containers.
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.volcano_gpu import wire
from deviceshare.model import ContainerGrant


class GpuPlugin(DevicePlugin):
    """The plugin of gpu-share and gpu-number; pods request ``resource``."""

    name = "the GPU device plugin"
    locks = ("gpu", "volcano.sh/mutex.lock")
    pending_only = True
    passing = frozenset({wire.PREDICATE_TIME})

    def __init__(self, resource: str) -> None:
        self._resource = resource

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the amounts that the containers request: with equal amounts, pods may get each other's card."""
        by_memory = self._resource == wire.MEMORY
        amounts = {
            sum(device.memory for device in grant.devices) if by_memory else len(grant.devices) for grant in grants
        }
        return tuple(f"{amount} {self._resource}" for amount in sorted(amounts))

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the pod is marked."""
        return annotations.get(wire.ASSIGNED, "false") != "false"

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Mark the pod."""
        if wire.PREDICATE_TIME not in annotations or self.served(annotations):
            return {}
        return {wire.ASSIGNED: "true"}
