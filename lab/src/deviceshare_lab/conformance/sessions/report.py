"""The report of ``deviceshare lab conformance`` for sessions, as text or JSON."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from deviceshare_cli.output import table

from deviceshare_lab.conformance.failures import Failure, blocks
from deviceshare_lab.conformance.sessions.recorded import Session
from deviceshare_lab.conformance.sessions.replay import DEVICES, NODES, ORDER, PHASES, PODS, Verdict
from deviceshare_lab.conformance.sessions.rules import RULES

MAX_PERCENT = 45.0
"""Limit of the percentage of sessions that our rules explain."""
_PLACEMENTS = (PODS, NODES, DEVICES)


class SessionOutcome(msgspec.Struct, frozen=True):
    """One replayed session with its file and line."""

    path: Path
    line: int
    session: Session
    verdict: Verdict


class SessionSummary(msgspec.Struct, frozen=True):
    """The results of all sessions; ``as_volcano``: without the rules that have an argument.

    ``out_of_reach``: number of unit tests that cannot be replayed, by the feature that they need.
    """

    outcomes: Sequence[SessionOutcome]
    out_of_reach: dict[str, int] = {}
    as_volcano: bool = False

    @property
    def failures(self) -> list[Failure]:
        """The sessions with an unexplained difference."""
        return [
            Failure(outcome.session.id, str(outcome.path), outcome.line, outcome.verdict.unexplained)
            for outcome in self.outcomes
            if outcome.verdict.failed
        ]

    @property
    def rules(self) -> Counter[str]:
        """Number of sessions that each rule explains."""
        return Counter(name for outcome in self.outcomes for name in outcome.verdict.rules)

    @property
    def failed(self) -> int:
        """Number of sessions with an unexplained difference."""
        return sum(outcome.verdict.failed for outcome in self.outcomes)

    @property
    def identical(self) -> int:
        """Number of sessions that are as recorded in all aspects."""
        return sum(not outcome.verdict.differences for outcome in self.outcomes)

    @property
    def by_rule(self) -> int:
        """Number of sessions whose differences our rules explain."""
        return sum(bool(outcome.verdict.rules) for outcome in self.outcomes)

    def same(self, *aspects: str) -> int:
        """Return the number of sessions that are as recorded in these aspects."""
        return sum(outcome.verdict.same(*aspects) for outcome in self.outcomes)

    def percent(self, count: int) -> float:
        """Return a number of sessions as a percentage of all sessions."""
        return 100 * count / len(self.outcomes) if self.outcomes else 0.0


def as_text(summary: SessionSummary, verbose: bool) -> str:
    """Return the summary as text; ``verbose`` shows every failed session."""
    found = [*blocks(summary.failures, verbose=verbose), _kinds(summary)]
    if counts := summary.rules:
        rows = [(rule.name, str(counts[rule.name]), rule.argument, rule.text) for rule in RULES if counts[rule.name]]
        found.append(table(("RULE", "SESSIONS", "ARGUMENT", "OUR RULE"), rows))
    return "\n\n".join([*found, "\n".join(_totals(summary))])


def as_object(summary: SessionSummary) -> dict[str, Any]:
    """Return the summary for JSON with all failures."""
    return {
        "sessions": len(summary.outcomes),
        "as_volcano": summary.as_volcano,
        "identical": {
            "placements": summary.same(*_PLACEMENTS),
            "order": summary.same(*_PLACEMENTS, ORDER),
            "phases": summary.same(PHASES),
            "all": summary.identical,
        },
        "by_rule": {"sessions": summary.by_rule, "rules": summary.rules},
        "failed": summary.failed,
        "out_of_reach": summary.out_of_reach,
        "failures": summary.failures,
    }


def _totals(summary: SessionSummary) -> list[str]:
    lines = []
    for what, aspects in (("pods, nodes and devices", _PLACEMENTS), ("the order as well", (*_PLACEMENTS, ORDER))):
        count = summary.same(*aspects)
        lines.append(
            f"Identical in {what}: {count} of {len(summary.outcomes)} sessions ({summary.percent(count):.1f} %)"
        )
    if not summary.as_volcano:
        percent = summary.percent(summary.by_rule)
        limit = "more than" if percent > MAX_PERCENT else "at most"
        lines.append(f"Explained by our rules: {summary.by_rule} sessions ({percent:.1f} %, {limit} {MAX_PERCENT:g} %)")
    lines += [f"Not replayed: {count} unit tests with {need}" for need, count in sorted(summary.out_of_reach.items())]
    return [*lines, f"{summary.identical} identical, {summary.by_rule} by rule, {summary.failed} failed"]


def _kinds(summary: SessionSummary) -> str:
    rows = []
    for kind in dict.fromkeys(outcome.session.kind for outcome in summary.outcomes):
        verdicts = [outcome.verdict for outcome in summary.outcomes if outcome.session.kind == kind]
        identical = sum(not verdict.differences for verdict in verdicts)
        by_rule, failed = sum(bool(each.rules) for each in verdicts), sum(each.failed for each in verdicts)
        rows.append((kind, str(len(verdicts)), str(identical), str(by_rule), str(failed)))
    return table(("KIND", "SESSIONS", "IDENTICAL", "BY RULE", "FAILED"), rows)
