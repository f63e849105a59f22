"""The protocol of a recorded family: how its cases are compared with our answers."""

from typing import Protocol

from deviceshare.model import NodeFact

from deviceshare_cli.conformance.cases import Answered, Case
from deviceshare_cli.conformance.scene import ReplayState


class Form(Protocol):
    """One recorded family. Implementations hold no state."""

    columns: int
    """Number of values of a row of ``state``."""

    def present(self, case: Case, node: NodeFact) -> bool:
        """Return whether a node has and offers cards of the family."""
        ...

    def choice(self, case: Case) -> str:
        """Return the annotation that names the devices, of which ``alternatives`` are values."""
        ...

    def is_scored(self, case: Case) -> bool:
        """Return whether Volcano scores nodes of this family under the case's policy."""
        ...

    def bare(self, key: str, value: str) -> str:
        """Return the value of an annotation without the slots of containers without devices."""
        ...

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the recorded state in the form of :meth:`state`."""
        ...

    def state(self, case: Case, step: Answered, state: ReplayState) -> object:
        """Return our state in the form of :meth:`recorded`."""
        ...


def filled(value: str, separator: str = ";") -> str:
    """Return a value without its empty parts."""
    return separator.join(part for part in value.split(separator) if part)
