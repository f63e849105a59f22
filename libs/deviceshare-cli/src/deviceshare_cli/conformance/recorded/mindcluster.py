"""Ascend 310P, MindCluster's mode.

State ``[[chip, free AI cores, AI CPUs, DVPP, used AI cores, AI CPUs, DVPP, has parts, has unmade parts], …]``; beside
it the AI cores of the node that nobody has. What else Volcano remembers of a node (which templates are used there,
which pods it downgraded) is no state of devices.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from deviceshare.families.mindcluster import chips
from deviceshare.families.mindcluster.request import cores_asked
from deviceshare.formats import mindcluster
from deviceshare.formats.mindcluster import CHIP_CORES, CHIP_CPUS, NO, NULL, YES
from deviceshare.model import Card, NodeFact

from deviceshare_cli.conformance.cases import Answered, Case, Release
from deviceshare_cli.conformance.scene import ReplayState

DVPP = ((YES, NO), (NULL, NULL), (NO, YES))
"""Free and used DVPP, by how far it is taken."""


class MindCluster:
    """vNPUs that MindCluster's device plugin makes."""

    columns = 9

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether the node has such chips."""
        return any(card.mode == mindcluster.MODE for card in node.cards)

    def choice(self, case: Case) -> str:
        """Return ``npu-core``."""
        return mindcluster.CORES

    def is_scored(self, case: Case) -> bool:
        """Return True."""
        return True

    def bare(self, key: str, value: str) -> str:
        """Return the value: it has no slots."""
        return value

    def recorded(self, case: Case, step: Answered) -> object:
        """Return what is taken of the chips, and how many AI cores are left."""
        return _shown(case, step, step.state or (), step.extra.idle_npu_core)

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return the same of ours; what is left of the node are the AI cores that no pod asks."""
        allocator, node = state.allocator, state.node
        used = allocator.used_cards(node.name)
        cpus, dvpp, unmade = (allocator.card_state(node.name, name) for name in (chips.CPUS, chips.DVPP, chips.UNMADE))
        found = [
            (
                *(card.index, CHIP_CORES - taken.cores, CHIP_CPUS - cpus[at], DVPP[dvpp[at]][0]),
                *(taken.cores, cpus[at], DVPP[dvpp[at]][1]),
                *(_has_parts(card, state), unmade[at] > 0),
            )
            for at, (card, taken) in enumerate(zip(node.cards, used, strict=True))
            if card.healthy
        ]
        asked = sum(cores_asked(pod.ask) for pod in state.pods.values())
        idle = node.allocatable.get(mindcluster.CORES, 0) - asked
        return _shown(case, step, found, idle)


def _shown(case: Case, step: Answered, found: Iterable[Sequence[Any]], idle: int | None) -> object:
    """Return what is compared.

    What a chip that is given whole says of its DVPP means nothing. In a session Volcano does not take back what pods
    that leave have noted of DVPP and parts (``mind-discard-keeps-segment``, a code that only the placements have that
    come to grief by it).
    """
    kept = case.mode == "session" and _after_release(case, step)
    shown = []
    for index, free_cores, free_cpus, free_dvpp, cores, cpus, dvpp, has_parts, has_unmade in found:
        noted = None if kept else [has_parts, None if cores and not has_parts else [free_dvpp, dvpp]]
        shown.append([index, free_cores, free_cpus, cores, cpus, has_unmade, noted])
    return {"chips": shown, "idle": idle}


def _after_release(case: Case, step: Answered) -> bool:
    """Return whether a pod has left at the step or before it."""
    released = False
    for each in case.steps:
        released |= isinstance(each, Release)
        if each is step:
            return released
    return False


def _has_parts(card: Card, state: ReplayState) -> bool:
    holdings = (state.allocator.holding(state.node.name, pod.uid) for pod in state.pods.values())
    return any(
        device.id == card.id and bool(device.detail)
        for holding in holdings
        if holding is not None
        for grant in holding.grants
        for device in grant.devices
    )
