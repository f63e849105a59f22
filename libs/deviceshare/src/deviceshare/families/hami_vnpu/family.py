"""Ascend vNPU, HAMi mode: chips partitioned into vNPUs by the vendor's templates, or shared through HAMi-core.

Rules: Volcano pkg/scheduler/api/devices/ascend/hami; annotations: :mod:`.wire`. Corrections to Volcano:
unhealthy chips are never allocated, the AI cores and AI CPUs of templates count, a chip is either partitioned or
shared, every container is charged, the policy applies without a weight, and a pod's choice of UUIDs is respected.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from deviceshare.conf import DeviceSection, SchedulerConf
from deviceshare.families import common
from deviceshare.families.base import OneByOne
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.hami_slots import owners, slots_of
from deviceshare.families.hami_vnpu import wire
from deviceshare.families.hami_vnpu.accounting import VnpuAccounting
from deviceshare.families.hami_vnpu.checks import checks
from deviceshare.families.hami_vnpu.demand import FLAG, VnpuCardDemand, VnpuDemand, read_demand
from deviceshare.families.hami_vnpu.placing import NETWORK_SCORE, ChipChooser, add_network_score, selector_of
from deviceshare.families.hami_vnpu.plugin import HamiPlugin
from deviceshare.families.hami_vnpu.section import VnpuChip, VnpuConf
from deviceshare.families.hardware import ASCEND
from deviceshare.families.hooks import Program
from deviceshare.families.protocol import (
    Accounting,
    CardDemand,
    CardNames,
    Demand,
    ExpectedDemand,
    HeldInPart,
    NodeView,
    Pick,
    Places,
)
from deviceshare.kernels import CardSelector
from deviceshare.model import WHOLE, Card, Claim, ContainerGrant, ContainerRequest, DeviceGrant, FormatError, PodRequest
from deviceshare.state import CardView, Codes


class HamiVnpu(OneByOne):
    """The family ``hami-vnpu``."""

    name = "hami-vnpu"
    flag = FLAG
    section: type[DeviceSection] | None = VnpuConf
    hardware = ASCEND
    modes = whole_modes = frozenset(wire.MODES)
    accounting: Accounting | None = VnpuAccounting()
    pod_annotations = frozenset({wire.MODE, wire.USE_ID, wire.NOUSE_ID})
    held_annotations = frozenset({wire.allocated("*"), wire.runtime("*")})
    domains = frozenset({"huawei.com"})
    sliced_modes = frozenset({wire.CONFIGURED})
    programs: tuple[Program, ...] = (
        Program("Ascend device plugin", "ascend-k8sdeviceplugin|ascend-device-plugin", "keep it"),
    )
    plugin: DevicePlugin = HamiPlugin()

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the chips of all register annotations of the node."""
        return wire.read_registers(node.annotations, node.name)

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return the names of memory and cores.

        The number of devices is a resource of the node, which kubelet counts as well.
        """
        chips = conf.devices.section(VnpuConf).chips
        return frozenset(name for chip in chips for name in (chip.memory_resource, chip.core_resource) if name)

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return the names of memory and cores of a kind of chip; the number of devices is a resource of the node."""
        if isinstance(of, VnpuDemand):
            chip: VnpuChip | None = of.chip
        else:
            chip = conf.devices.section(VnpuConf).chip(of.type) if isinstance(of, Card) else None
        return CardNames(memory=chip.memory_resource, cores=chip.core_resource) if chip is not None else CardNames()

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
        """Read the containers' limits and the pod's preferences; one demand for chips per container."""
        return read_demand(self.name, ask, conf)

    def steps(self, demand: Demand, view: CardView, conf: SchedulerConf) -> common.Steps:
        """Return how chips are picked and charged."""
        assert isinstance(demand, VnpuDemand)
        chooser = ChipChooser(demand, view, conf)
        turns = common.in_turn(demand, view)
        return common.Steps(
            turns, chooser.pick, chooser.charge, lambda cards: checks(chooser, cards), chooser.registered
        )

    def place(self, demand: Demand, view: CardView, conf: SchedulerConf) -> Places:
        """Pick and charge, container by container."""
        places = super().place(demand, view, conf)
        assert isinstance(demand, VnpuDemand)
        if demand.linked:
            add_network_score(demand, view, places)
        return places

    def kernel(self, demand: Demand, cards: CardDemand, codes: Codes, conf: SchedulerConf) -> CardSelector:
        """Pick chips by network and policy."""
        assert isinstance(demand, VnpuDemand)
        assert isinstance(cards, VnpuCardDemand)
        selector = selector_of(demand, cards, codes, conf)
        selector.offers = demand.chip.resource
        # A single chip is a network of its own.
        selector.link_score = NETWORK_SCORE
        return selector

    def essence(self, demand: Demand, cards: CardDemand, conf: SchedulerConf) -> Demand:
        """Leave out the requested memory, which only matters in the grant: the template determines the charge."""
        return common.essence(demand, asked=-1, number=1)

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return one grant for each container, its devices in the order of the picks."""
        assert isinstance(demand, VnpuDemand)
        chip = demand.chip
        return common.grants_of(self.name, demand, chosen, lambda cards, pick: _device(chip, cards, pick))

    def annotations(
        self, claim: Claim, node: str, containers: Sequence[str], now: float, init_containers: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return the annotations that the device plugin reads, with a slot for each init container and container."""
        slots = slots_of((grant for grant in claim.grants if grant.family == self.name), containers, init_containers)
        devices = [device for slot in slots for device in slot]
        word = wire.Detail.of(devices[0].detail).word
        text, seconds = wire.write_slots(slots), str(int(now))
        return {
            wire.to_allocate(word): text,
            wire.allocated(word): text,
            wire.runtime(word): wire.write_runtime(devices),
            wire.PREDICATE_TIME: seconds,
            wire.NODE: node,
            wire.TIME: seconds,
            wire.BIND_PHASE: wire.ALLOCATING,
            wire.BIND_TIME: seconds,
        }

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Read ``…-devices-allocated``, not ``…-devices-to-allocate``, from which the plugin erases devices."""
        grants: list[ContainerGrant] = []
        errors: list[FormatError] = []
        for word in wire.words_held(annotations):
            slots, error = wire.read_slots(annotations, word, pod)
            errors += [error] if error else []
            asks = partial(_asks, wire.runtime(word))
            for (stage, position, container), devices in zip(owners(ask, len(slots), asks), slots, strict=True):
                if devices:
                    asked = container.get(f"{wire.runtime(word)}-memory") or -1
                    grants.append(
                        ContainerGrant(
                            container.name,
                            position,
                            self.name,
                            tuple(_with_asked(device, asked) for device in devices),
                            stage,
                        )
                    )
        if errors:
            raise HeldInPart(errors[0], tuple(grants))
        return tuple(grants)

    def at_most(self, device: DeviceGrant, asked: CardDemand, card: Card | None) -> DeviceGrant:
        """Limit memory and cores to the request, and use its template."""
        device = common.at_most(device, asked, card)
        detail = wire.Detail.of(device.detail)
        if not isinstance(asked, VnpuCardDemand) or detail.cut in ("", asked.cut):
            return device
        return replace(device, detail=str(wire.Detail(detail.word, asked.cut)))

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return the variables that the device plugin injects.

        The plugin names chips by the number of the node's driver, which is their index if all chips are registered.
        """
        first = grant.devices[0]
        indexes = [str(card.index) for card in cards]
        environment = {"ASCEND_VISIBLE_DEVICES": ",".join(indexes)}
        cut = wire.Detail.of(first.detail).cut
        if cut == wire.HAMI_CORE:
            environment["NPU_MEM_QUOTA"] = str(first.memory)
            if first.cores:
                environment["NPU_PRIORITY"] = str(first.cores)
            environment["NPU_GLOBAL_SHM_PATH"] = f"/hami-shared-region/{indexes[0]}_global_registry"
            environment["NPU_LOCAL_SHM_PATH"] = "/hami-vnpu-shmem/vnpu_local_shmem"
        elif cut:
            environment["ASCEND_VNPU_SPECS"] = cut
        return environment

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Warn of vNPUs in several containers, and of whole chips with less memory than requested.

        The plugin marks a pod as served and releases the node lock after the first container; for the others it may
        choose a pod that another scheduler has bound (ascend-device-plugin, internal/server).
        """
        warnings = []
        if len(grants) > 1:
            names = ", ".join(grant.container for grant in grants)
            warnings.append(
                f"vNPUs in {len(grants)} containers ({names}): the device plugin frees the node after the first of "
                "them, and a pod of another scheduler may get the devices of the others"
            )
        for grant in grants:
            device = grant.devices[0]
            if device.asked > device.memory != WHOLE:
                warnings.append(
                    f"container {grant.container} asks {device.asked} MiB and has a whole chip: "
                    f"{device.memory} MiB of it can be used"
                )
        return tuple(warnings)


def _device(chip: VnpuChip, cards: CardDemand, pick: Pick) -> DeviceGrant:
    assert isinstance(cards, VnpuCardDemand)
    card, memory = pick.card, common.memory_on(cards, pick.card)
    detail, asked = str(wire.Detail(chip.word, cards.cut)), -1 if cards.asked == memory else cards.asked
    return DeviceGrant(card.id, card.index, memory, cards.cores, detail, asked)


def _with_asked(device: DeviceGrant, asked: int) -> DeviceGrant:
    """Return the device with the requested MiB, if they differ from the charged MiB."""
    return device if asked in (-1, device.memory) else replace(device, asked=asked)


def _asks(resource: str, container: ContainerRequest) -> bool:
    return any(name.startswith(resource) for name, _ in container.resources)
