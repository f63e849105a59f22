"""The family: Ascend 310P chips of nodes with MindCluster's device plugin, partitioned by templates or whole.

Rules: Volcano pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu and
pkg/scheduler/plugins/deviceshare/devices/ascend/310p/vnpu. Corrections to Volcano: a node may have parts of several
kinds and whole chips; a part is downgraded if no chip has the AI CPUs, and counts as the smaller template; infeasible
nodes are filtered before the decision; when a pod ends, its chip is completely free of it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.base import OneByOne
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.families.hardware import ASCEND
from deviceshare.families.hooks import DevicesByNode, Program
from deviceshare.families.mindcluster import chips as state
from deviceshare.families.mindcluster import wire
from deviceshare.families.mindcluster.chips import ChipStates, chips_of, choose, failures
from deviceshare.families.mindcluster.plugin import MindClusterPlugin
from deviceshare.families.mindcluster.request import MindClusterDemand, asking, chip_demand, cores_asked, deal
from deviceshare.families.mindcluster.wire import CHIP_CORES, CORES, WHOLE, Template
from deviceshare.families.protocol import (
    Accounting,
    CardCount,
    CardDemand,
    CardNames,
    Check,
    Demand,
    ExpectedDemand,
    HeldInPart,
    NodeView,
    Pick,
    Picks,
    Places,
)
from deviceshare.model import UNMADE as UNMADE_PART
from deviceshare.model import Card, Claim, ContainerGrant, DeviceGrant, FormatError, PodRequest
from deviceshare.state import CardShare, CardView, Counted, Ints, Usage

_BEHIND = 1 << 40
"""More AI cores than any node has: ranks nodes with only a downgraded template after all others."""


class PartAccounting(Accounting):
    """Each pod takes its part of a chip, which its containers share."""

    state = state.STATE

    def count(self, card: Card, pods: Sequence[Sequence[CardShare]], conf: SchedulerConf) -> Counted:
        """Count each pod's part, or the whole chip, once: its containers share it.

        A part by an unknown template may be as large as the chip.
        """
        cores = cpus = dvpp = unmade = 0
        groups: frozenset[int] = frozenset()
        for shares in pods:
            device = shares[0].device
            unmade += device.made == UNMADE_PART
            template = wire.TEMPLATES.get(device.detail, WHOLE)
            cores, cpus = cores + template.cores, cpus + template.cpus
            dvpp = max(dvpp, state.DVPP_TAKEN[template.dvpp])
            groups |= wire.groups_of(device.made)
        counted = {state.CPUS: cpus, state.DVPP: dvpp, state.GROUPS: len(groups), state.UNMADE: unmade}
        return Usage(0, cores, len(pods)), counted

    def shown(self, card: Card, counted: Counted, conf: SchedulerConf) -> CardCount:
        """Return the usage, and the AI cores of the largest part for which the chip has room."""
        used, found = counted
        free = common.largest_free(card, used)
        return CardCount(used, state.largest_part(free, found) if free and used.slots else free)


class MindCluster(OneByOne):
    """The family ``mindcluster``."""

    name = wire.MODE
    flag = "deviceshare.AscendMindClusterVNPUEnable"
    hardware = ASCEND
    modes = frozenset({wire.MODE})
    accounting: Accounting | None = PartAccounting()
    best_node_score = 8.0
    held_annotations = frozenset({CORES, wire.REAL})
    pod_labels = frozenset({wire.TASK, wire.LEVEL, wire.DVPP})
    sliced_modes = modes
    programs: tuple[Program, ...] = (Program("ClusterD", "clusterd", "keep it"),)
    plugin: DevicePlugin = MindClusterPlugin()

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the chips of a node that offers AI cores."""
        if not node.capacity.get(CORES):
            return ()
        return wire.read_chips(node.labels, node.annotations.get(wire.BASE_INFO), node.devices(), node.name)

    def describes_devices(self, namespace: str, name: str) -> bool:
        """Return whether a ConfigMap is one of ClusterD or of the device plugin."""
        return wire.describes_devices(namespace, name)

    def read_devices(
        self, namespace: str, name: str, labels: Mapping[str, str], data: Mapping[str, str]
    ) -> DevicesByNode:
        """Parse such a ConfigMap."""
        return wire.read_devices(namespace, name, labels, data)

    def resources(self, conf: SchedulerConf) -> frozenset[str]:
        """Return ``huawei.com/npu-core``."""
        return frozenset({CORES})

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return ``huawei.com/npu-core``."""
        return CardNames(cores=CORES)

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> MindClusterDemand | None:
        """Read the sum over containers, and the labels: one part of a chip, or whole chips, for the whole pod."""
        return chip_demand(self.name, ask, conf)

    def pick(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> Picks:
        """Pick a chip for a part, or the first unused chips."""
        assert isinstance(demand, MindClusterDemand)
        fits, columns, details = choose(chips_of(view), demand)
        return Picks(fits, columns, np.zeros(len(fits)), details)

    def place(self, demand: Demand, view: CardView, conf: SchedulerConf) -> Places:
        """Pick and charge.

        The best node is the one with the fewest unused AI cores; nodes that give the requested template go before
        nodes that downgrade it.
        """
        idle = chips_of(view).idle
        places = super().place(demand, view, conf)
        rank = np.where(places.fits, -(idle + _BEHIND * places.details[0][:, 0]), 0)
        places.rank = rank.astype(np.float64)
        return places

    def charge(self, demand: Demand, cards: CardDemand, view: CardView, picks: Picks) -> None:
        """Charge AI cores, a slot, AI CPUs and DVPP of each picked chip."""
        assert isinstance(demand, MindClusterDemand)
        assert picks.details is not None
        rows, columns = np.flatnonzero(picks.fits)[:, None], picks.columns[picks.fits]
        templates = demand.templates or (WHOLE,)
        cpus = np.array([template.cpus for template in templates])
        view.cores_used[rows, columns] += cards.cores
        view.slots_used[rows, columns] += 1
        view.state[state.CPUS][rows, columns] += cpus[picks.details[picks.fits]]
        # A downgraded template only has fewer AI CPUs.
        dvpp = view.state[state.DVPP]
        dvpp[rows, columns] = np.maximum(dvpp[rows, columns], state.DVPP_TAKEN[templates[0].dvpp])

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return one grant for each container; all share the devices of the pod."""
        assert isinstance(demand, MindClusterDemand)
        cores = demand.cards[0].cores
        devices = [
            DeviceGrant(
                pick.card.id, pick.card.index, 0, cores, demand.templates[pick.detail].name if demand.templates else ""
            )
            for pick in chosen[0]
        ]
        return deal(self.name, demand.shares, devices)

    def pick_of(
        self, demand: Demand, cards: CardDemand, device: DeviceGrant, card: Card, conf: SchedulerConf
    ) -> Pick | None:
        """Return the chip, and the number of the template among the demand's."""
        assert isinstance(demand, MindClusterDemand)
        names = [template.name for template in demand.templates] or [""]
        return Pick(card, names.index(device.detail)) if device.detail in names else None

    def failed(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks for no chips, unhealthy chips, AI cores of the node, and room on each chip."""
        assert isinstance(demand, MindClusterDemand)
        chips = chips_of(view)
        found = common.any_card(chips.ours)
        few = found & (chips.idle < demand.asked)
        amount = common.Amount(CORES, demand.asked, np.maximum(chips.idle, 0))
        return [
            common.node_check("CardNotFound", "node(s) had no Ascend 310P chips of MindCluster", ~found),
            *common.health_checks(chips.ours, view),
            common.node_check("NodeInsufficientDevice", f"Insufficient {CORES}", few, amount),
            *(_part_checks(demand.templates[-1], chips) if demand.templates else [_whole_check(demand, chips)]),
        ]

    def annotations(
        self, claim: Claim, node: str, containers: Sequence[str], now: float, init_containers: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return the annotations with the chip and the template, or the chips, and the time."""
        devices = [device for grant in claim.grants if grant.family == self.name for device in grant.devices]
        chips = dict.fromkeys(device.index for device in devices)
        return {
            CORES: wire.write_given(chips, devices[0].detail),
            wire.PREDICATE_TIME: str(round(now * 1_000_000_000)),
        }

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Read the chips and the template, and whether the device plugin has made the part yet."""
        text = annotations.get(CORES)
        if not text or not (asked := cores_asked(ask)):
            return ()
        chips, name = wire.read_given(text, pod)
        template = wire.TEMPLATES.get(name)
        each = template.cores if template is not None else asked if name else CHIP_CORES
        made = wire.read_real(annotations) or UNMADE_PART
        devices = [DeviceGrant(wire.chip_id(chip), chip, 0, each, name, made=made) for chip in chips]
        grants = deal(self.name, asking(ask), devices)
        field = f"metadata.annotations[{CORES}]"
        if name and template is None:
            error = FormatError(f"Pod {pod}", field, text, f"one of the templates {', '.join(wire.TEMPLATES)}")
            raise HeldInPart(error, grants)
        if each * len(chips) != asked:
            error = FormatError(f"Pod {pod}", field, text, f"{asked} AI cores, as the pod requests")
            if each * len(chips) > asked:
                raise error
            # Volcano allocates the request of the first container and ignores the others (GetPodResource).
            raise HeldInPart(error, tuple(grant for grant in grants if grant.devices))
        return grants

    def at_most(self, device: DeviceGrant, asked: CardDemand, card: Card | None) -> DeviceGrant:
        """Return the device unchanged: :meth:`held` has checked it against the request."""
        return device

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return the variables that the device plugin injects; it numbers a vNPU when it makes it."""
        if grant.devices[0].detail:
            return {"ASCEND_RUNTIME_OPTIONS": "VIRTUAL"}
        return {"ASCEND_VISIBLE_DEVICES": ",".join(str(device.index) for device in grant.devices)}

    def caveats(self, grants: Sequence[ContainerGrant]) -> tuple[str, ...]:
        """Warn of AI cores in several containers.

        kubelet requests devices container by container, and the plugin chooses a pod with as many AI cores as one
        request (ascend-device-plugin, pkg/server/plugin.go).
        """
        if len(grants) < 2:
            return ()
        names = ", ".join(grant.container for grant in grants)
        limit = "the Ascend device plugin serves a container only that asks all of the pod's AI cores"
        return (f"{CORES} in {len(grants)} containers ({names}): {limit}",)


def _part_checks(least: Template, chips: ChipStates) -> list[Check]:
    """Return the checks of chips for the smallest template of a demand."""
    failed = failures(chips, least)

    def amount_check(code: str, asked: int, free: Ints, unit: str) -> Check:
        text = f"Insufficient {unit} on a chip"
        amount = common.Amount(CORES, asked, unit=unit).on_cards(free, chips.healthy, failed[code], 1)
        return common.card_check(code, text, failed[code], amount)

    many_groups = "node(s) had chips that are partitioned into too many groups"
    waiting = f"node(s) had chips with a pod that waits for its vNPU ({wire.REAL})"
    return [
        amount_check("CardInsufficientCore", least.cores, chips.free_cores, "AI cores"),
        amount_check("CardInsufficientCpu", least.cpus, chips.free_cpus, "AI CPUs"),
        common.card_check("CardDvppTaken", "node(s) had chips whose DVPP is in use", failed["CardDvppTaken"]),
        common.card_check("CardGroupsTooSmall", many_groups, failed["CardGroupsTooSmall"]),
        common.card_check("CardPartsUnmade", waiting, failed["CardPartsUnmade"]),
    ]


def _whole_check(demand: MindClusterDemand, chips: ChipStates) -> Check:
    count = demand.cards[0].count
    unused = np.count_nonzero(chips.unused, axis=1).astype(np.int64)
    return common.card_check(
        "ExclusiveDeviceAllocateConflict",
        "node(s) had chips in use where whole chips are asked",
        chips.healthy & ~chips.unused & (unused < count)[:, None],
        common.Amount(CORES, count, unused, "whole chips"),
    )
