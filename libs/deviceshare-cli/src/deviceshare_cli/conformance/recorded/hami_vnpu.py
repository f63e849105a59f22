"""Ascend vNPU, HAMi's mode: state ``[[pods, MiB, cores], …]`` of the chips of the case's kind, by their index."""

from collections.abc import Callable

from deviceshare.formats import hami_vnpu
from deviceshare.model import Card, NodeFact

from deviceshare_cli.conformance.cases import Answered, Case
from deviceshare_cli.conformance.scene import ReplayState


class HamiVnpu:
    """vNPUs that HAMi's device plugin makes."""

    columns = 3

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether the node has chips of the case's kind, and its kubelet offers them: others are never given."""
        return bool(node.allocatable.get(hami_vnpu.runtime(case.kind))) and any(map(_of(case), node.cards))

    def choice(self, case: Case) -> str:
        """Return the annotation of the kind that names devices."""
        return hami_vnpu.allocated(case.kind)

    def is_scored(self, case: Case) -> bool:
        """Return True."""
        return True

    def bare(self, key: str, value: str) -> str:
        """Drop empty slots: Volcano leaves none for a container without a request."""
        if not key.endswith(("-devices-allocated", "-devices-to-allocate")):
            return value
        *slots, rest = value.split(";")
        return "".join(f"{slot};" for slot in slots if slot) + rest

    def recorded(self, case: Case, step: Answered) -> object:
        """Return what is taken of the chips."""
        return [list(row) for row in step.state or ()]

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return the same of ours."""
        used = state.allocator.used_cards(state.node.name)
        return [
            [taken.slots, taken.memory, taken.cores]
            for card, taken in zip(state.node.cards, used, strict=True)
            if _of(case)(card)
        ]


def _of(case: Case) -> Callable[[Card], bool]:
    """Return what tells whether a card is a chip of the case's kind."""
    return lambda card: card.mode in hami_vnpu.MODES and card.type == case.kind
