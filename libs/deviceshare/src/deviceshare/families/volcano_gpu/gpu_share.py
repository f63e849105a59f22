"""gpu-share: a pod requests MiB of GPU memory and gets a part of one card.

Rules: Volcano pkg/scheduler/api/devices/nvidia/gpushare (share.go, device_info.go). Additions to
Volcano: the policy applies (binpack: the fullest card with room, spread: the emptiest), and a pod may select its card
by ``volcano.sh/gpu-index``.
"""

from collections.abc import Iterable, Mapping, Sequence

from deviceshare.conf import SchedulerConf
from deviceshare.families import common, nvidia, selection
from deviceshare.families.base import OneByOne
from deviceshare.families.device_plugin import DevicePlugin, serves_one_container
from deviceshare.families.hardware import NVIDIA
from deviceshare.families.hooks import Program
from deviceshare.families.protocol import (
    CardDemand,
    CardNames,
    Check,
    ContainerShare,
    Demand,
    ExpectedDemand,
    NodeView,
    Pick,
    Picks,
)
from deviceshare.families.volcano_gpu import wire
from deviceshare.families.volcano_gpu.plugin import GpuPlugin
from deviceshare.kernels import SharedCardSelector
from deviceshare.model import INIT, Card, Claim, ContainerGrant, DeviceGrant, PodRequest
from deviceshare.state import Bools, CardView, Codes


class PodGpus(OneByOne):
    """The base of the families whose pods request ``resource`` as a whole: the same cards, plugin and annotations."""

    hardware = NVIDIA
    modes = frozenset({wire.MODE})
    pod_annotations = selection.WISHES
    held_annotations = frozenset({wire.INDEX})
    resource: str

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return ``resource``."""
        return frozenset({self.resource})

    def annotations(
        self, claim: Claim, node: str, containers: Sequence[str], now: float, init_containers: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return the annotations for the device plugin: each card once, in the order of the grants, and the time."""
        indexes = [device.index for grant in claim.grants if grant.family == self.name for device in grant.devices]
        return {
            wire.INDEX: wire.write_index(dict.fromkeys(indexes)),
            wire.PREDICATE_TIME: wire.write_predicate_time(now),
        }

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Warn of containers that the device plugin does not serve."""
        return serves_one_container(self.resource, self.plugin.name, grants)


class GpuShare(PodGpus):
    """The family ``gpu-share``."""

    name = "gpu-share"
    flag = "deviceshare.GPUSharingEnable"
    resource = wire.MEMORY
    programs: tuple[Program, ...] = (Program("Volcano GPU device plugin", "volcano-device-plugin", "keep it"),)
    plugin: DevicePlugin = GpuPlugin(wire.MEMORY)

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the cards by the node's capacity; their model is that of the node's label."""
        return wire.read_cards(node.capacity, node.name, node.labels.get(nvidia.PRODUCT, ""))

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return the name of memory."""
        return CardNames(memory=wire.MEMORY)

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
        """Request one card for the pod, with the peak of its containers' memory."""
        shares = common.shares_of(common.by_stage(ask), wire.MEMORY)
        total = peak(shares)
        if not total:
            return None
        return Demand(
            family=self.name,
            cards=(CardDemand(count=1, memory=total, cores=0),),
            shares=shares,
            **selection.wishes(ask, conf)._asdict(),
        )

    def kernel(self, demand: Demand, cards: CardDemand, codes: Codes, conf: SchedulerConf) -> SharedCardSelector:
        """Pick one card with room: the lowest index; under binpack the fullest, under spread the emptiest.

        Score: binpack 100·used/memory after the placement; spread 100/(1 + pods on the node's cards).
        """
        kinds = codes.kinds
        asked = common.memory_of_kinds(cards, kinds)
        usable = selection.usable_kinds(demand, wire.MODE, codes)
        selector = SharedCardSelector(1, kinds.memory, asked, usable)
        common.set_policies(selector, conf, cards, kinds, usable)
        selector.by_memory, selector.by_shares = selector.by_memory + selector.by_shares, 0
        selector.by_column = 0
        return selector

    def pick(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> Picks:
        """Pick one card for the pod."""
        return common.picks_of(self.kernel(demand, cards, view, conf), view, selection.id_allowed(demand, view))

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return one grant for each container that requests memory, all of the same card."""
        card = chosen[0][0].card
        return tuple(
            _grant(share, self.name, DeviceGrant(card.id, card.index, share.amount, 0)) for share in demand.shares
        )

    def failed(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks for no cards, unhealthy cards, cards that the pod excludes, and too little memory."""
        usable = candidates(demand, view)
        free = view.memory - view.memory_used
        short = usable & (free < cards.memory)
        text = f"Insufficient {wire.MEMORY} on one card"
        amount = common.Amount(wire.MEMORY, cards.memory, unit="MiB").on_cards(free, usable, short, 1)
        memory = common.card_check("CardInsufficientMemory", text, short, amount)
        return [*card_checks(demand, view), memory]

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Read ``gpu-index``; the amounts are the containers' own."""
        indexes = wire.read_index(annotations.get(wire.INDEX, ""), pod)
        if not indexes:
            return ()
        shares, index = common.shares_of(common.by_stage(ask), wire.MEMORY), indexes[0]
        return tuple(_grant(share, self.name, DeviceGrant(str(index), index, share.amount, 0)) for share in shares)

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return what volcano-sh/devices injects in its strategy ``share``."""
        return {
            "NVIDIA_VISIBLE_DEVICES": ",".join(str(device.index) for device in grant.devices),
            "VOLCANO_GPU_ALLOCATED": str(sum(device.memory for device in grant.devices)),
            "VOLCANO_GPU_MEMORY_TOTAL": str(cards[0].memory),
        }


def _grant(share: ContainerShare, family: str, *devices: DeviceGrant) -> ContainerGrant:
    return ContainerGrant(share.container, share.position, family, devices, share.stage)


def peak(shares: Iterable[ContainerShare]) -> int:
    """Return the peak of a pod: the larger of its largest init container and the sum of all others.

    Volcano leaves out sidecars (share.go), which run beside the containers.
    """
    running = largest = 0
    for share in shares:
        if share.stage == INIT:
            largest = max(largest, share.amount)
        else:
            running += share.amount
    return max(running, largest)


def candidates(demand: Demand, view: CardView) -> Bools:
    """Return bool[R, D]: healthy gpu-share cards that the pod accepts."""
    usable = view.of_mode(wire.MODE) & view.usable
    for allowed in (selection.type_allowed(demand, view), selection.id_allowed(demand, view)):
        if allowed is not None:
            usable &= allowed
    return usable


def card_checks(demand: Demand, view: CardView) -> list[Check]:
    """Return the checks that do not depend on usage."""
    of_mode = view.of_mode(wire.MODE)
    return [
        common.node_check("CardNotFound", "node(s) had no gpu-share cards", ~common.any_card(of_mode)),
        *common.health_checks(of_mode, view),
        *selection.checks(demand, view, of_mode),
    ]
