"""Cards cut by software into memory (MiB) and cores (percent), shared by a limited number of containers.

Rules: Volcano pkg/scheduler/api/devices/nvidia/vgpu (utils.go, device_info.go). Where Volcano is wrong we differ:
unhealthy cards are never given, both type lists count, spread prefers the node with the fewest shares.
"""

from collections.abc import Sequence

from deviceshare.cards import Bools, CardView, Ints
from deviceshare.claims import ContainerGrant, DeviceGrant
from deviceshare.conf.model import SchedulerConf
from deviceshare.facts import Card
from deviceshare.families import common
from deviceshare.families.protocol import CardDemand, Check, Demand, Pick, Picks, Places
from deviceshare.families.vgpu import cards as vgpu_cards
from deviceshare.families.vgpu import request
from deviceshare.families.vgpu.base import Vgpu


class SoftwareVgpu(Vgpu):
    """A vGPU family whose cards give any amount of memory that is left."""

    def place(self, demand: Demand, view: CardView, conf: SchedulerConf) -> Places:
        """Choose and charge, container by container."""
        return common.place_one_by_one(
            demand,
            view,
            lambda cards: self._pick(demand, cards, view, conf.policy),
            lambda cards, picks: common.charge(cards, view, picks),
        )

    def _pick(self, demand: Demand, cards: CardDemand, view: CardView, policy: str) -> Picks:
        memory = common.memory_asked(cards, view)
        usable = vgpu_cards.candidates(demand, view, self.name) & (view.memory_used + memory <= view.memory)
        for failed in self._failures(cards, view).values():
            usable &= ~failed
        fits, columns = common.choose(usable, vgpu_cards.order(view, policy), cards.count, view.preferred)
        return Picks(fits, columns, vgpu_cards.score(view, memory, fits, columns, policy))

    def grants(
        self, demand: Demand, chosen: Sequence[Sequence[Pick]], conf: SchedulerConf
    ) -> tuple[ContainerGrant, ...]:
        """One grant a container, its devices in the order in which they were chosen."""
        return tuple(
            ContainerGrant(
                cards.container,
                cards.position,
                self.name,
                tuple(
                    DeviceGrant(card.id, card.index, request.memory_on(cards, card), cards.cores) for card, _ in devices
                ),
                cards.stage,
            )
            for cards, devices in zip(demand.cards, chosen, strict=True)
        )

    def checks(self, demand: Demand, view: CardView, conf: SchedulerConf) -> list[Check]:
        """Return what keeps the demand from nodes, container by container."""
        return common.check_one_by_one(
            demand,
            lambda cards: self._pick(demand, cards, view, conf.policy),
            lambda cards, picks: common.charge(cards, view, picks),
            lambda cards: self._checks(demand, cards, view, conf),
            common.in_turn(demand, view),
        )

    def _checks(self, demand: Demand, cards: CardDemand, view: CardView, conf: SchedulerConf) -> list[Check]:
        usable = vgpu_cards.candidates(demand, view, self.name)
        free: Ints = view.memory - view.memory_used
        short = usable & (free < common.memory_asked(cards, view))
        return common.some(
            [
                *vgpu_cards.checks_of_cards(demand, cards, view, self.name, usable, conf),
                *vgpu_cards.checks_of_room(cards, view.cores_used, usable, self._failures(cards, view), conf),
                vgpu_cards.memory_check("CardInsufficientMemory", "on a card", cards, view, short, usable, free, conf),
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
