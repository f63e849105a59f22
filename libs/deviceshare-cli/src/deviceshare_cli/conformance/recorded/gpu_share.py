"""gpu-memory and gpu-number: state ``[[card, MiB, pods], …]`` of the healthy cards."""

from deviceshare.formats import gpu_share
from deviceshare.model import Card, NodeFact
from deviceshare.state import Usage

from deviceshare_cli.conformance.cases import Answered, Case, Value
from deviceshare_cli.conformance.scene import ReplayState

ENDED = "terminated-pod-in-podmap"
"""The code of cases where a pod that has ended is still among the pods of a card."""


class GpuShare:
    """What both have in common."""

    columns = 3

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether the node has gpu-share cards."""
        return any(card.mode == gpu_share.MODE for card in node.cards)

    def choice(self, case: Case) -> str:
        """Return ``gpu-index``."""
        return gpu_share.INDEX

    def is_scored(self, case: Case) -> bool:
        """Return whether there is no policy: Volcano scores these nodes 0 under any, we by the policy."""
        return not case.args.get("deviceshare.SchedulePolicy")

    def bare(self, key: str, value: str) -> str:
        """Return the value: it has no slots."""
        return value

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the cards with what is taken of them."""
        return [self.shown(case, index, memory, pods) for index, memory, pods in step.state or ()]

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return the same of ours; pods are counted by card."""
        used = state.allocator.used_cards(state.node.name)
        return [
            self.shown(case, card.index, self.memory(taken), _pods_on(card, state))
            for card, taken in zip(state.node.cards, used, strict=True)
            if card.healthy
        ]

    def memory(self, taken: Usage) -> int:
        """Return the MiB that Volcano counts of what we count."""
        return taken.memory

    def shown(self, case: Case, index: Value, memory: Value, pods: Value) -> list[Value]:
        """Return what is compared of a card."""
        return [index, memory, pods]


class GpuMemory(GpuShare):
    """gpu-memory."""

    def shown(self, case: Case, index: Value, memory: Value, pods: Value) -> list[Value]:
        """Leave out the number of pods where one that has ended is among them: it holds no memory."""
        return [index, memory] if ENDED in case.quirks else [index, memory, pods]


class GpuNumber(GpuShare):
    """gpu-number."""

    def memory(self, taken: Usage) -> int:
        """Return 0 for a card that is given whole: Volcano counts only its pod."""
        return 0 if taken.cores >= gpu_share.CARD_CORES else taken.memory


def _pods_on(card: Card, state: ReplayState) -> int:
    holdings = (state.allocator.holding(state.node.name, pod.uid) for pod in state.pods.values())
    return sum(
        any(device.id == card.id for grant in holding.grants for device in grant.devices)
        for holding in holdings
        if holding is not None
    )
