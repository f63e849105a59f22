"""Ascend 310P, MindCluster mode.

State ``[[chip, free AI cores, AI CPUs, DVPP, used AI cores, AI CPUs, DVPP, has parts, has unmade parts], …]``, and the
node's idle AI cores. Volcano's other records of a node (used templates, downgraded pods) are not state of devices.
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
"""Free and used DVPP by degree of use: none, undefined, all."""


class MindCluster:
    """vNPUs of MindCluster's device plugin."""

    columns = 9

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether the node has chips in MindCluster mode."""
        return any(card.mode == mindcluster.MODE for card in node.cards)

    def choice(self, case: Case) -> str:
        """Return ``npu-core``."""
        return mindcluster.CORES

    def is_scored(self, case: Case) -> bool:
        """Return True."""
        return True

    def bare(self, key: str, value: str) -> str:
        """Return the value, which has no slots."""
        return value

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the allocation of the chips and the number of idle AI cores."""
        return _shown(case, step, step.state or (), step.extra.idle_npu_core)

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return our allocation of the chips; AI cores that no pod requests are idle."""
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
        requested = sum(cores_asked(pod.ask) for pod in state.pods.values())
        idle = node.allocatable.get(mindcluster.CORES, 0) - requested
        return _shown(case, step, found, idle)


def _shown(case: Case, step: Answered, found: Iterable[Sequence[Any]], idle: int | None) -> object:
    """Return the compared values.

    The DVPP of a chip that is allocated whole has no meaning. In mode ``session`` Volcano does not revert the DVPP and
    parts of released pods (``mind-discard-keeps-segment``; only the affected placements have this code).
    """
    kept = case.mode == "session" and _after_release(case, step)
    shown = []
    for index, free_cores, free_cpus, free_dvpp, cores, cpus, dvpp, has_parts, has_unmade in found:
        noted = None if kept else [has_parts, None if cores and not has_parts else [free_dvpp, dvpp]]
        shown.append([index, free_cores, free_cpus, cores, cpus, has_unmade, noted])
    return {"chips": shown, "idle": idle}


def _after_release(case: Case, step: Answered) -> bool:
    """Return whether a pod was released at or before the step."""
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
