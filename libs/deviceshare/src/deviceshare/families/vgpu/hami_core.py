"""hami-core: the mode of cards that HAMi-core shares, and of cards that are registered without a mode."""

from collections.abc import Mapping

from deviceshare.conf import VgpuConf
from deviceshare.families.protocol import NodeView
from deviceshare.families.vgpu import pod_annotations
from deviceshare.families.vgpu.software import SoftwareVgpu
from deviceshare.formats import vgpu
from deviceshare.model import Card, ContainerGrant, PodRequest

_NAMES = VgpuConf()
_OFFERED = (_NAMES.number, _NAMES.memory, _NAMES.cores)


class HamiCore(SoftwareVgpu):
    """The family ``hami-core``; it reads the cards of all modes, which one annotation registers."""

    def __init__(self) -> None:
        super().__init__(vgpu.HAMI_CORE)

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the cards of the register annotation, whatever their mode.

        A node that offers 0 of a vGPU resource has none, as in Volcano: its device plugin is not running, and kubelet
        rejects pods that request the resource. Resources that the node does not have are ignored.
        """
        register = node.annotations.get(vgpu.REGISTER)
        if not register or 0 in (node.allocatable.get(name) for name in _OFFERED):
            return ()
        return vgpu.read_register(register, node.name)

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Return all devices except MIG instances; devices of MPS cards have the same format and are charged alike."""
        return tuple(pod_annotations.read(annotations, ask, pod, self.name, is_mig=False))
