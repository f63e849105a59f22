"""gpu-number: a pod requests whole cards of a gpu-share node and gets unused cards.

Rules: Volcano pkg/scheduler/api/devices/nvidia/gpushare (share.go). Additions to Volcano: the cards with the lowest
indexes are picked, independent of the iteration order of a map; a card that is allocated whole is in use for gpu-share
as well; a node whose device plugin shares the memory of its cards is infeasible without
``deviceshare.GPUNumberOnSharedNodes``: its plugin writes the number of cards into the node's status, but registers only
their memory with kubelet (volcano-sh/devices, pkg/plugin/nvidia/server.go), and containers that request a number of
cards would run without a GPU.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from deviceshare.conf import SchedulerConf
from deviceshare.families import common, selection
from deviceshare.families.device_plugin import DevicePlugin
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
from deviceshare.families.volcano_gpu.gpu_share import PodGpus, candidates, card_checks, peak
from deviceshare.families.volcano_gpu.plugin import GpuPlugin
from deviceshare.model import INIT, WHOLE, Card, ContainerGrant, DeviceGrant, PodRequest, RequestError
from deviceshare.state import Bools, CardView

ALL_CORES = wire.CARD_CORES


class GpuNumber(PodGpus):
    """The family ``gpu-number``."""

    name = "gpu-number"
    flag = "deviceshare.GPUNumberEnable"
    resource = wire.NUMBER
    plugin: DevicePlugin = GpuPlugin(wire.NUMBER)

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return nothing: the cards are those of gpu-share."""
        return ()

    def card_names(self, of: Demand | Card, conf: SchedulerConf) -> CardNames:
        """Return the name of whole cards."""
        return CardNames(number=wire.NUMBER, whole=True)

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
        """Request the peak number of cards of the pod."""
        containers = common.by_stage(ask)
        shares = common.shares_of(containers, wire.NUMBER)
        count = peak(shares)
        if not count:
            return None
        if common.shares_of(containers, wire.MEMORY):
            raise RequestError(
                "Pod",
                f"spec.containers[*].resources.limits[{wire.NUMBER}]",
                count,
                f"either {wire.NUMBER} or {wire.MEMORY}: the device plugin cuts a card in one way",
            )
        return Demand(
            family=self.name,
            cards=(CardDemand(count=count, memory=0, cores=ALL_CORES),),
            shares=shares,
            **selection.wishes(ask, conf)._asdict(),
        )

    def pick(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> Picks:
        """Pick the unused cards with the lowest indexes.

        Fullness: 100·cards used after the placement / cards, so that nodes fill up; emptiness: 100/(1 + shares on the
        node).
        """
        usable = candidates(demand, view) & _unused(view) & ~_shared(view, conf)
        index = np.arange(view.mode.shape[1], dtype=np.int64)[None, :]
        fits, columns = common.choose(usable, index, cards.count)
        of_mode = view.of_mode(wire.MODE)
        total = np.maximum(np.count_nonzero(of_mode, axis=1), 1)
        used = np.count_nonzero(of_mode & ~_unused(view), axis=1)
        full, empty = 100.0 * (used + cards.count) / total, 100.0 / (1 + view.slots_used.sum(axis=1))
        score = conf.scoring.fullness * full + conf.scoring.emptiness * empty
        return Picks(fits, columns, np.where(fits, score, 0.0))

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Distribute the cards to the containers in turn."""
        cards = [pick.card for pick in chosen[0]]
        return self._deal(demand.shares, [DeviceGrant(card.id, card.index, card.memory, ALL_CORES) for card in cards])

    def _deal(self, shares: Sequence[ContainerShare], devices: Sequence[DeviceGrant]) -> tuple[ContainerGrant, ...]:
        """Distribute the devices; an init container, which runs before the others, shares the first ones."""
        rest = iter(devices)
        dealt = (
            (share, devices[: share.amount] if share.stage == INIT else islice(rest, share.amount)) for share in shares
        )
        return tuple(
            ContainerGrant(share.container, share.position, self.name, given, share.stage)
            for share, given in ((share, tuple(each)) for share, each in dealt)
            if given
        )

    def failed(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks for no cards, a plugin that shares them, unhealthy, excluded, and too few unused cards."""
        shared = _shared(view, conf)
        usable = candidates(demand, view) & ~shared
        in_use = usable & ~_unused(view)
        taken = np.count_nonzero(in_use, axis=1)
        free = np.count_nonzero(usable, axis=1) - taken
        # On nodes without any usable card the other checks are the reasons.
        few = common.any_card(usable) & (free < cards.count)
        text = f"Insufficient {wire.NUMBER}"
        number = Check("NodeInsufficientDevice", text, few, taken, wire.NUMBER, cards.count, free, cards=in_use)
        plugin = f"node(s) had a device plugin that shares {wire.MEMORY} and does not serve {wire.NUMBER}"
        return [*card_checks(demand, view), common.card_check("ModeNotFit", plugin, shared), number]

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Read ``gpu-index``; the containers took the cards in turn."""
        shares = common.shares_of(common.by_stage(ask), wire.NUMBER)
        if not shares:  # gpu-share reads the annotation, and reports its errors
            return ()
        indexes = wire.read_index(annotations.get(wire.INDEX, ""), pod)
        devices = [DeviceGrant(str(index), index, WHOLE, ALL_CORES) for index in indexes]
        return self._deal(shares, devices)

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return what volcano-sh/devices injects in its strategy ``number``."""
        return {"NVIDIA_VISIBLE_DEVICES": ",".join(str(device.index) for device in grant.devices)}


def _shared(view: CardView, conf: SchedulerConf) -> Bools:
    """Return bool[R, D]: cards whose memory the plugin registers with kubelet, and not their number."""
    shared: Bools = view.of_mode(wire.MODE) & (view.memory > 0)
    return shared & (not conf.number_on_shared_nodes)


def _unused(view: CardView) -> Bools:
    unused: Bools = (view.slots_used == 0) & (view.memory_used == 0)
    return unused
