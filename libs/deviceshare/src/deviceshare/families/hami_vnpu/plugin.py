"""How HAMi's ascend-device-plugin finds the pod that kubelet asks for. Sources: Project-HAMi/ascend-device-plugin
(internal/server), Project-HAMi/HAMi (pkg/util, pkg/util/nodelock).

It takes the pod that the node's lock names, and older ones, where there is no lock, any that is allocating: one pod at
a time. When it has served the pod, or cannot, it gives the lock back, if the pod holds it.
"""

from collections.abc import Mapping, Sequence

from deviceshare.claims import ContainerGrant
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.formats import hami_vnpu as wire


class HamiPlugin(DevicePlugin):
    """The plugin of the family ``hami-vnpu``."""

    name = "HAMi's Ascend device plugin"
    locks = (wire.LOCK,)
    needs_lock = True
    pending_only = True
    passing = frozenset({wire.TIME, wire.BIND_TIME, wire.BIND_PHASE, wire.PREDICATE_TIME})

    def keys(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return the same for all pods."""
        return ("vNPUs",) if grants else ()

    def served(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the pod is not allocating any more."""
        return annotations.get(wire.BIND_PHASE, "") != wire.ALLOCATING

    def once_served(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Erase what is to be handed out."""
        if self.served(annotations):
            return {}
        erased = {
            wire.to_allocate(word): ";" * annotations.get(wire.to_allocate(word), "").count(";")
            for word in wire.words_held(annotations)
        }
        return {**erased, wire.BIND_PHASE: wire.SUCCESS}

    def same(self, written: Mapping[str, str], found: Mapping[str, str]) -> bool:
        """Return whether the devices are the same; what is to be handed out is erased by and by."""
        left = {wire.to_allocate(word) for word in wire.words_held(written)}
        return super().same({key: value for key, value in written.items() if key not in left}, found)
