"""What ``deviceshare conformance`` prints: what became of the cases, by family and by deviation, as text or JSON."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from deviceshare_cli.conformance.cases import Case
from deviceshare_cli.conformance.deviations import DEVIATIONS
from deviceshare_cli.conformance.recorded import FORMS
from deviceshare_cli.conformance.replay import Verdict
from deviceshare_cli.output import indented_json, table

MOST_PERCENT = 12.0
"""How many of the cases that no known defect of Volcano touched should differ on purpose at most, over all families."""
SHOWN_FAILURES = 3
SHOWN_DIFFERENCES = 4


_AVOIDING = frozenset(deviation.name for deviation in DEVIATIONS if deviation.code)


class Outcome(msgspec.Struct, frozen=True):
    """One replayed case and where it stands."""

    path: Path
    line: int
    case: Case
    verdict: Verdict

    @property
    def failed(self) -> bool:
        """Whether a difference is left that nothing explains."""
        return bool(self.verdict.differences)

    @property
    def touched(self) -> bool:
        """Whether a known defect of Volcano touched it.

        The codes of a case name those that touched a placement. At pods that stand on the node before, and at nodes
        that are only scored, a defect shows as a deviation that avoids it.
        """
        return bool(self.case.quirks) or not _AVOIDING.isdisjoint(self.verdict.deviations)

    @property
    def on_purpose(self) -> bool:
        """Whether it differs by a rule of ours, and neither by a defect of Volcano nor in anything else."""
        return bool(self.verdict.deviations) and not self.failed and not self.touched


class Summary(msgspec.Struct, frozen=True):
    """What became of all cases."""

    outcomes: Sequence[Outcome]

    @property
    def failed(self) -> int:
        """How many cases failed."""
        return sum(outcome.failed for outcome in self.outcomes)

    @property
    def passed(self) -> int:
        """How many cases are as recorded, those that a known defect touched up to there."""
        return sum(not outcome.failed and not outcome.on_purpose for outcome in self.outcomes)

    @property
    def clean(self) -> int:
        """How many cases there are that no known defect of Volcano touched."""
        return sum(not outcome.touched for outcome in self.outcomes)

    @property
    def on_purpose(self) -> int:
        """How many of the clean ones differ on purpose."""
        return sum(outcome.on_purpose for outcome in self.outcomes)

    @property
    def unnamed(self) -> int:
        """How many cases a known defect touched that does not stand among their codes."""
        return sum(outcome.touched and not outcome.case.quirks for outcome in self.outcomes)

    @property
    def percent(self) -> float:
        """How many percent of the clean ones differ on purpose."""
        return 100 * self.on_purpose / self.clean if self.clean else 0.0


def as_text(summary: Summary, verbose: bool) -> str:
    """Return the summary for people; ``verbose`` shows every difference of every case that failed."""
    failures = [outcome for outcome in summary.outcomes if outcome.failed]
    shown = failures if verbose else failures[:SHOWN_FAILURES]
    blocks = [_diff(outcome, verbose) for outcome in shown]
    if len(shown) < len(failures):
        blocks.append(f"… and {len(failures) - len(shown)} more that failed: --verbose shows all")
    blocks.append(_families(summary))
    if any(outcome.verdict.deviations for outcome in summary.outcomes):
        blocks.append(_deviations(summary))
    blocks.append(_share(summary))
    return "\n\n".join(blocks) + f"\n{summary.passed} passed, {summary.failed} failed"


def as_json(summary: Summary, sessions: dict[str, Any] | None = None) -> str:
    """Return the summary for programs, with all failures; ``sessions`` is that of the sessions, if there are any."""
    shown: dict[str, Any] = {
        "passed": summary.passed,
        "failed": summary.failed,
        "on_purpose": {
            "cases": summary.on_purpose,
            "of": summary.clean,
            "percent": round(summary.percent, 2),
            "unnamed_defects": summary.unnamed,
            "by_deviation": dict(_by_deviation(summary)),
        },
        "families": [dict(zip(_COLUMNS, row, strict=True)) for row in _rows(summary)],
        "failures": [
            {
                "id": outcome.case.id,
                "file": str(outcome.path),
                "line": outcome.line,
                "differences": outcome.verdict.differences,
            }
            for outcome in summary.outcomes
            if outcome.failed
        ],
    }
    if sessions is not None:
        shown["sessions"] = sessions
    return indented_json(shown)


def _share(summary: Summary) -> str:
    share = f"{summary.percent:.1f} %"
    if FORMS.keys() <= {outcome.case.family for outcome in summary.outcomes}:
        share += f", {'more than' if summary.percent > MOST_PERCENT else 'at most'} {MOST_PERCENT:g} %"
    lines = [
        f"On purpose: {summary.on_purpose} of {summary.clean} cases that no known defect of Volcano touched ({share})"
    ]
    if summary.unnamed:
        lines.append(
            f"A known defect: {summary.unnamed} cases whose codes do not name it, at pods that stood there before "
            "or at nodes that were only scored"
        )
    return "\n".join(lines)


_COLUMNS = ("family", "cases", "passed", "failed", "on_purpose", "steps_compared", "steps")


def _rows(summary: Summary) -> list[tuple[str, int, int, int, int, int, int]]:
    rows = []
    for family in dict.fromkeys(outcome.case.family for outcome in summary.outcomes):
        those = [outcome for outcome in summary.outcomes if outcome.case.family == family]
        failed, on_purpose = sum(each.failed for each in those), sum(each.on_purpose for each in those)
        compared = sum(each.verdict.steps for each in those)
        steps = sum(len(each.case.steps) for each in those)
        rows.append((family, len(those), len(those) - failed - on_purpose, failed, on_purpose, compared, steps))
    return rows


def _families(summary: Summary) -> str:
    head = ("FAMILY", "CASES", "PASSED", "FAILED", "ON PURPOSE", "STEPS COMPARED")
    rows = [(*map(str, row[:-2]), f"{row[-2]} of {row[-1]}") for row in _rows(summary)]
    return table(head, rows)


def _by_deviation(summary: Summary) -> Counter[str]:
    return Counter(name for outcome in summary.outcomes for name in outcome.verdict.deviations)


def _deviations(summary: Summary) -> str:
    found = _by_deviation(summary)
    rows = [(each.name, str(found[each.name]), each.rule) for each in DEVIATIONS if found[each.name]]
    return table(("DEVIATION", "CASES", "OUR RULE"), rows)


def _diff(outcome: Outcome, verbose: bool) -> str:
    """Return what differs in a case: ``-`` as recorded, ``+`` as we say."""
    differences = outcome.verdict.differences
    shown = differences if verbose else differences[:SHOWN_DIFFERENCES]
    lines = [f"FAILED {outcome.case.id} ({outcome.path}, line {outcome.line}; - recorded, + ours)"]
    for difference in shown:
        lines += [f"  {difference.step}: {difference.field}", f"  - {difference.recorded}", f"  + {difference.ours}"]
    if len(shown) < len(differences):
        lines.append(f"  … and {len(differences) - len(shown)} more")
    return "\n".join(lines)
