"""hami-core and MPS: software shares memory (MiB) and cores (percent) among a limited number of containers.

Rules: Volcano pkg/scheduler/api/devices/nvidia/vgpu (utils.go, device_info.go). Deviations from
Volcano: unhealthy cards are never used, both type lists count, spread prefers the node with the fewest shares.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from deviceshare.conf import SchedulerConf
from deviceshare.families import common, selection
from deviceshare.families.protocol import CardDemand, Check, Demand, NodeView, Picks
from deviceshare.families.vgpu import cards as vgpu_cards
from deviceshare.families.vgpu import pod_annotations, request, wire
from deviceshare.families.vgpu.base import Vgpu
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.kernels import SharedCardSelector
from deviceshare.model import Card, ContainerGrant, PodRequest
from deviceshare.state import CardView, Codes, Ints

_NAMES = VgpuConf()
_OFFERED = (_NAMES.number, _NAMES.memory, _NAMES.cores)


class SoftwareVgpu(Vgpu):
    """A vGPU family whose cards give any free amount of memory."""

    def kernel(self, demand: Demand, cards: CardDemand, codes: Codes, conf: SchedulerConf) -> SharedCardSelector:
        """Pick by the policy."""
        kinds = codes.kinds
        asked = common.memory_of_kinds(cards, kinds)
        usable = selection.usable_kinds(demand, self.name, codes)
        selector = SharedCardSelector(cards.count, kinds.memory, asked, usable)
        alone = cards.cores == request.ALL_CORES
        selector.most_shares = np.minimum(kinds.slots - 1, 0 if alone else kinds.slots)
        selector.most_cores = vgpu_cards.most_cores(cards)
        common.set_policies(selector, conf, cards, kinds, usable)
        if not conf.extensions.spread_nodes:
            selector.emptiness = 0.0
        return selector

    def pick(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> Picks:
        """Pick for one container."""
        selector = self.kernel(demand, cards, view, conf)
        return common.picks_of(selector, view, vgpu_cards.allowed_by_name(demand, view))

    def failed(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return the checks that cards fail; checks about room only for cards that the pod may use."""
        usable = vgpu_cards.candidates(demand, view, self.name)
        free: Ints = view.memory - view.memory_used
        short = usable & (free < common.memory_asked(cards, view))
        names = self.names(conf)
        memory = vgpu_cards.memory_amount(cards, view, short, usable, free, names)
        failures = vgpu_cards.failures(cards, view.slots, view.slots_used, view.cores_used)
        return [
            *self.checks_of_cards(demand, view),
            vgpu_cards.check_of_number(cards, usable, names),
            *vgpu_cards.checks_of_room(cards, view.cores_used, usable, failures, names),
            common.card_check("CardInsufficientMemory", f"Insufficient {memory.resource} on a card", short, memory),
        ]

    def checks_of_cards(self, demand: Demand, view: CardView) -> list[Check]:
        """Return the checks of single cards that do not depend on usage."""
        return vgpu_cards.checks_of_cards(demand, view, self.name)

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return the limits that HAMi-core reads in the container."""
        environment = {"NVIDIA_VISIBLE_DEVICES": ",".join(device.id for device in grant.devices)}
        for number, device in enumerate(grant.devices):
            environment[f"CUDA_DEVICE_MEMORY_LIMIT_{number}"] = f"{device.memory}m"
        environment["CUDA_DEVICE_SM_LIMIT"] = str(grant.devices[0].cores)
        return environment


class HamiCore(SoftwareVgpu):
    """The family ``hami-core``: cards that HAMi-core shares, and cards that are registered without a mode.

    It reads the cards of all modes, which one annotation registers.
    """

    def __init__(self) -> None:
        super().__init__(wire.HAMI_CORE)

    def node_cards(self, node: NodeView) -> tuple[Card, ...]:
        """Return the cards of the register annotation, whatever their mode.

        Where kubelet offers 0 of a vGPU resource all of them are unhealthy: their device plugin reports them so, or is
        gone, and kubelet rejects pods that request the resource. (Volcano has no cards there.) Resources that the node
        does not have are ignored.
        """
        register = node.annotations.get(wire.REGISTER)
        if not register:
            return ()
        cards = wire.read_register(register, node.name)
        if 0 in (node.allocatable.get(name) for name in _OFFERED):
            return tuple(replace(card, healthy=False) for card in cards)
        return cards

    def held(self, annotations: Mapping[str, str], ask: PodRequest, pod: str) -> tuple[ContainerGrant, ...]:
        """Return all devices except MIG instances; devices of MPS cards have the same format and are charged alike."""
        return tuple(pod_annotations.read(annotations, ask, pod, self.name, is_mig=False))


class Mps(SoftwareVgpu):
    """The family ``mps``: cards that NVIDIA's Multi-Process Service shares, with the arithmetic of hami-core.

    Volcano takes a node that registers ``mps`` for hami-core (vgpu/utils.go getSharingMode): a pod with the mode
    ``mps`` is feasible nowhere.
    """

    def __init__(self) -> None:
        super().__init__(wire.MPS)
