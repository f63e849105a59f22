"""vGPU: state ``[[pods, MiB, cores], …]`` by card.

Of MIG cards beside: ``[[geometry or -1, [[instance, [used ones]], …]], …]``, the used ones counted within the kind.
"""

from collections.abc import Iterable

from deviceshare.conf import MigGroup, VgpuConf
from deviceshare.families.vgpu import cutting
from deviceshare.formats import vgpu
from deviceshare.model import Card, NodeFact

from deviceshare_cli.conformance.cases import Answered, Case, Cut, Initial
from deviceshare_cli.conformance.recorded.form import filled
from deviceshare_cli.conformance.scene import ReplayState

UNCUT = -1


class HamiCore:
    """vGPUs of cards that are cut by software."""

    columns = 3

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether the node has vGPU cards, however they are cut."""
        return any(card.mode in vgpu.MODES for card in node.cards)

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
        return [list(row) for row in step.state or ()]

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return the same of ours."""
        used = state.allocator.used_cards(state.node.name)
        return [[taken.slots, taken.memory, taken.cores] for taken in used]


class Mig(HamiCore):
    """vGPUs of MIG cards."""

    def recorded(self, case: Case, step: Answered) -> object:
        """Return what is taken of the cards, and which instances."""
        return _shown(case, step, super().recorded(case, step), step.mig or ())

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return the same of ours."""
        allocator, node = state.allocator, state.node
        cuts, used = (allocator.card_state(node.name, name) for name in (cutting.CUT, cutting.USED))
        instances: list[Cut] = [
            (cut - 1, list(_kinds(_groups(allocator.conf.devices.vgpu, card)[cut - 1], bits)))
            if cut > 0
            else (UNCUT, [])
            for card, cut, bits in zip(node.cards, cuts, used, strict=True)
            if card.mode == vgpu.MIG
        ]
        return _shown(case, step, super().state(case, step, state), instances)


def _shown(case: Case, step: Answered, cards: object, instances: Iterable[Cut]) -> object:
    """Return what is compared.

    Of the cache it was not always noted which of several equal instances is used, so there they are only counted; a
    card keeps its geometry there when nobody is on it any more. A session does not note which instances it gives.
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
    """Yield the kinds of instance that are used, and the numbers of the used ones."""
    first = 0
    for instance in group.instances:
        used = [number for number in range(instance.count) if bits >> (first + number) & 1]
        first += instance.count
        if used:
            yield instance.name, used
