"""vGPU: state ``[[pods, MiB, cores], …]`` by card.

For MIG cards also ``[[geometry or -1, [[instance, [used indexes]], …]], …]``, with indexes within the kind.
"""

from collections.abc import Iterable

from deviceshare.families.vgpu import cutting, wire
from deviceshare.families.vgpu.section import MigGroup, VgpuConf
from deviceshare.model import Card

from deviceshare_lab.conformance.cases import Answered, Case, Cut, Initial
from deviceshare_lab.conformance.recorded.form import Form
from deviceshare_lab.conformance.scene import ReplayState

UNCUT = -1


class HamiCore(Form):
    """vGPUs of cards that are shared by software."""

    def has(self, case: Case, card: Card) -> bool:
        """Return whether a card has vGPUs in any mode."""
        return card.mode in wire.MODES

    def choice(self, case: Case) -> str:
        """Return ``vgpu-ids-new``."""
        return wire.IDS

    def bare(self, key: str, value: str) -> str:
        """Drop empty slots: Volcano writes none for a container without a request."""
        return ";".join(filter(None, value.split(";"))) if key in (wire.IDS, wire.TO_ALLOCATE) else value


class Mig(HamiCore):
    """vGPUs of MIG cards."""

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the allocation of the cards and their used instances."""
        return _shown(case, step, super().recorded(case, step), step.mig or ())

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return our state in the form of :meth:`recorded`."""
        allocator, node = state.allocator, state.node
        cuts, used = (allocator.card_state(node.name, name) for name in (cutting.CUT, cutting.USED))
        instances: list[Cut] = [
            (cut - 1, list(_kinds(_groups(allocator.conf.devices.section(VgpuConf), card)[cut - 1], bits)))
            if cut > 0
            else (UNCUT, [])
            for card, cut, bits in zip(node.cards, cuts, used, strict=True)
            if card.mode == wire.MIG
        ]
        return _shown(case, step, super().state(case, step, state), instances)


def _shown(case: Case, step: Answered, cards: object, instances: Iterable[Cut]) -> object:
    """Return the compared values.

    In mode ``cache`` Volcano does not always record which of several equal instances is used: they are only counted;
    and an empty card keeps its geometry. In mode ``session`` Volcano does not record the instances.
    """
    if case.mode == "session" and not isinstance(step, Initial):
        return {"cards": cards}
    in_cache = case.mode == "cache"
    cut = [
        [
            UNCUT if in_cache and not kinds else geometry,
            {name: len(used) if in_cache else used for name, used in sorted(kinds)},
        ]
        for geometry, kinds in instances
    ]
    return {"cards": cards, "instances": cut}


def _groups(conf: VgpuConf, card: Card) -> tuple[MigGroup, ...]:
    return next(model.groups for model in conf.geometries if any(name in card.type for name in model.models))


def _kinds(group: MigGroup, bits: int) -> Iterable[tuple[str, list[int]]]:
    """Yield the used kinds of instance with the indexes of the used instances."""
    first = 0
    for instance in group.instances:
        used = [number for number in range(instance.count) if bits >> (first + number) & 1]
        first += instance.count
        if used:
            yield instance.name, used
