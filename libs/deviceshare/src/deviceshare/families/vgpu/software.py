"""Cards cut by software into memory (MiB) and cores (percent), shared by a limited number of containers.

Rules: Volcano pkg/scheduler/api/devices/nvidia/vgpu (utils.go, device_info.go). Where Volcano is wrong we differ:
unhealthy cards are never given, both type lists count, spread prefers the node with the fewest shares.
"""

from collections.abc import Sequence

from deviceshare.cards import Bools, CardView, Ints
from deviceshare.claims import ContainerGrant
from deviceshare.conf.model import SchedulerConf
from deviceshare.facts import Card
from deviceshare.families import common
from deviceshare.families.protocol import CardDemand, Check, Demand, Picks
from deviceshare.families.vgpu import cards as vgpu_cards
from deviceshare.families.vgpu.base import Vgpu


class SoftwareVgpu(Vgpu):
    """A vGPU family whose cards give any amount of memory that is left."""

    def pick(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> Picks:
        """Choose the cards with most memory used, with the fewest shares, or the last ones, as the policy is."""
        memory = common.memory_asked(cards, view)
        usable = vgpu_cards.candidates(demand, view, self.name) & (view.memory_used + memory <= view.memory)
        for failed in self._failures(cards, view).values():
            usable &= ~failed
        fits, columns = common.choose(usable, vgpu_cards.order(view, conf.policy), cards.count, view.preferred)
        return Picks(fits, columns, vgpu_cards.score(view, memory, fits, columns, conf.policy))

    def failed(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return what is wrong with cards; about room only of those that may be chosen at all."""
        usable = vgpu_cards.candidates(demand, view, self.name)
        free: Ints = view.memory - view.memory_used
        short = usable & (free < common.memory_asked(cards, view))
        memory = vgpu_cards.memory_amounts(cards, view, short, usable, free, conf)
        return common.some(
            [
                *vgpu_cards.checks_of_cards(demand, cards, view, self.name, usable, conf),
                *vgpu_cards.checks_of_room(cards, view.cores_used, usable, self._failures(cards, view), conf),
                common.amount_check(
                    "CardInsufficientMemory", f"Insufficient {memory.resource} on a card", short, **memory._asdict()
                ),
            ]
        )

    def _failures(self, cards: CardDemand, view: CardView) -> dict[str, Bools]:
        return vgpu_cards.failures(cards, view.slots, view.slots_used, view.cores_used)

    def environment(self, grant: ContainerGrant, cards: Sequence[Card]) -> dict[str, str]:
        """Return the limits that HAMi-core reads in the container."""
        environment = {"NVIDIA_VISIBLE_DEVICES": ",".join(device.id for device in grant.devices)}
        for number, device in enumerate(grant.devices):
            environment[f"CUDA_DEVICE_MEMORY_LIMIT_{number}"] = f"{device.memory}m"
        environment["CUDA_DEVICE_SM_LIMIT"] = str(grant.devices[0].cores)
        return environment
