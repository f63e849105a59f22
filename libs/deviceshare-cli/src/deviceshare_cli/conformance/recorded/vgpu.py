"""vGPU: state ``[[pods, MiB, cores], …]`` by card.

Of MIG cards beside: ``[[geometry or -1, [[instance, [used ones]], …]], …]``, the used ones counted within the kind.
"""

from collections.abc import Iterable

from deviceshare.conf.device_model import MigGroup, VgpuConf
from deviceshare.facts import Card
from deviceshare.families.vgpu import cutting
from deviceshare.formats import vgpu

from deviceshare_cli.conformance.cases import Answered, Case
from deviceshare_cli.conformance.recorded.form import filled
from deviceshare_cli.conformance.scene import Standing

UNCUT = -1


class HamiCore:
    """vGPUs of cards that are cut by software."""

    def is_ours(self, case: Case, card: Card) -> bool:
        """Return whether it is a vGPU card, however it is cut."""
        return card.mode in vgpu.MODES

    def choice(self, case: Case) -> str:
        """Return ``vgpu-ids-new``."""
        return vgpu.IDS

    def is_scored(self, case: Case) -> bool:
        """Return True."""
        return True

    def bare(self, key: str, value: str) -> str:
        """Drop empty slots: Volcano leaves none for a container without a request."""
        return filled(value) if key in (vgpu.IDS, vgpu.TO_ALLOCATE) else value

    def recorded(self, case: Case, step: Answered) -> object:
        """Return what is taken of the cards."""
        return step.state

    def state(self, case: Case, standing: Standing) -> object:
        """Return the same of ours."""
        used = standing.allocator.used_cards(standing.node.name)
        return [[taken.slots, taken.memory, taken.cores] for taken in used]


class Mig(HamiCore):
    """vGPUs of MIG cards."""

    def recorded(self, case: Case, step: Answered) -> object:
        """Return what is taken of the cards, and which instances.

        The cache of Volcano mixes up which of several equal instances is used: there they are only counted.
        """
        instances = [
            [geometry, [[name, len(used) if case.mode == "cache" else used] for name, used in kinds]]
            for geometry, kinds in step.mig or ()
        ]
        return {"cards": step.state, "instances": instances}

    def state(self, case: Case, standing: Standing) -> object:
        """Return the same of ours."""
        allocator, node = standing.allocator, standing.node
        cuts, used = (allocator.card_state(node.name, name) for name in (cutting.CUT, cutting.USED))
        instances = []
        for card, cut, bits in zip(node.cards, cuts, used, strict=True):
            if card.mode == vgpu.MIG:
                kinds = _kinds(_groups(allocator.conf.devices.vgpu, card)[cut - 1], bits) if cut > 0 else ()
                shown = [[name, len(places) if case.mode == "cache" else places] for name, places in kinds]
                instances.append([cut - 1 if cut > 0 else UNCUT, shown])
        return {"cards": super().state(case, standing), "instances": instances}


def _groups(conf: VgpuConf, card: Card) -> tuple[MigGroup, ...]:
    return next(model.groups for model in conf.geometries if any(name in card.type for name in model.models))


def _kinds(group: MigGroup, bits: int) -> Iterable[tuple[str, list[int]]]:
    """Yield the kinds of instance that are used, and the numbers of the used ones."""
    first = 0
    for instance in group.instances:
        used = [number for number in range(instance.count) if bits >> (first + number) & 1]
        first += instance.count
        if used:
            yield instance.name, used
