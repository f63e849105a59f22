"""What is to be known of a recorded family to compare its cases with ours."""

from typing import Protocol

from deviceshare.model import NodeFact

from deviceshare_cli.conformance.cases import Answered, Case
from deviceshare_cli.conformance.scene import ReplayState


class Form(Protocol):
    """One recorded family. Implementations hold no state."""

    columns: int
    """How many values a row of ``state`` has."""

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether a node has cards of the family, and offers them."""
        ...

    def choice(self, case: Case) -> str:
        """Return the annotation that names the devices: ``alternatives`` are values of it."""
        ...

    def is_scored(self, case: Case) -> bool:
        """Return whether Volcano scores nodes of this family under the case's policy."""
        ...

    def bare(self, key: str, value: str) -> str:
        """Return the value of an annotation without the slots of containers that have no device."""
        ...

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the recorded state, in a form that equals :meth:`state`."""
        ...

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return our state, in a form that equals :meth:`recorded`."""
        ...


def filled(value: str, separator: str = ";") -> str:
    """Return the parts of a value that hold anything, separated as they were."""
    return separator.join(part for part in value.split(separator) if part)
