"""One node's claims: what the ledger says, what stands in OUTCOME, what is finished and not there yet. Pure."""

from collections import deque

from deviceshare.model import BOUND, Claim, Outcome


class Node:
    """One node. Its outcomes are one message, of which at most one is in flight: what finishes meanwhile is folded."""

    __slots__ = (
        "_reading", "_sent", "confirmed", "finished", "in_turn", "ledger",
        "name", "queue", "sequence", "stands", "work",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.ledger: dict[str, Claim] = {}
        self.stands: dict[str, Outcome] = {}
        self.sequence = 0
        self.finished: dict[str, Outcome] = {}
        """Our outcomes that do not stand on the bus yet."""
        self.confirmed: set[str] = set()
        """Claims that were asked back and whose pod was found to be bound here."""
        self.work: set[str] = set()
        """Ids of the claims that are being worked on."""
        self.queue: deque[str] = deque()
        """Claims to be begun, in order: what holds a binding back holds it here."""
        self.in_turn = False
        self._sent: dict[str, Outcome] | None = None
        self._reading = False

    @property
    def open(self) -> bool:
        """Whether outcomes are not written, or an answer of the bus is awaited."""
        return bool(self.finished) or self._sent is not None or self._reading

    def has_outcome(self, claim: Claim) -> bool:
        """Whether it is known what became of a claim; where one is asked back that counts as bound, it is not."""
        outcome = self.finished.get(claim.id) or self.stands.get(claim.id)
        if outcome is None:
            return False
        return outcome.state != BOUND or not claim.withdraw or claim.id in self.confirmed

    def is_news(self, claim: Claim, state: str) -> bool:
        """Learn what became of a claim; returns whether that is not what was known."""
        if state == BOUND and claim.withdraw:
            self.confirmed.add(claim.id)
        known = self.finished.get(claim.id) or self.stands.get(claim.id)
        return known is None or known.state != state

    def seen(self, sequence: int, outcomes: dict[str, Outcome]) -> bool:
        """Learn what stands on the bus; returns whether it was new. What we finished ourselves wins over it."""
        if sequence <= self.sequence:
            return False
        self.sequence, self.stands = sequence, outcomes
        self._drop_written()
        return True

    def write(self) -> tuple[Outcome, ...] | None:
        """Return the outcomes to be written now, expecting ``sequence``, or None."""
        if self._sent is not None or self._reading:
            return None
        self.finished = {claim: one for claim, one in self.finished.items() if claim in self.ledger}
        if not self.finished:
            return None
        stands = {claim: one for claim, one in self.stands.items() if claim in self.ledger}
        self._sent = stands | self.finished
        return tuple(self._sent.values())

    def written(self, sequence: int) -> None:
        """What was sent stands on the bus."""
        sent, self._sent = self._sent, None
        assert sent is not None
        self.seen(sequence, sent)

    def unclear(self) -> None:
        """What was sent met another message, or nobody knows whether it was written: it has to be read back."""
        self._sent = None
        self._reading = True

    def read_back(self, sequence: int, outcomes: dict[str, Outcome]) -> None:
        """Take what stands there now; sequence 0: nothing."""
        self._reading = False
        if not sequence:
            self.sequence, self.stands = 0, {}
        else:
            self.seen(sequence, outcomes)

    def refused(self) -> None:
        """What was sent can never be written: it is not tried again until something else is finished."""
        sent, self._sent = self._sent, None
        assert sent is not None
        self.finished = {claim: one for claim, one in self.finished.items() if sent.get(claim) != one}
        self.stands = sent

    def _drop_written(self) -> None:
        self.finished = {
            claim: one
            for claim, one in self.finished.items()
            if (there := self.stands.get(claim)) is None or there.state != one.state
        }
