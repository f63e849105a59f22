"""The traces of claims: the part of placement in the trace of a pod is exported when the pod is bound."""

from collections import OrderedDict
from collections.abc import Container, Iterable, Sequence

from deviceshare.model import BOUND, Claim, Outcome
from deviceshare_bus.cores.core import Command, Count, RecordBatch, RecordTrace
from deviceshare_bus.messages.codec import ATTEMPTS

MAX_OPEN = 100_000
"""Claims without an outcome whose traces are kept; the oldest is dropped first."""


class ClaimTraces:
    """The claims that wait for their outcomes.

    A claim is traced by the process that decided it, or if it was open when this process started. The binder exports
    the root of the trace when it has written the outcome, so a pod that is not bound leaves no part of a trace.
    """

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._open: dict[str, tuple[Claim, str]] = OrderedDict()
        """By id, the claim and the reason for which its pod waited before."""
        self._early: dict[str, str] = OrderedDict()
        """Outcomes that arrived before the claim: the uid, by the claim's id."""
        self._due: list[RecordTrace] = []
        self._started = False

    def start(self) -> None:
        """Begin: everything that was on the bus has been read, and was exported by a predecessor."""
        self._started = True
        self._due.clear()
        self._early.clear()

    def claimed(self, claim: Claim, waited: str = "") -> None:
        """Add a claim that is in the ledger; ``waited``: the last reason for which its pod waited."""
        if not claim.sent_at or (self._started and claim.decided_by != self._instance):
            return
        if self._early.pop(claim.id, None) == claim.uid:
            self._trace(claim, waited)
        elif self._open.setdefault(claim.id, (claim, waited))[0] is claim and len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]

    def outcomes(self, outcomes: Iterable[Outcome], known: Container[str]) -> None:
        """Apply new outcomes on a node with the claims ``known``; the ledger with the others will follow."""
        for outcome in outcomes:
            found = self._open.pop(outcome.claim, None)
            if outcome.state != BOUND:
                continue
            if found is not None and found[0].uid == outcome.uid:
                self._trace(*found)
            elif found is None and outcome.claim not in known:
                self._early[outcome.claim] = outcome.uid
                if len(self._early) > MAX_OPEN:
                    del self._early[next(iter(self._early))]

    def take(self) -> list[RecordTrace]:
        """Return the traces that are due."""
        due, self._due = self._due, []
        return due

    def _trace(self, claim: Claim, waited: str) -> None:
        times = (claim.seen_at, claim.decided_at, claim.sent_at)
        self._due.append(
            RecordTrace(
                claim.uid, claim.namespace, claim.name, times, reason=waited, decided_by=claim.decided_by, result=BOUND
            )
        )


def count_attempts(result: str, amount: int) -> list[Command]:
    """Return the command that counts attempts to place pods, if there were any."""
    return [Count(f"{ATTEMPTS}{result}", int(amount))] if amount else []


def record_round(instance: str, at: float, uids: Sequence[str], ledgers: int) -> list[Command]:
    """Return what records a round that began ``at`` (unix seconds) and placed these pods, to follow its writes."""
    if not uids:
        return []
    return [*count_attempts("scheduled", len(uids)), RecordBatch(instance, at, tuple(uids), ledgers)]
