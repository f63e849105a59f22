"""How HAMi's ascend-device-plugin chooses the pod for a request of kubelet.

It chooses the pod in the node lock; without a lock, the first by name of the pending pods on the node that are
allocating or served. After serving a container, or failing to, it releases the lock of the pod, so it chooses the pod
for the second container by name only. Sources: Project-HAMi/ascend-device-plugin (internal/server), Project-HAMi/HAMi
(pkg/util, pkg/util/nodelock).
"""

from collections.abc import Mapping, Sequence

from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.hami_vnpu import wire
from deviceshare.model import ContainerGrant

_SEVERAL = "vNPUs in several containers"


class HamiPlugin(DevicePlugin):
    """The plugin of the family ``hami-vnpu``."""

    name = "HAMi's Ascend device plugin"
    locks = (wire.LOCK,)
    needs_lock = True
    pending_only = True
    passing = frozenset({wire.TIME, wire.BIND_TIME, wire.BIND_PHASE, wire.PREDICATE_TIME})

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the same key for all pods, and another if the plugin has to choose the pod without the lock."""
        if not grants:
            return ()
        return ("vNPUs", _SEVERAL) if len(grants) > 1 else ("vNPUs",)

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether no devices are left to hand out, or the plugin reported a failure."""
        phase = annotations.get(wire.BIND_PHASE, "")
        if phase == wire.SUCCESS:
            left = (annotations.get(wire.to_allocate(word), "") for word in wire.words_held(annotations))
            return not any("," in slots for slots in left)
        return phase != wire.ALLOCATING

    def until_running(self, annotations: Mapping[str, str]) -> tuple[str, ...]:
        """Return the key of pods with several containers: the plugin may choose this pod for a later container."""
        return (_SEVERAL,) if annotations.get(wire.BIND_PHASE) == wire.SUCCESS else ()

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Erase the devices left to hand out."""
        if self.served(annotations):
            return {}
        erased = {
            wire.to_allocate(word): ";" * annotations.get(wire.to_allocate(word), "").count(";")
            for word in wire.words_held(annotations)
        }
        return {**erased, wire.BIND_PHASE: wire.SUCCESS}

    def same(self, written: Mapping[str, str], found: Mapping[str, str]) -> bool:
        """Return whether the devices are equal, ignoring the devices left to hand out."""
        left = {wire.to_allocate(word) for word in wire.words_held(written)}
        return super().same({key: value for key, value in written.items() if key not in left}, found)
