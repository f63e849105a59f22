"""The base of the vGPU families: names, requests, annotations."""

from collections.abc import Mapping, Sequence

from deviceshare.conf import DeviceSection, SchedulerConf
from deviceshare.families import nvidia
from deviceshare.families.base import OneByOne
from deviceshare.families.device_plugin import DevicePlugin, serves_one_container
from deviceshare.families.hardware import NVIDIA
from deviceshare.families.hooks import Program
from deviceshare.families.protocol import CardNames, Demand, NodeView
from deviceshare.families.vgpu import pod_annotations, request, wire
from deviceshare.families.vgpu.plugin import VgpuPlugin
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import Card, Claim, ContainerGrant, PodRequest


class Vgpu(OneByOne):
    """A family that answers the request for vGPUs on the cards of one mode, which is its name."""

    flag = "deviceshare.VGPUEnable"
    section: type[DeviceSection] | None = VgpuConf
    hardware = NVIDIA
    answers = "vgpu"
    pod_annotations = request.WISHES
    held_annotations = frozenset({wire.IDS, wire.INIT_IDS})
    domains = frozenset({"volcano.sh"})
    apart_annotation = wire.PODGROUP_POLICY
    series = ("volcano_vgpu_device", "vGPU")
    """Volcano's metrics: pkg/scheduler/api/devices/nvidia/vgpu/metrics.go."""
    programs: tuple[Program, ...] = (
        Program("Volcano vGPU device plugin", "volcano-vgpu-device-plugin", "keep it"),
        nvidia.DEVICE_PLUGIN,
    )
    plugin: DevicePlugin = VgpuPlugin()

    def __init__(self, mode: str) -> None:
        self.name = mode
        self.modes = frozenset({mode})

    def names(self, conf: SchedulerConf) -> VgpuConf:
        """Return the names of the resources, and the defaults."""
        return conf.devices.section(VgpuConf)

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return nothing: the cards of all modes are those of hami-core."""
        return ()

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return the vGPU resources, by the names that the configuration gives them."""
        names = self.names(conf)
        return frozenset({names.number, names.memory, names.percentage, names.cores} - {""})

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return the names of vGPUs, of their memory and of their cores."""
        names = self.names(conf)
        return CardNames(names.number, names.memory, names.cores)

    def memory_unit(self, conf: SchedulerConf) -> int:
        """Return ``gpuMemoryFactor``."""
        return self.names(conf).memory_factor

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
        """Read the containers' limits and the pod's annotations; one :class:`CardDemand` for each container."""
        return request.read_demand(self.name, ask, conf)

    def annotations(
        self, claim: Claim, node: str, containers: Sequence[str], now: float, init_containers: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return the annotations that the vGPU device plugin reads."""
        grants = [grant for grant in claim.grants if grant.family == self.name]
        return pod_annotations.write(grants, node, containers, init_containers, now)

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Return nothing: hami-core reads all devices that are no MIG instances."""
        return ()

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Warn of vGPUs in several containers.

        kubelet requests devices container by container, and the plugin chooses a pod whose devices left to hand out
        equal the request of one container (volcano-vgpu-device-plugin, pkg/util/util.go).
        """
        return serves_one_container("vGPUs", self.plugin.name, grants)
