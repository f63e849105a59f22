"""kube-scheduler's answers in ``deviceshare lab conformance``: the replay of files, and the report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from deviceshare.model import DeviceshareError
from deviceshare_cli.errors import CommandError
from deviceshare_cli.output import table

from deviceshare_lab.conformance.kube_scheduler.recorded import Case, Recorded
from deviceshare_lab.conformance.kube_scheduler.replay import RULES, Verdict, replay
from deviceshare_lab.conformance.lines import decoded
from deviceshare_lab.conformance.outcomes import Outcome, Summary, blocks, share

MAX_PERCENT = 6.0
"""Limit of the percentage of cases that rules explain."""


class PluginSummary(Summary[Case, Verdict], frozen=True):
    """The results of all cases."""

    @property
    def not_compared(self) -> int:
        """Number of cases whose plugins nothing evaluates."""
        return sum(not outcome.verdict.plugins for outcome in self.outcomes)

    @property
    def compared(self) -> int:
        """Number of the other cases."""
        return len(self.outcomes) - self.not_compared

    @property
    def identical(self) -> int:
        """Number of compared cases that are as recorded."""
        return self.compared - self.by_rule - self.failed

    @property
    def share(self) -> float:
        """Percentage of the compared cases that rules explain."""
        return 100 * self.by_rule / self.compared if self.compared else 0.0


def as_text(summary: PluginSummary, verbose: bool) -> str:
    """Return the summary as text; ``verbose`` shows every failed case."""
    found = [*blocks(summary.failures, verbose=verbose), table(_HEAD, [tuple(map(str, row)) for row in _rows(summary)])]
    if counts := summary.rules:
        rows = [(name, str(counts[name]), text) for name, text in RULES.items() if counts[name]]
        found.append(table(("RULE", "CASES", "OUR RULE"), rows))
    lines = [share("cases", summary.by_rule, summary.share, MAX_PERCENT)]
    if summary.not_compared:
        lines.append(f"Not compared: {summary.not_compared} cases with plugins that are not evaluated")
    return "\n\n".join([*found, "\n".join([*lines, summary.totals()])])


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
    for family in dict.fromkeys(outcome.case.family for outcome in summary.outcomes):
        verdicts = [outcome.verdict for outcome in summary.outcomes if outcome.case.family == family]
        compared, by_rule = sum(bool(each.plugins) for each in verdicts), sum(bool(each.rules) for each in verdicts)
        failed = sum(bool(each.unexplained) for each in verdicts)
        rows.append((family, len(verdicts), compared, compared - by_rule - failed, by_rule, failed))
    return rows


_RECORDED = msgspec.json.Decoder(Recorded)


def is_of_kube_scheduler(keys: frozenset[str]) -> bool:
    """Return whether a file whose first line has these keys has answers of kube-scheduler, or of its allocator."""
    return {"case", "answer"} <= keys


def summarize(files: Sequence[Path]) -> PluginSummary:
    """Replay the cases of files.

    Raises:
        CommandError: a file or a line is invalid.
    """
    outcomes = []
    for path in files:
        for number, where, recorded in decoded(path, _RECORDED):
            try:
                verdict = replay(recorded)
            except (DeviceshareError, LookupError, TypeError) as error:
                raise CommandError(f"{where}: not a recorded case: {error!r}") from None
            outcomes.append(Outcome(path, number, recorded.case, verdict))
    return PluginSummary(outcomes)
