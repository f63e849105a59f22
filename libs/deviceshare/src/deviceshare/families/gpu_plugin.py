"""How Volcano's first device plugin finds the pod that kubelet asks for. Source: volcano-sh/devices, pkg/plugin/nvidia.

Of the pending pods on its node that are not marked as assigned it takes the oldest one by ``predicate-time`` that has a
container which asks as much as kubelet does. It marks the pod, all of it, at the first container that it serves: for
the others it takes the next pod that asks as much, and where there is none kubelet rejects the pod. Of init containers
it knows nothing.
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.formats import gpu_share
from deviceshare.model import ContainerGrant


class GpuPlugin(DevicePlugin):
    """The plugin of gpu-share and gpu-number; ``resource`` is the one that is asked by."""

    name = "the GPU device plugin"
    locks = ("gpu", "volcano.sh/mutex.lock")
    pending_only = True
    passing = frozenset({gpu_share.PREDICATE_TIME})

    def __init__(self, resource: str) -> None:
        self._resource = resource

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the amounts that the containers ask: two alike on one node may get each other's card."""
        by_memory = self._resource == gpu_share.MEMORY
        amounts = {
            sum(device.memory for device in grant.devices) if by_memory else len(grant.devices) for grant in grants
        }
        return tuple(f"{amount} {self._resource}" for amount in sorted(amounts))

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the pod is marked."""
        return annotations.get(gpu_share.ASSIGNED, "false") != "false"

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Mark the pod."""
        if gpu_share.PREDICATE_TIME not in annotations or self.served(annotations):
            return {}
        return {gpu_share.ASSIGNED: "true"}
