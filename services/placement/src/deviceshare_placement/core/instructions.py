"""What the core wants done: ledgers to publish, explanations and steps to tell, ledgers to read back."""

import msgspec
from deviceshare.model import Explanation, NodeLedger


class LedgerWrite(msgspec.Struct, frozen=True):
    """A node's new ledger, to be written only if ``expected`` is still the last sequence under its subject."""

    node: str
    expected: int
    ledger: NodeLedger


class Publication(msgspec.Struct, frozen=True):
    """Ledgers that are written together: all or none. The core waits to hear what became of ``token``."""

    token: int
    writes: tuple[LedgerWrite, ...]


class StepRecord(msgspec.Struct, frozen=True):
    """A step in the life of a pod, for EVENT; it began at ``since`` and ended ``at`` (unix seconds, 0 for just now)."""

    uid: str
    pod: str
    name: str
    node: str = ""
    message: str = ""
    since: float = 0.0
    at: float = 0.0


class Instructions(msgspec.Struct):
    """Everything that one event or cycle asks of the shell."""

    publications: list[Publication] = []
    placed: list[str] = []
    """The uids of the pods that a cycle claims, in the order of its decisions."""
    explanations: list[Explanation] = []
    forget: list[Explanation] = []
    """Explanations of pods that are gone: kept for a day more."""
    steps: list[StepRecord] = []
    read_back: list[str] = []
    """Nodes whose ledger must be read, since nobody knows what became of a write."""
    reconciled: list[str] = []
    """What was found to differ from the cluster and is repaired, a word for each time."""
