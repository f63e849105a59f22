"""Our answers are those that Volcano's device code gave, but for deviations that have a reason."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from deviceshare_lab.conformance.command import outcomes
from deviceshare_lab.conformance.deviations import DEVIATIONS
from deviceshare_lab.conformance.recorded import FORMS
from deviceshare_lab.conformance.report import MAX_PERCENT, CaseOutcome, CaseSummary, as_text

DATA = Path(__file__).parents[1] / "data" / "golden"
each_family = pytest.mark.parametrize("family", sorted(FORMS))


@cache
def replayed(family: str) -> list[CaseOutcome]:
    return list(outcomes(DATA / f"{family}.jsonl.gz"))


@each_family
def test_every_recorded_case_is_answered_as_recorded_or_otherwise_on_purpose(family: str) -> None:
    summary = CaseSummary(replayed(family))
    assert summary.failed == 0, as_text(summary, verbose=True)


def test_each_deviation_explains_cases_that_were_chosen_for_it() -> None:
    summary = CaseSummary(list(outcomes(DATA.parent / "deviations" / "cases.jsonl.gz")))
    assert summary.failed == 0, as_text(summary, verbose=True)
    named = {name for outcome in summary.outcomes for name in outcome.verdict.rules}
    # Of that one the cases of each family have enough.
    assert {each.name for each in DEVIATIONS} - named == {"ended-pods"}


def test_few_cases_deviate() -> None:
    summary = CaseSummary([outcome for family in FORMS for outcome in replayed(family)])
    assert summary.share <= MAX_PERCENT, as_text(summary, verbose=False)


@each_family
def test_every_family_is_compared_in_every_mode_in_which_it_was_recorded(family: str) -> None:
    placed: Counter[str] = Counter()
    for outcome in replayed(family):
        steps = outcome.case.steps[: outcome.verdict.steps]
        placed[outcome.case.mode] += sum(step.placed for step in steps if hasattr(step, "placed"))
    assert placed.keys() == {outcome.case.mode for outcome in replayed(family)}
    assert all(count >= 5 for count in placed.values()), placed
