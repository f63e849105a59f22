"""Preemptions in ``deviceshare lab conformance``: the replay of files, and the report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from deviceshare_cli.output import table

from deviceshare_lab.conformance.lines import decoded
from deviceshare_lab.conformance.outcomes import AspectSummary, Outcome, blocks
from deviceshare_lab.conformance.preemption.recorded import Case
from deviceshare_lab.conformance.preemption.replay import ASPECTS, COUNT, REQUIRED, SUM, Verdict, replay

MIN_COUNT, MIN_SUM, MAX_MORE = 99.0, 97.0, 1
"""Percent of the cases with the fewest victims, and with the lowest sum; how many victims more there may be."""


class PreemptionSummary(AspectSummary[Case, Verdict], frozen=True):
    """The results of all cases."""

    def percent_same(self, *aspects: str) -> float:
        """Return the same as a percentage of all cases."""
        return self.percent(self.same(*aspects)) if self.outcomes else 100.0

    @property
    def fails(self) -> bool:
        """Whether the cases together miss what they have to reach."""
        return (
            self.same(*REQUIRED) < len(self.outcomes)
            or self.percent_same(COUNT) < MIN_COUNT
            or self.percent_same(COUNT, SUM) < MIN_SUM
            or any(each.verdict.more > MAX_MORE for each in self.outcomes)
        )


def as_text(summary: PreemptionSummary, verbose: bool) -> str:
    """Return the summary as text; ``verbose`` shows every case with a difference."""
    rows = []
    for kind in dict.fromkeys(outcome.case.kind for outcome in summary.outcomes):
        verdicts = [outcome.verdict for outcome in summary.outcomes if outcome.case.kind == kind]
        same = (str(sum(each.same(aspect) for each in verdicts)) for aspect in ASPECTS)
        rows.append((kind, str(len(verdicts)), *same))
    totals = [
        f"{aspect}: {summary.same(aspect)} of {len(summary.outcomes)} cases ({summary.percent_same(aspect):.1f} %)"
        for aspect in ASPECTS
    ]
    return "\n\n".join(
        [
            *blocks(summary.failures, verbose=verbose),
            table(("KIND", "CASES", *(aspect.upper() for aspect in ASPECTS)), rows),
            "\n".join(totals),
        ]
    )


def as_object(summary: PreemptionSummary) -> dict[str, Any]:
    """Return the summary for JSON with all differences."""
    return {
        "cases": len(summary.outcomes),
        "same": {aspect: summary.same(aspect) for aspect in ASPECTS},
        "failed": summary.fails,
        "failures": summary.failures,
    }


_CASE = msgspec.json.Decoder(Case)


def is_of_preemption(keys: frozenset[str]) -> bool:
    """Return whether a file whose first line has these keys has clusters with the best victims."""
    return {"best", "volcano"} <= keys


def summarize(files: Sequence[Path]) -> PreemptionSummary:
    """Replay the cases of files.

    Raises:
        CommandError: a file or a line is invalid.
    """
    return PreemptionSummary(
        [Outcome(path, number, case, replay(case)) for path in files for number, _, case in decoded(path, _CASE)]
    )
