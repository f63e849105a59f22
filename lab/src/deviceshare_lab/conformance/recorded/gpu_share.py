"""gpu-memory and gpu-number: state ``[[card, MiB, pods], …]`` of the healthy cards."""

from collections.abc import Sequence

from deviceshare.families.volcano_gpu import wire
from deviceshare.model import Card
from deviceshare.state import Usage

from deviceshare_lab.conformance.cases import Answered, Case, Value
from deviceshare_lab.conformance.recorded.form import Form
from deviceshare_lab.conformance.scene import ReplayState

ENDED = "terminated-pod-in-podmap"
"""The code of cases in which Volcano still counts an ended pod among the pods of a card."""


class GpuMemory(Form):
    """gpu-memory."""

    def has(self, case: Case, card: Card) -> bool:
        """Return whether gpu-share allocates the card."""
        return card.mode == wire.MODE

    def choice(self, case: Case) -> str:
        """Return ``gpu-index``."""
        return wire.INDEX

    def is_scored(self, case: Case) -> bool:
        """Return whether no policy is set: with a policy Volcano scores these nodes 0, we score by the policy."""
        return not case.args.get("deviceshare.SchedulePolicy")

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the cards with their allocation."""
        return [self.shown(case, row) for row in step.state or ()]

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return our cards with their allocation; pods are counted per card."""
        held = [{device.id for device in devices} for devices in state.devices()]
        return [
            self.shown(case, (card.index, self.memory(taken), sum(card.id in ids for ids in held)))
            for card, taken in state.cards()
            if card.healthy
        ]

    def memory(self, taken: Usage) -> int:
        """Return the MiB that Volcano counts for our usage."""
        return taken.memory

    def shown(self, case: Case, row: Sequence[Value]) -> list[Value]:
        """Omit the number of pods if an ended pod, which holds no memory, is counted."""
        return list(row[:2] if ENDED in case.quirks else row)


class GpuNumber(GpuMemory):
    """gpu-number."""

    def memory(self, taken: Usage) -> int:
        """Return 0 for a card that is allocated whole: Volcano counts only its pod."""
        return 0 if taken.cores >= wire.CARD_CORES else taken.memory

    def shown(self, case: Case, row: Sequence[Value]) -> list[Value]:
        """Return all values."""
        return list(row)
