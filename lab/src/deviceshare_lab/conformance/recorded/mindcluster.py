"""Ascend 310P, MindCluster mode.

State ``[[chip, free AI cores, AI CPUs, DVPP, used AI cores, AI CPUs, DVPP, has parts, has unmade parts], …]``, and the
node's idle AI cores. Volcano's other records of a node (used templates, downgraded pods) are not state of devices.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from deviceshare.families.mindcluster import chips, wire
from deviceshare.families.mindcluster.request import cores_asked
from deviceshare.families.mindcluster.wire import CHIP_CORES, CHIP_CPUS, NO, NULL, YES
from deviceshare.model import Card

from deviceshare_lab.conformance.cases import Answered, Case, Release
from deviceshare_lab.conformance.recorded.form import Form
from deviceshare_lab.conformance.scene import ReplayState

DVPP = ((YES, NO), (NULL, NULL), (NO, YES))
"""Free and used DVPP by degree of use: none, undefined, all."""


class MindCluster(Form):
    """vNPUs of MindCluster's device plugin."""

    columns = 9

    def has(self, case: Case, card: Card) -> bool:
        """Return whether a card is a chip in MindCluster mode."""
        return card.mode == wire.MODE

    def choice(self, case: Case) -> str:
        """Return ``npu-core``."""
        return wire.CORES

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the allocation of the chips and the number of idle AI cores."""
        return _shown(case, step, step.state or (), step.extra.idle_npu_core)

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return our allocation of the chips; AI cores that no pod requests are idle."""
        allocator, node = state.allocator, state.node
        cpus, dvpp, unmade = (allocator.card_state(node.name, name) for name in (chips.CPUS, chips.DVPP, chips.UNMADE))
        parts = {device.id for devices in state.devices() for device in devices if device.detail}
        found = [
            (
                *(card.index, CHIP_CORES - taken.cores, CHIP_CPUS - cpus[at], DVPP[dvpp[at]][0]),
                *(taken.cores, cpus[at], DVPP[dvpp[at]][1]),
                *(card.id in parts, unmade[at] > 0),
            )
            for at, (card, taken) in enumerate(state.cards())
            if card.healthy
        ]
        requested = sum(cores_asked(pod.ask) for pod in state.pods.values())
        idle = node.allocatable.get(wire.CORES, 0) - requested
        return _shown(case, step, found, idle)


def _shown(case: Case, step: Answered, found: Iterable[Sequence[Any]], idle: int | None) -> object:
    """Return the compared values.

    The DVPP of a chip that is allocated whole has no meaning. In mode ``session`` Volcano does not revert the DVPP and
    parts of released pods (``mind-discard-keeps-segment``; only the affected placements have this code).
    """
    at = next((at for at, each in enumerate(case.steps) if each is step), -1)
    kept = case.mode == "session" and any(isinstance(each, Release) for each in case.steps[: at + 1])
    shown = []
    for index, free_cores, free_cpus, free_dvpp, cores, cpus, dvpp, has_parts, has_unmade in found:
        noted = None if kept else [has_parts, None if cores and not has_parts else [free_dvpp, dvpp]]
        shown.append([index, free_cores, free_cpus, cores, cpus, has_unmade, noted])
    return {"chips": shown, "idle": idle}
