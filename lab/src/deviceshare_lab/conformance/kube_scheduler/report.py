"""The report of ``deviceshare lab conformance`` for kube-scheduler's answers, as text or JSON."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from deviceshare_cli.output import table

from deviceshare_lab.conformance.failures import Failure, blocks
from deviceshare_lab.conformance.kube_scheduler.recorded import Recorded
from deviceshare_lab.conformance.kube_scheduler.replay import RULES, Verdict

MAX_PERCENT = 6.0
"""Limit of the percentage of cases that rules explain."""


class PluginOutcome(msgspec.Struct, frozen=True):
    """One replayed case with its file and line."""

    path: Path
    line: int
    recorded: Recorded
    verdict: Verdict


class PluginSummary(msgspec.Struct, frozen=True):
    """The results of all cases."""

    outcomes: Sequence[PluginOutcome]

    @property
    def failures(self) -> list[Failure]:
        """The cases with an unexplained difference."""
        return [
            Failure(outcome.recorded.case.id, str(outcome.path), outcome.line, outcome.verdict.differences)
            for outcome in self.outcomes
            if outcome.verdict.failed
        ]

    @property
    def failed(self) -> int:
        """Number of cases with an unexplained difference."""
        return sum(outcome.verdict.failed for outcome in self.outcomes)

    @property
    def rules(self) -> Counter[str]:
        """Number of cases that each rule explains."""
        return Counter(outcome.verdict.rule for outcome in self.outcomes if outcome.verdict.rule)

    @property
    def by_rule(self) -> int:
        """Number of cases that rules explain."""
        return self.rules.total()

    @property
    def not_compared(self) -> int:
        """Number of cases whose plugins nothing evaluates."""
        return sum(not outcome.verdict.plugins for outcome in self.outcomes)

    @property
    def compared(self) -> int:
        """Number of the other cases."""
        return len(self.outcomes) - self.not_compared

    @property
    def percent(self) -> float:
        """Percentage of the compared cases that rules explain."""
        return 100 * self.by_rule / self.compared if self.compared else 0.0


def as_text(summary: PluginSummary, verbose: bool) -> str:
    """Return the summary as text; ``verbose`` shows every failed case."""
    found = [*blocks(summary.failures, verbose=verbose), table(_HEAD, [tuple(map(str, row)) for row in _rows(summary)])]
    if counts := summary.rules:
        rows = [(name, str(counts[name]), text) for name, text in RULES.items() if counts[name]]
        found.append(table(("RULE", "CASES", "OUR RULE"), rows))
    limit = "more than" if summary.percent > MAX_PERCENT else "at most"
    lines = [f"Explained by our rules: {summary.by_rule} cases ({summary.percent:.1f} %, {limit} {MAX_PERCENT:g} %)"]
    if summary.not_compared:
        lines.append(f"Not compared: {summary.not_compared} cases with plugins that are not evaluated")
    identical = summary.compared - summary.by_rule - summary.failed
    lines.append(f"{identical} identical, {summary.by_rule} by rule, {summary.failed} failed")
    return "\n\n".join([*found, "\n".join(lines)])


def as_object(summary: PluginSummary) -> dict[str, Any]:
    """Return the summary for JSON with all failures."""
    return {
        "cases": len(summary.outcomes),
        "compared": summary.compared,
        "by_rule": {"cases": summary.by_rule, "rules": summary.rules},
        "failed": summary.failed,
        "families": [dict(zip(map(_key, _HEAD), row, strict=True)) for row in _rows(summary)],
        "failures": summary.failures,
    }


_HEAD = ("FAMILY", "CASES", "COMPARED", "IDENTICAL", "BY RULE", "FAILED")


def _key(title: str) -> str:
    return title.lower().replace(" ", "_")


def _rows(summary: PluginSummary) -> list[tuple[str, int, int, int, int, int]]:
    rows = []
    for family in dict.fromkeys(outcome.recorded.case.family for outcome in summary.outcomes):
        verdicts = [outcome.verdict for outcome in summary.outcomes if outcome.recorded.case.family == family]
        compared, by_rule = sum(bool(each.plugins) for each in verdicts), sum(bool(each.rule) for each in verdicts)
        failed = sum(each.failed for each in verdicts)
        rows.append((family, len(verdicts), compared, compared - by_rule - failed, by_rule, failed))
    return rows
