"""Chips with capacity for a part, and unused chips, on all nodes.

Rules: Volcano pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu (utils.go). Arrays are R nodes × D cards.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deviceshare.families import common
from deviceshare.families.mindcluster.request import MindClusterDemand
from deviceshare.families.mindcluster.wire import CHIP_CORES, CHIP_CPUS, CORES, MODE, NO, NULL, TEMPLATES, YES, Template
from deviceshare.state import Bools, CardView, Ints

CPUS, DVPP, GROUPS, UNMADE = STATE = (
    "mindcluster-cpus",
    "mindcluster-dvpp",
    "mindcluster-groups",
    "mindcluster-unmade",
)
"""The state of a chip: AI CPUs in use, DVPP usage (``DVPP_TAKEN``), the number of groups it is partitioned into, and
the number of pods that wait for the device plugin to make their part."""

DVPP_TAKEN = {NO: 0, NULL: 1, YES: 2}
"""DVPP usage of a part of this kind; the highest usage of the parts on a chip counts."""
_DVPP_ENDURED = {NO: 2, NULL: 1, YES: 0}
"""The highest DVPP usage of a chip with room for a part of this kind."""

MAX_GROUPS = {1: 4, 2: 3, 4: 2}
"""The most groups of a chip with room for a part, by the AI cores of the part: more groups are smaller ones."""


class ChipStates(NamedTuple):
    """The chips of a view, and their free amounts."""

    ours: Bools
    healthy: Bools
    """The healthy chips of the family that are not cordoned."""
    free_cores: Ints
    free_cpus: Ints
    dvpp: Ints
    groups: Ints
    unmade: Bools
    idle: Ints
    """int64[R]: AI cores that the node offers and no pod uses."""

    @property
    def unused(self) -> Bools:
        """Healthy chips that no pod uses."""
        unused: Bools = self.healthy & (self.free_cores == CHIP_CORES)
        return unused


def chips_of(view: CardView) -> ChipStates:
    """Return the chips of a view."""
    ours = view.of_mode(MODE)
    state = view.state
    return ChipStates(
        ours=ours,
        healthy=ours & view.usable,
        free_cores=CHIP_CORES - view.cores_used,
        free_cpus=CHIP_CPUS - state[CPUS],
        dvpp=state[DVPP],
        groups=state[GROUPS],
        unmade=state[UNMADE] > 0,
        idle=view.allocatable(CORES) - np.where(ours, view.cores_used, 0).sum(axis=1),
    )


def failures(chips: ChipStates, template: Template) -> dict[str, Bools]:
    """Return by code the healthy chips without room for a part of this kind."""
    failed = {
        "CardInsufficientCore": chips.free_cores < template.cores,
        "CardInsufficientCpu": chips.free_cpus < template.cpus,
        "CardDvppTaken": chips.dvpp > _DVPP_ENDURED[template.dvpp],
        "CardGroupsTooSmall": chips.groups > MAX_GROUPS[template.cores],
        "CardPartsUnmade": chips.unmade,
    }
    return {code: found & chips.healthy for code, found in failed.items()}


def largest_part(free_cores: int, state: Mapping[str, int]) -> int:
    """Return the AI cores of the largest part for which a chip in use has room, 0 for none."""
    fitting = (
        template.cores
        for template in TEMPLATES.values()
        if template.cores <= free_cores
        and template.cpus <= CHIP_CPUS - state[CPUS]
        and state[DVPP] <= _DVPP_ENDURED[template.dvpp]
        and state[GROUPS] <= MAX_GROUPS[template.cores]
        and not state[UNMADE]
    )
    return max(fitting, default=0)


def choose(chips: ChipStates, demand: MindClusterDemand) -> tuple[Bools, Ints, Ints]:
    """Return the feasible nodes (bool[R]), the picked chips, and the numbers of the templates (int64[R, count] each).

    Whole chips are the first unused ones; their template number is 0.
    """
    if demand.templates:
        fits, columns, details = _choose_part(chips, demand.templates)
    else:
        index = np.arange(chips.ours.shape[1], dtype=np.int64)[None, :]
        fits, columns = common.choose(chips.unused, index, demand.cards[0].count)
        details = np.zeros_like(columns)
    return fits & (chips.idle >= demand.asked), columns, details


def _choose_part(chips: ChipStates, templates: Sequence[Template]) -> tuple[Bools, Ints, Ints]:
    """Pick one chip of each node for a part.

    The first template for which a chip has room counts, and of these chips the one with the fewest free AI cores, then
    AI CPUs.
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
