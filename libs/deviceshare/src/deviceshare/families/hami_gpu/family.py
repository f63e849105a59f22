"""NVIDIA GPUs that HAMi's device plugin shares: HAMi-core, registered by ``hami.io/node-nvidia-register``.

Rules: HAMi pkg/device/nvidia (``Fit``, ``GenerateResourceRequests``); annotations: :mod:`.wire`. The
arithmetic is that of :mod:`deviceshare.families.vgpu.software`.

``nvidia.com/gpu`` is also the resource of whole GPUs. Its meaning follows from the node: on a node that HAMi's plugin
registers it is a number of shared cards, on any other node a number of whole GPUs, which kubelet chooses. Kubelet
counts it on both, so it remains a resource of the node. A pod that requests nothing else of HAMi may use both kinds of
nodes.
"""

from collections.abc import Iterator, Mapping, Sequence

from deviceshare.conf import DeviceSection, SchedulerConf
from deviceshare.families import common
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.hami_gpu import request, wire
from deviceshare.families.hami_gpu.plugin import HamiGpuPlugin
from deviceshare.families.hami_gpu.section import HamiConf
from deviceshare.families.hami_slots import owners, slots_of
from deviceshare.families.hardware import NVIDIA
from deviceshare.families.hooks import Program
from deviceshare.families.protocol import CardNames, Check, Demand, NodeView
from deviceshare.families.vgpu import cards as vgpu_cards
from deviceshare.families.vgpu.software import SoftwareVgpu
from deviceshare.model import Card, CardCordon, Claim, ContainerGrant, FormatError, PodRequest
from deviceshare.state import CardView


class HamiGpu(SoftwareVgpu):
    """The family ``hami-gpu``."""

    flag = request.FLAG
    section: type[DeviceSection] | None = HamiConf
    answers = ""
    whole_modes = frozenset(wire.MODES)
    pod_annotations = request.WISHES
    held_annotations = frozenset({wire.ALLOCATED})
    register_annotation = wire.REGISTER
    domains = frozenset({"hami.io", "4pd.io"})
    apart_annotation = ""
    policy_annotations: tuple[str, ...] = (wire.NODE_POLICY, wire.GPU_POLICY)
    series = ("", "")
    programs: tuple[Program, ...] = (
        Program(
            "HAMi scheduler or device plugin",
            r"(?:^|/)hami(?::|@|$)",
            "keep the device plugin; stop the scheduler when deviceshare takes over its pods",
        ),
    )
    plugin: DevicePlugin = HamiGpuPlugin()

    def __init__(self) -> None:
        super().__init__(wire.SHARED)

    def names(self, conf: SchedulerConf) -> HamiConf:
        """Return HAMi's names of the resources, and its defaults."""
        return conf.devices.section(HamiConf)

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the cards of the register annotation, whatever their mode."""
        return wire.read_register(node.annotations, node.name, node.capacity.get(NVIDIA.whole, 0))

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return the names of memory, percentage, cores and priority.

        Only HAMi's mock device plugin offers them on nodes; they are not allocated as resources of the node.
        """
        names = self.names(conf)
        if request.is_overridden(conf):
            return frozenset()
        return frozenset({names.memory, names.percentage, names.cores, names.priority} - {""})

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return the names of memory and cores; the number of cards is a resource of the node."""
        names = self.names(conf)
        return CardNames(memory=names.memory, cores=names.cores)

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
        """Read the containers' limits and the pod's annotations; one demand for cards per container."""
        return request.read_demand(self.name, ask, conf)

    def checks_of_cards(self, demand: Demand, view: CardView) -> list[Check]:
        """Return the checks of single cards that do not depend on usage."""
        unused = view.of_modes(wire.MODES) & ~view.of_mode(wire.SHARED)
        mode = common.card_check("ModeNotFit", "node(s) had cards of HAMi in a mode other than hami-core", unused)
        return [mode, *vgpu_cards.checks_of_cards(demand, view, self.name, wire.MODES, wire.USE_ID)]

    def annotations(
        self, claim: Claim, node: str, containers: Sequence[str], now: float, init_containers: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return the annotations that HAMi's device plugin reads."""
        grants = [grant for grant in claim.grants if grant.family == self.name]
        return wire.handoff(node, wire.write_slots(slots_of(grants, containers, init_containers)), now)

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Read ``vgpu-devices-allocated``, not ``vgpu-devices-to-allocate``, from which the plugin erases devices."""
        slots = wire.read_slots(annotations.get(wire.ALLOCATED, ""), pod)
        return tuple(
            ContainerGrant(container.name, position, self.name, tuple(devices), stage)
            for (stage, position, container), devices in zip(owners(ask, len(slots)), slots, strict=True)
            if devices
        )

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Return nothing: unlike that of vGPUs, the plugin serves several containers, and init containers."""
        return ()

    def is_deleted(self, annotations: Mapping[str, str]) -> bool:
        """Return whether HAMi's scheduler has marked the registration as deleted."""
        return wire.is_deleted(annotations)

    def unread_registers(self, annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the annotations of HAMi's device plugins of other vendors."""
        for key in wire.other_registers(annotations):
            yield key, "cards of NVIDIA or Ascend: no others of HAMi"

    def cordoned(self, annotations: Mapping[str, str]) -> tuple[CardCordon, ...]:
        """Return the cards in HAMi's list, which names them by their ids."""
        return tuple(CardCordon(name, by=wire.CORDON) for name in wire.cordoned(annotations))

    def read_policy(self, key: str, text: str) -> str:
        """Return the policy; those of HAMi that deviceshare does not have are invalid."""
        policy = wire.policy(text)
        if policy is None:
            expected = f"{wire.BINPACK} or {wire.SPREAD}: other policies of HAMi are not supported"
            raise FormatError("", f"metadata.annotations[{key}]", text, expected)
        return policy
