"""Best-fit, the published baseline, on the cards of a cluster: written without the product's code."""

from collections.abc import Iterator
from typing import NamedTuple

from deviceshare.families.hami_vnpu.section import VnpuChip, VnpuConf
from deviceshare.families.vgpu.section import MigModel, VgpuConf

from deviceshare_lab.studies.partitions.clusters import Cluster


class Offer(NamedTuple):
    """What a card has for a pod: MiB beyond the request, MiB that stay free, and how the card is charged."""

    waste: int
    left: int
    charge: tuple[int, int]


class MigCard:
    """A card with one geometry while it has pods; an empty card takes the first geometry that has an instance."""

    def __init__(self, model: MigModel, resource: str) -> None:
        self.resource = resource
        self._geometries = [
            [each.memory for each in group.instances for _ in range(each.count)] for group in model.groups
        ]
        self._geometry = -1
        self._used: set[int] = set()

    def offer(self, memory: int) -> Offer | None:
        """Return the smallest instance that suffices, None without one."""
        numbers = range(len(self._geometries)) if self._geometry < 0 else (self._geometry,)
        for number in numbers:
            sizes = self._geometries[number]
            free = [(size, at) for at, size in enumerate(sizes) if at not in self._used]
            if (best := min((each for each in free if each[0] >= memory), default=None)) is not None:
                left = sum(size for size, _ in free) - best[0]
                return Offer(best[0] - memory, left, (number, best[1]))
        return None

    def take(self, charge: tuple[int, int], sign: int) -> None:
        """Charge an offer, or end it (-1)."""
        self._geometry, position = charge
        if sign > 0:
            self._used.add(position)
            return
        self._used.remove(position)
        if not self._used:
            self._geometry = -1


class Chip:
    """A chip that is partitioned by templates; a request gets the smallest one that suffices, or the whole chip."""

    def __init__(self, chip: VnpuChip) -> None:
        self.resource = chip.memory_resource
        self._templates = [(each.memory, each.ai_cores, each.ai_cpus) for each in chip.templates]
        self._templates.append((chip.memory_allocatable, chip.ai_cores, chip.ai_cpus))
        self._free = self._templates[-1]

    def offer(self, memory: int) -> Offer | None:
        """Return the template that a request gets, None without room for it."""
        number = next(at for at, each in enumerate(self._templates) if each[0] >= memory)
        taken = self._templates[number]
        if any(free < amount for free, amount in zip(self._free, taken, strict=True)):
            return None
        return Offer(taken[0] - memory, self._free[0] - taken[0], (number, 0))

    def take(self, charge: tuple[int, int], sign: int) -> None:
        """Charge an offer, or end it (-1)."""
        memory, cores, cpus = self._templates[charge[0]]
        self._free = self._free[0] - sign * memory, self._free[1] - sign * cores, self._free[2] - sign * cpus


class BestFit:
    """The card on which the least memory stays free; or, with ``by_instance``, first the least waste of an instance.

    Of equal cards the first one of the first node is taken.
    """

    def __init__(self, cluster: Cluster, seed: int, *, by_instance: bool = False) -> None:
        self._profiles = cluster.profiles
        self._by_instance = by_instance
        self._cards = list(_cards(cluster, seed))
        self._placed: dict[int, tuple[MigCard | Chip, tuple[int, int]]] = {}

    def place(self, pod: int, profile: int) -> bool:
        """Place a pod; return whether a card was feasible."""
        asked = self._profiles[profile]
        best: tuple[tuple[int, int], MigCard | Chip, tuple[int, int]] | None = None
        for card in self._cards:
            offer = card.offer(asked.memory) if card.resource == asked.resource else None
            if offer is not None:
                key = (offer.waste if self._by_instance else 0, offer.left)
                if best is None or key < best[0]:
                    best = key, card, offer.charge
        if best is None:
            return False
        _, card, charge = best
        card.take(charge, 1)
        self._placed[pod] = card, charge
        return True

    def leave(self, pod: int) -> None:
        """End a pod."""
        card, charge = self._placed.pop(pod)
        card.take(charge, -1)


def _cards(cluster: Cluster, seed: int) -> Iterator[MigCard | Chip]:
    chips = {each.word: each for each in cluster.devices.section(VnpuConf).chips}
    for node in cluster.nodes(seed):
        for card in node.cards:
            if card.type in chips:
                yield Chip(chips[card.type])
            else:
                vgpu = cluster.devices.section(VgpuConf)
                model = next(each for each in vgpu.geometries if any(name in card.type for name in each.models))
                yield MigCard(model, vgpu.memory)
