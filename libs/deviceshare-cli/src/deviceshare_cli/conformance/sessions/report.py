"""The report of ``deviceshare conformance`` for sessions, as text or JSON."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from deviceshare_cli.conformance.sessions.recorded import Session
from deviceshare_cli.conformance.sessions.replay import DEVICES, NODES, ORDER, PHASES, PODS, Verdict
from deviceshare_cli.conformance.sessions.rules import RULES
from deviceshare_cli.output import table

MOST_PERCENT = 45.0
"""Limit of the percentage of sessions that our rules explain."""
SHOWN_FAILURES = 3
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
    failures = [outcome for outcome in summary.outcomes if outcome.verdict.failed]
    shown = failures if verbose else failures[:SHOWN_FAILURES]
    blocks = [_failure(outcome) for outcome in shown]
    if len(shown) < len(failures):
        blocks.append(f"… and {len(failures) - len(shown)} more failures: --verbose shows all")
    blocks.append(_kinds(summary))
    found = _by_rule(summary)
    if found:
        rows = [(rule.name, str(found[rule.name]), rule.argument, rule.text) for rule in RULES if found[rule.name]]
        blocks.append(table(("RULE", "SESSIONS", "ARGUMENT", "OUR RULE"), rows))
    blocks.append("\n".join(_totals(summary)))
    return "\n\n".join(blocks)


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
        "by_rule": {"sessions": summary.by_rule, "rules": dict(_by_rule(summary))},
        "failed": summary.failed,
        "out_of_reach": summary.out_of_reach,
        "failures": [
            {
                "id": outcome.session.id,
                "file": str(outcome.path),
                "line": outcome.line,
                "differences": outcome.verdict.unexplained,
            }
            for outcome in summary.outcomes
            if outcome.verdict.failed
        ],
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
        limit = "more than" if percent > MOST_PERCENT else "at most"
        lines.append(
            f"Explained by our rules: {summary.by_rule} sessions ({percent:.1f} %, {limit} {MOST_PERCENT:g} %)"
        )
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


def _by_rule(summary: SessionSummary) -> Counter[str]:
    return Counter(name for outcome in summary.outcomes for name in outcome.verdict.rules)


def _failure(outcome: SessionOutcome) -> str:
    """Return the differences of a session: ``-`` as recorded, ``+`` our decisions."""
    lines = [f"FAILED {outcome.session.id} ({outcome.path}, line {outcome.line}; - recorded, + ours)"]
    for difference in outcome.verdict.unexplained:
        lines += [f"  {difference.aspect}", f"  - {difference.recorded}", f"  + {difference.ours}"]
    return "\n".join(lines)
