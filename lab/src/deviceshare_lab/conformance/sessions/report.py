"""The report of ``deviceshare lab conformance`` for sessions, as text or JSON."""

from typing import Any

from deviceshare_cli.output import table

from deviceshare_lab.conformance.outcomes import AspectSummary, blocks, share
from deviceshare_lab.conformance.sessions.recorded import Session
from deviceshare_lab.conformance.sessions.replay import DEVICES, NODES, ORDER, PHASES, PODS, Verdict
from deviceshare_lab.conformance.sessions.rules import RULES

MAX_PERCENT = 45.0
"""Limit of the percentage of sessions that our rules explain."""
_PLACEMENTS = (PODS, NODES, DEVICES)


class SessionSummary(AspectSummary[Session, Verdict], frozen=True):
    """The results of all sessions; ``as_volcano``: without the rules that have an argument."""

    as_volcano: bool = False


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
        count = summary.by_rule
        lines.append(share("sessions", count, summary.percent(count), MAX_PERCENT))
    return [*lines, *summary.not_replayed(), summary.totals()]


def _kinds(summary: SessionSummary) -> str:
    rows = []
    for kind in dict.fromkeys(outcome.case.kind for outcome in summary.outcomes):
        verdicts = [outcome.verdict for outcome in summary.outcomes if outcome.case.kind == kind]
        identical = sum(not verdict.differences for verdict in verdicts)
        by_rule = sum(bool(each.rules) for each in verdicts)
        failed = sum(bool(each.unexplained) for each in verdicts)
        rows.append((kind, str(len(verdicts)), str(identical), str(by_rule), str(failed)))
    return table(("KIND", "SESSIONS", "IDENTICAL", "BY RULE", "FAILED"), rows)
