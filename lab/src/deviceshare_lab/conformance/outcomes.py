"""Replayed cases of any kind of recorded answers, and what is reported of them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

SHOWN_FAILURES = 3


class Recorded(Protocol):
    """A case, session or test."""

    @property
    def id(self) -> str:
        """Names it in reports."""
        ...


class Verdict(msgspec.Struct, frozen=True):
    """The result of a replay: the differences, and the names of the rules without which there are none."""

    differences: tuple[Any, ...] = ()
    """Each has a title, and texts: what was ``recorded`` and what is ``ours``."""
    rules: tuple[str, ...] = ()

    @property
    def unexplained(self) -> tuple[Any, ...]:
        """The differences, unless rules explain them."""
        return () if self.rules else self.differences


INPUT = "input"
"""The aspect of a configuration or an object that we refuse."""


class AspectVerdict(Verdict, frozen=True):
    """The result of a replay whose differences are of aspects."""

    def same(self, *aspects: str) -> bool:
        """Return whether these aspects are as recorded; False if we refuse the input."""
        return not any(difference.aspect in (INPUT, *aspects) for difference in self.differences)


OfCase = TypeVar("OfCase", bound=Recorded)
OfVerdict = TypeVar("OfVerdict", bound=Verdict)
OfAspects = TypeVar("OfAspects", bound=AspectVerdict)


class Failure(msgspec.Struct, frozen=True):
    """A failed case or session: its id, file and line, and the unexplained differences."""

    id: str
    file: str
    line: int
    differences: Sequence[Any]

    def as_text(self, most: int | None) -> str:
        """Return at most ``most`` differences: ``-`` as recorded, ``+`` ours."""
        shown = self.differences[:most]
        lines = [f"FAILED {self.id} ({self.file}, line {self.line}; - recorded, + ours)"]
        for each in shown:
            lines += [f"  {each.title}", f"  - {each.recorded}", f"  + {each.ours}"]
        if len(shown) < len(self.differences):
            lines.append(f"  … and {len(self.differences) - len(shown)} more")
        return "\n".join(lines)


class Outcome(msgspec.Struct, Generic[OfCase, OfVerdict], frozen=True):
    """One replayed case with its file and line."""

    path: Path
    line: int
    case: OfCase
    verdict: OfVerdict

    @property
    def failed(self) -> bool:
        """Whether there is an unexplained difference."""
        return bool(self.verdict.unexplained)


class Summary(msgspec.Struct, Generic[OfCase, OfVerdict], frozen=True):
    """The results of all cases of a kind.

    ``out_of_reach``: number of tests that cannot be replayed, by the feature that they need.
    """

    outcomes: Sequence[Outcome[OfCase, OfVerdict]]
    out_of_reach: dict[str, int] = {}

    @property
    def failures(self) -> list[Failure]:
        """The cases with unexplained differences."""
        return [
            Failure(each.case.id, str(each.path), each.line, each.verdict.unexplained)
            for each in self.outcomes
            if each.failed
        ]

    @property
    def failed(self) -> int:
        """Number of cases with unexplained differences."""
        return sum(outcome.failed for outcome in self.outcomes)

    @property
    def fails(self) -> bool:
        """Whether the command fails by them."""
        return self.failed > 0

    @property
    def identical(self) -> int:
        """Number of cases that are as recorded."""
        return sum(not outcome.verdict.differences for outcome in self.outcomes)

    @property
    def rules(self) -> Counter[str]:
        """Number of cases that each rule explains."""
        return Counter(name for outcome in self.outcomes for name in outcome.verdict.rules)

    @property
    def by_rule(self) -> int:
        """Number of cases whose differences our rules explain."""
        return sum(bool(outcome.verdict.rules) for outcome in self.outcomes)

    def percent(self, count: int) -> float:
        """Return a number of cases as a percentage of all cases."""
        return 100 * count / len(self.outcomes) if self.outcomes else 0.0

    def not_replayed(self) -> list[str]:
        """Return a line for each feature that tests need."""
        return [f"Not replayed: {count} unit tests with {need}" for need, count in sorted(self.out_of_reach.items())]

    def totals(self) -> str:
        """Return the last line of a report."""
        return f"{self.identical} identical, {self.by_rule} by rule, {self.failed} failed"


class AspectSummary(Summary[OfCase, OfAspects], frozen=True):
    """The results of all cases that are compared by aspects."""

    def same(self, *aspects: str) -> int:
        """Return the number of cases that are as recorded in these aspects."""
        return sum(outcome.verdict.same(*aspects) for outcome in self.outcomes)


def blocks(failures: Sequence[Failure], *, verbose: bool, most: int | None = None) -> list[str]:
    """Return the text of each failure, or without ``verbose`` of the first ones with ``most`` differences each."""
    if verbose:
        return [failure.as_text(None) for failure in failures]
    shown = [failure.as_text(most) for failure in failures[:SHOWN_FAILURES]]
    if len(failures) > SHOWN_FAILURES:
        shown.append(f"… and {len(failures) - SHOWN_FAILURES} more failures: --verbose shows all")
    return shown


def share(what: str, count: int, percent: float, limit: float) -> str:
    """Return a line that says how many cases our rules explain, and whether they are too many."""
    compared = "more than" if percent > limit else "at most"
    return f"Explained by our rules: {count} {what} ({percent:.1f} %, {compared} {limit:g} %)"
