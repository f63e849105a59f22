"""Sessions in ``deviceshare lab conformance``: the replay of files, and the report."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from deviceshare_cli.output import table

from deviceshare_lab.conformance.lines import decoded, keys_of_first
from deviceshare_lab.conformance.outcomes import AspectSummary, Outcome, blocks, share
from deviceshare_lab.conformance.sessions.recorded import Session
from deviceshare_lab.conformance.sessions.replay import DEVICES, NODES, ORDER, PHASES, PODS, Verdict, replay
from deviceshare_lab.conformance.sessions.rules import RULES
from deviceshare_lab.conformance.sessions.unit_tests import UnitTest, session_of

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


_SESSION, _UNIT_TEST = msgspec.json.Decoder(Session), msgspec.json.Decoder(UnitTest)


def is_of_sessions(keys: frozenset[str]) -> bool:
    """Return whether a file whose first line has these keys has sessions or unit tests."""
    return ("volcano" in keys and "best" not in keys) or _is_of_unit_tests(keys)


def _is_of_unit_tests(keys: frozenset[str]) -> bool:
    return {"binds", "tiers"} <= keys and "evicts" not in keys


def summarize(files: Sequence[Path], *, as_volcano: bool) -> SessionSummary:
    """Replay the sessions of files; ``as_volcano`` disables the rules that have an argument.

    Raises:
        CommandError: a file, a line or a configuration is invalid.
    """
    off = [rule for rule in RULES if rule.argument] if as_volcano else []
    outcomes: list[Outcome[Session, Verdict]] = []
    out_of_reach: Counter[str] = Counter()
    for path, number, session in _sessions(files, out_of_reach):
        outcomes.append(Outcome(path, number, session, replay(session, off=off)))
    return SessionSummary(outcomes, dict(out_of_reach), as_volcano)


def _sessions(files: Sequence[Path], out_of_reach: Counter[str]) -> Iterator[tuple[Path, int, Session]]:
    """Yield the sessions of files, also those of unit tests, with their lines; count the others."""
    for path in files:
        if not _is_of_unit_tests(keys_of_first(path)):
            yield from ((path, number, session) for number, _, session in decoded(path, _SESSION))
            continue
        for number, where, test in decoded(path, _UNIT_TEST):
            session = session_of(test, where, out_of_reach)
            if session is not None:
                yield path, number, session
