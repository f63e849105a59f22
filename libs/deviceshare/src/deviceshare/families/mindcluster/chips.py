"""Which chips take a part or are free as a whole, for all nodes at once.

Rules: Volcano pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu (utils.go). Arrays are R nodes × D cards.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deviceshare.families import common
from deviceshare.families.mindcluster.request import ChipDemand
from deviceshare.formats.mindcluster import CHIP_CORES, CHIP_CPUS, CORES, MODE, NO, NULL, YES, Template
from deviceshare.state import Bools, CardView, Ints

CPUS, DVPP, GROUPS, UNMADE = STATE = (
    "mindcluster-cpus",
    "mindcluster-dvpp",
    "mindcluster-groups",
    "mindcluster-unmade",
)
"""What is counted of a chip beside AI cores: AI CPUs taken, how far its DVPP is taken (``DVPP_TAKEN``), into how many
groups it is cut, how many pods wait for the device plugin to make their part."""

DVPP_TAKEN = {NO: 0, NULL: 1, YES: 2}
"""How far a part of this kind takes the DVPP of its chip; the part that takes most counts."""
_DVPP_ENDURED = {NO: 2, NULL: 1, YES: 0}
"""How far it may be taken for a part of this kind to have room."""

MOST_GROUPS = {1: 4, 2: 3, 4: 2}
"""Into how many groups a chip may be cut that takes a part of so many AI cores: more groups are smaller ones."""


class ChipStates(NamedTuple):
    """The chips of a view, and what is left of them."""

    ours: Bools
    healthy: Bools
    """Ours that are."""
    free_cores: Ints
    free_cpus: Ints
    dvpp: Ints
    groups: Ints
    unmade: Bools
    idle: Ints
    """int64[R]: AI cores that the node offers and no pod has."""

    @property
    def unused(self) -> Bools:
        """Healthy chips of which nobody has a part."""
        unused: Bools = self.healthy & (self.free_cores == CHIP_CORES)
        return unused


def chips_of(view: CardView) -> ChipStates:
    """Return the chips of a view."""
    ours = view.of_mode(MODE)
    state = view.state
    return ChipStates(
        ours=ours,
        healthy=ours & view.healthy,
        free_cores=CHIP_CORES - view.cores_used,
        free_cpus=CHIP_CPUS - state[CPUS],
        dvpp=state[DVPP],
        groups=state[GROUPS],
        unmade=state[UNMADE] > 0,
        idle=view.allocatable(CORES) - np.where(ours, view.cores_used, 0).sum(axis=1),
    )


def failures(chips: ChipStates, template: Template) -> dict[str, Bools]:
    """Return by code which healthy chips cannot take a part of this kind."""
    failed = {
        "CardInsufficientCore": chips.free_cores < template.cores,
        "CardInsufficientCpu": chips.free_cpus < template.cpus,
        "CardDvppTaken": chips.dvpp > _DVPP_ENDURED[template.dvpp],
        "CardGroupsTooSmall": chips.groups > MOST_GROUPS[template.cores],
        "CardPartsUnmade": chips.unmade,
    }
    return {code: found & chips.healthy for code, found in failed.items()}


def choose(chips: ChipStates, demand: ChipDemand) -> tuple[Bools, Ints, Ints]:
    """Return on which nodes (bool[R]) there is room, which chips (int64[R, count]), and by which template.

    Whole chips are unused ones from the first on. The number of the template is int64[R, count], 0 for whole chips.
    """
    if demand.templates:
        fits, columns, details = _choose_part(chips, demand.templates)
    else:
        index = np.arange(chips.ours.shape[1], dtype=np.int64)[None, :]
        fits, columns = common.choose(chips.unused, index, demand.cards[0].count)
        details = np.zeros_like(columns)
    return fits & (chips.idle >= demand.asked), columns, details


def _choose_part(chips: ChipStates, templates: Sequence[Template]) -> tuple[Bools, Ints, Ints]:
    """Choose one chip a node for a part.

    It is the first template for which a chip of the node has room, and of those chips the one with the fewest AI cores
    left, then AI CPUs.
    """
    rows, width = chips.ours.shape
    fits = np.zeros(rows, dtype=np.bool_)
    usable = np.zeros((rows, width), dtype=np.bool_)
    number = np.zeros((rows, 1), dtype=np.int64)
    for at, template in enumerate(templates):
        room = chips.healthy.copy()
        for failed in failures(chips, template).values():
            room &= ~failed
        better = ~fits & common.any_card(room)
        usable[better] = room[better]
        number[better] = at
        fits |= better
    key = chips.free_cores * (CHIP_CPUS + 1) + chips.free_cpus
    _, columns = common.choose(usable, key, 1)
    return fits, columns, number
