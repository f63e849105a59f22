"""MIG: cards that the hardware partitions into instances of fixed sizes, each for one container.

Geometries: :mod:`.geometry`; picking instances: :mod:`.cutting`. Rules: Volcano
pkg/scheduler/api/devices/nvidia/vgpu/mig.go. Memory is charged by the instance, cores as requested.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from deviceshare.conf import FIRST_FIT, SchedulerConf
from deviceshare.families import common
from deviceshare.families.protocol import Accounting, CardCount, CardDemand, Demand, ExpectedDemand, HeldInPart, Pick
from deviceshare.families.vgpu import pod_annotations, wire
from deviceshare.families.vgpu.base import Vgpu
from deviceshare.families.vgpu.cutting import CUT, USED, Cutting, MigKinds, granted, instance_of, selector_of
from deviceshare.families.vgpu.geometry import MIXED_UP, UNUSED, Wanted, geometries_of, recut, rounded_up
from deviceshare.families.vgpu.request import is_whole
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.kernels import CUT_BITS, UNPARTITIONED, CardSelector
from deviceshare.model import WHOLE, Card, ContainerGrant, DeviceGrant, PodRequest
from deviceshare.state import CardShare, CardView, Codes, Counted, Usage, usage_of

_NO_INSTANCES: Counted = Usage(), {CUT: UNUSED, USED: 0}
_INSTANCE = re.compile(r"[^-\s]+-[0-9]{1,3}")


class MigAccounting(Accounting):
    """Each pod takes the instances that it holds."""

    state = (CUT, USED)

    def count(self, card: Card, pods: Sequence[Sequence[CardShare]], conf: SchedulerConf) -> Counted:
        """Charge each instance once to each pod that holds it, and cores as on other cards."""
        counted = _NO_INSTANCES
        for shares in pods:
            counted = self.add(card, counted, shares, conf)
        return counted

    def add(self, card: Card, counted: Counted, shares: Sequence[CardShare], conf: SchedulerConf) -> Counted:
        """Charge one more pod.

        A share that names no instance of the card's model is charged its request. In that case, and where pods hold
        instances of two geometries, the geometry of the card is not known (``MIXED_UP``).
        """
        (memory, cores, slots), state = counted
        cut, used = state[CUT], state[USED]
        geometries = geometries_of(conf.devices.section(VgpuConf), card.type)
        instances: set[tuple[int, int]] = set()
        for share in shares:
            device = share.device
            found = None if geometries is None else geometries.find(device.detail)
            if geometries is None or found is None:
                cut = MIXED_UP
                asked = device.asked if device.asked >= 0 else device.memory
                memory, slots = memory + (card.memory if asked == WHOLE else asked), slots + 1
            elif found not in instances:
                instances.add(found)
                cut = found[0] if cut in (UNUSED, found[0]) else MIXED_UP
                used |= 1 << found[1]
                memory, slots = memory + geometries.of(found[0]).sizes[found[1]], slots + 1
        cores += shares[0].device.cores if len(shares) == 1 else usage_of(card, shares).cores
        return Usage(memory, cores, slots), {CUT: cut, USED: used}

    def shown(self, card: Card, counted: Counted, conf: SchedulerConf) -> CardCount:
        """Return the usage, and the largest free instance."""
        used, state = counted
        geometries = geometries_of(conf.devices.section(VgpuConf), card.type)
        if geometries is None or not common.largest_free(card, used):
            return CardCount(used, 0)
        return CardCount(used, geometries.largest_free(state[CUT], state[USED]))

    def conflict(self, card: Card, pods: Sequence[Sequence[CardShare]], conf: SchedulerConf) -> str:
        """Pods may not have one instance, nor instances of two geometries."""
        if self.count(card, pods, conf)[1][CUT] == MIXED_UP:
            return "instances of one geometry"
        instances = [detail for shares in pods for detail in {share.device.detail for share in shares}]
        return "a free instance" if len(set(instances)) < len(instances) else ""


class Mig(Vgpu):
    """The family ``mig``."""

    accounting: Accounting | None = MigAccounting()
    counts_cores = False
    sliced_modes = frozenset({wire.MIG})

    def __init__(self) -> None:
        super().__init__(wire.MIG)

    def demand(self, ask: PodRequest, conf: SchedulerConf) -> Demand | None:
        """Read the request. Exclusion rules do not apply: the hardware isolates instances."""
        demand = super().demand(ask, conf)
        return demand if demand is None else replace(demand, apart_rules=())

    def steps(self, demand: Demand, view: CardView, conf: SchedulerConf) -> common.Steps:
        """Return how instances are picked and charged; init containers may use instances of the pod."""
        cutting = Cutting(demand, view, conf)
        of_mode = view.of_modes(self.modes)
        return common.Steps(demand.cards, cutting.pick, cutting.charge, cutting.checks, lambda _: of_mode)

    def kernel(self, demand: Demand, cards: CardDemand, codes: Codes, conf: SchedulerConf) -> CardSelector:
        """Pick instances by their waste and the policy."""
        return selector_of(demand, cards, codes, MigKinds(codes, conf), conf)

    def essence(self, demand: Demand, cards: CardDemand, conf: SchedulerConf) -> Demand:
        """Return the same demand for requests that get the same instances."""
        memory = cards.memory if cards.memory_percentage else rounded_up(conf.devices.section(VgpuConf), cards.memory)
        return common.essence(demand, memory=memory)

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, expected: ExpectedDemand
    ) -> tuple[ContainerGrant, ...]:
        """Return one grant a container. How an unpartitioned card is partitioned depends on the expected demand."""
        fresh = [pick for picks in chosen for pick in picks if pick.detail & UNPARTITIONED]
        recuts = _recuts(fresh, chosen, conf, expected.of(self.name)) if fresh else {}
        vgpu = conf.devices.section(VgpuConf)
        return common.grants_of(self.name, demand, chosen, lambda cards, pick: _device(cards, pick, recuts, vgpu))

    def pick_of(
        self, demand: Demand, cards: CardDemand, device: DeviceGrant, card: Card, conf: SchedulerConf
    ) -> Pick | None:
        """Return the instance if the card's model has it, and if it is large enough."""
        geometries = geometries_of(conf.devices.section(VgpuConf), card.type)
        found = None if geometries is None else geometries.find(device.detail)
        if geometries is None or found is None:
            return None
        cut, position = found
        needed = geometries.needed(common.memory_on(cards, card), whole=is_whole(cards))
        return Pick(card, cut << CUT_BITS | position) if geometries.of(cut).sizes[position] >= needed else None

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Return the MIG instances that a pod holds: devices with brackets."""
        grants = tuple(pod_annotations.read(annotations, ask, pod, self.name, is_mig=True))
        for grant in grants:
            for device in grant.devices:
                if not _INSTANCE.fullmatch(device.detail):
                    key = wire.INIT_IDS if grant.stage else wire.IDS
                    error = wire.ids_error(pod, key, wire.device_id(device), "UUID[group-position] for a MIG instance")
                    raise HeldInPart(error, grants)
        return grants

    def device_id(self, device: DeviceGrant) -> str:
        """Return ``UUID[group-position]``."""
        return wire.device_id(device)

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return nothing: the UUID of an instance is known once the device plugin has partitioned the card."""
        return {}


Recut = tuple[int, Mapping[int, int]]
"""The number of a geometry, and its positions by the equivalent positions of another geometry."""


def _recuts(
    fresh: Sequence[Pick], chosen: Sequence[Sequence[Pick]], conf: SchedulerConf, wanted: Wanted
) -> dict[str, Recut]:
    """Return for each card that was not partitioned the geometry that serves the ``wanted`` cards best.

    ``fresh``: the first pick on each such card.
    """
    # Fragmentation has scored the geometry that the kernel chose; another one costs up to 2 points of pods.
    if conf.mig_geometry == FIRST_FIT or conf.ordering.fragmentation:
        return {}
    positions: dict[str, set[int]] = {}
    # Generators would double the time.
    for picks in chosen:
        for pick in picks:
            positions.setdefault(pick.card.id, set()).add(instance_of(pick.detail).position)
    recuts: dict[str, Recut] = {}
    for pick in fresh:
        cut, used = instance_of(pick.detail).cut, frozenset(positions[pick.card.id])
        geometries = geometries_of(conf.devices.section(VgpuConf), pick.card.type)
        assert geometries is not None, pick.card
        recuts[pick.card.id] = recut(geometries, cut, used, wanted)
    return recuts


def _device(cards: CardDemand, pick: Pick, recuts: Mapping[str, Recut], vgpu: VgpuConf) -> DeviceGrant:
    card, detail = pick.card, pick.detail
    if recuts and card.id in recuts:
        cut, moved = recuts[card.id]
        detail = cut << CUT_BITS | moved[instance_of(detail).position]
    size, text = granted(vgpu, card.type, detail)
    return DeviceGrant(card.id, card.index, size, cards.cores, text, common.memory_on(cards, card))
