"""Events with many claims or outcomes count as many in the bound of the core log, in every service."""

import pytest
from deviceshare.model import BOUND, Claim, NodeLedger, NodeOutcomes, Outcome
from deviceshare_binder.core.events import LedgerChanged, OutcomesChanged
from deviceshare_bus.cores.core import Event
from deviceshare_metrics.core import events as metrics
from deviceshare_placement.core import events as placement

CLAIMS = tuple(Claim(id=f"c{number}", uid=f"u{number}", namespace="default", name=f"p{number}") for number in range(3))
OUTCOMES = tuple(Outcome(claim.id, claim.uid, BOUND) for claim in CLAIMS)


@pytest.mark.parametrize(
    "event",
    [
        placement.LedgerReceived("a", 1, NodeLedger(node="a", claims=CLAIMS)),
        placement.OutcomesReceived("a", NodeOutcomes(node="a", outcomes=OUTCOMES)),
        LedgerChanged("a", CLAIMS),
        OutcomesChanged("a", 1, OUTCOMES),
        metrics.LedgerReceived("ledger.0.a", NodeLedger(node="a", claims=CLAIMS)),
        metrics.OutcomesReceived("outcome.0.a", NodeOutcomes(node="a", outcomes=OUTCOMES)),
    ],
)
def test_an_event_counts_its_claims_or_outcomes(event: Event) -> None:
    assert event.size == 3


@pytest.mark.parametrize(
    "event",
    [
        placement.LedgerReceived("a", 1, NodeLedger(node="a")),
        placement.OutcomesReceived("a", NodeOutcomes(node="a")),
        metrics.OutcomesReceived("outcome.0.a", NodeOutcomes(node="a")),
    ],
)
def test_an_event_without_any_counts_as_one(event: Event) -> None:
    assert event.size == 1
