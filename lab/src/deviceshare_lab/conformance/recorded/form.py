"""The base of the recorded families: how their cases are compared with our answers."""

from abc import ABC, abstractmethod

from deviceshare.model import Card, NodeFact

from deviceshare_lab.conformance.cases import Answered, Case
from deviceshare_lab.conformance.scene import ReplayState


class Form(ABC):
    """One recorded family, without state of its own. The usual state is ``[[pods, MiB, cores], …]`` by card."""

    columns = 3
    """Number of values of a row of ``state``."""

    @abstractmethod
    def has(self, case: Case, card: Card) -> bool:
        """Return whether a card is one of the family."""

    @abstractmethod
    def choice(self, case: Case) -> str:
        """Return the annotation that names the devices, of which ``alternatives`` are values."""

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether a node has and offers cards of the family."""
        return any(self.has(case, card) for card in node.cards)

    def is_scored(self, case: Case) -> bool:
        """Return whether Volcano scores nodes of this family under the case's policy."""
        return True

    def bare(self, key: str, value: str) -> str:
        """Return the value of an annotation without the slots of containers without devices."""
        return value

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the recorded state in the form of :meth:`state`."""
        return [list(row) for row in step.state or ()]

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return our state in the form of :meth:`recorded`."""
        return [[taken.slots, taken.memory, taken.cores] for card, taken in state.cards() if self.has(case, card)]
