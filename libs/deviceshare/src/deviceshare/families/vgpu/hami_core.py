"""hami-core: the mode of cards that HAMi-core cuts, and of those that register none."""

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
    """The family ``hami-core``; it registers the cards of all modes, since they stand in one list."""

    def __init__(self) -> None:
        super().__init__(vgpu.HAMI_CORE)

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the cards of the register annotation, whatever their mode.

        There are none where the node offers 0 of a vGPU resource, as Volcano: its device plugin does not serve, and
        kubelet refuses pods that ask it. It does not look at a resource that the node does not name.
        """
        register = node.annotations.get(vgpu.REGISTER)
        if not register or 0 in (node.allocatable.get(name) for name in _OFFERED):
            return ()
        return vgpu.read_register(register, node.name)

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Return all devices but MIG instances; those of an MPS card look the same, and are counted the same."""
        return tuple(pod_annotations.read(annotations, ask, pod, self.name, is_mig=False))
