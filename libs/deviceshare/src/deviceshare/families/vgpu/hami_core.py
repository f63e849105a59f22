"""hami-core: the mode of cards that HAMi-core cuts, and of those that register none."""

from collections.abc import Mapping

from deviceshare.claims import ContainerGrant
from deviceshare.facts import Card, PodAsk
from deviceshare.families.protocol import NodeView
from deviceshare.families.vgpu import handover
from deviceshare.families.vgpu.software import SoftwareVgpu
from deviceshare.formats import vgpu


class HamiCore(SoftwareVgpu):
    """The family ``hami-core``; it registers the cards of all modes, since they stand in one list."""

    def __init__(self) -> None:
        super().__init__(vgpu.HAMI_CORE)

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the cards of the register annotation, whatever their mode."""
        register = node.annotations.get(vgpu.REGISTER)
        return vgpu.read_register(register, node.name) if register else ()

    def held(self, annotations: Mapping[str, str], ask: PodAsk, pod: str) -> tuple[ContainerGrant, ...]:
        """Return all devices but MIG instances; those of an MPS card look the same, and are counted the same."""
        return tuple(handover.read(annotations, ask, pod, self.name, is_mig=False))
