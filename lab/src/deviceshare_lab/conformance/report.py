"""The report of ``deviceshare lab conformance``: results by family and by deviation, as text or JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from deviceshare_cli.output import indented_json, table

from deviceshare_lab.conformance.cases import Case
from deviceshare_lab.conformance.deviations import DEVIATIONS
from deviceshare_lab.conformance.outcomes import Outcome, Summary, blocks
from deviceshare_lab.conformance.recorded import FORMS
from deviceshare_lab.conformance.replay import Verdict

MAX_PERCENT = 12.0
"""Limit of deliberate differences among the cases without a known defect of Volcano, over all families."""
SHOWN_DIFFERENCES = 4
_AVOIDING = frozenset(deviation.name for deviation in DEVIATIONS if deviation.code)


class CaseOutcome(Outcome[Case, Verdict], frozen=True):
    """One replayed case with its file and line."""

    @property
    def touched(self) -> bool:
        """Whether a known defect of Volcano affected the case.

        The codes of a case name the defects that affected a placement. For pods that were on the node before, and for
        nodes that are only scored, a deviation that avoids the defect indicates it.
        """
        return bool(self.case.quirks) or not _AVOIDING.isdisjoint(self.verdict.rules)

    @property
    def on_purpose(self) -> bool:
        """Whether all differences are deliberate, and none is caused by a defect of Volcano."""
        return bool(self.verdict.rules) and not self.failed and not self.touched


class CaseSummary(Summary[Case, Verdict], frozen=True):
    """The results of all cases."""

    outcomes: Sequence[CaseOutcome]

    @property
    def passed(self) -> int:
        """Number of cases as recorded, up to the first step that a known defect affected."""
        return sum(not outcome.failed and not outcome.on_purpose for outcome in self.outcomes)

    @property
    def clean(self) -> int:
        """Number of cases without a known defect of Volcano."""
        return sum(not outcome.touched for outcome in self.outcomes)

    @property
    def on_purpose(self) -> int:
        """Number of clean cases that differ deliberately."""
        return sum(outcome.on_purpose for outcome in self.outcomes)

    @property
    def unnamed(self) -> int:
        """Number of cases affected by a known defect that is not among their codes."""
        return sum(outcome.touched and not outcome.case.quirks for outcome in self.outcomes)

    @property
    def share(self) -> float:
        """Percentage of clean cases that differ deliberately."""
        return 100 * self.on_purpose / self.clean if self.clean else 0.0


def as_text(summary: CaseSummary, verbose: bool) -> str:
    """Return the summary as text; ``verbose`` shows every difference of every failed case."""
    found = blocks(summary.failures, verbose=verbose, most=SHOWN_DIFFERENCES)
    head = ("FAMILY", "CASES", "PASSED", "FAILED", "ON PURPOSE", "STEPS COMPARED")
    found.append(table(head, [(*map(str, row[:-2]), f"{row[-2]} of {row[-1]}") for row in _rows(summary)]))
    if counts := summary.rules:
        rows = [(each.name, str(counts[each.name]), each.rule) for each in DEVIATIONS if counts[each.name]]
        found.append(table(("DEVIATION", "CASES", "OUR RULE"), rows))
    found.append(_share(summary))
    return "\n\n".join(found) + f"\n{summary.passed} passed, {summary.failed} failed"


def as_json(summary: CaseSummary, more: Mapping[str, Any]) -> str:
    """Return the summary as JSON with all failures; ``more``: summaries of other files by name."""
    shown: dict[str, Any] = {
        "passed": summary.passed,
        "failed": summary.failed,
        "on_purpose": {
            "cases": summary.on_purpose,
            "of": summary.clean,
            "percent": round(summary.share, 2),
            "unnamed_defects": summary.unnamed,
            "by_deviation": summary.rules,
        },
        "families": [dict(zip(_COLUMNS, row, strict=True)) for row in _rows(summary)],
        "failures": summary.failures,
    }
    return indented_json(shown | dict(more))


def _share(summary: CaseSummary) -> str:
    share = f"{summary.share:.1f} %"
    if FORMS.keys() <= {outcome.case.family for outcome in summary.outcomes}:
        share += f", {'more than' if summary.share > MAX_PERCENT else 'at most'} {MAX_PERCENT:g} %"
    lines = [f"On purpose: {summary.on_purpose} of {summary.clean} cases without a known defect of Volcano ({share})"]
    if summary.unnamed:
        lines.append(
            f"A known defect: {summary.unnamed} cases whose codes do not name it, for pods that were on the node "
            "before or for nodes that were only scored"
        )
    return "\n".join(lines)


_COLUMNS = ("family", "cases", "passed", "failed", "on_purpose", "steps_compared", "steps")


def _rows(summary: CaseSummary) -> list[tuple[str, int, int, int, int, int, int]]:
    rows = []
    for family in dict.fromkeys(outcome.case.family for outcome in summary.outcomes):
        outcomes = [outcome for outcome in summary.outcomes if outcome.case.family == family]
        failed, on_purpose = sum(each.failed for each in outcomes), sum(each.on_purpose for each in outcomes)
        compared = sum(each.verdict.steps for each in outcomes)
        steps = sum(len(each.case.steps) for each in outcomes)
        rows.append((family, len(outcomes), len(outcomes) - failed - on_purpose, failed, on_purpose, compared, steps))
    return rows
