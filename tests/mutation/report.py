"""The report: a table by group, and each mutant that no test noticed."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutation.mutants import Mutant
from mutation.workers import Run, Verdict

GROUP_LEAST = 0.80
WHOLE_LEAST = 0.88


@dataclass(frozen=True)
class Result:
    """A mutant and its verdict."""

    mutant: Mutant
    run: Run


def rate(results: Sequence[Result]) -> float:
    """Return the part of the valid mutants that a test killed; 1 if there are none."""
    valid = [result for result in results if result.run.verdict not in (Verdict.INVALID, Verdict.EQUIVALENT)]
    return sum(result.run.verdict is Verdict.KILLED for result in valid) / len(valid) if valid else 1.0


def by_group(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the results of each group."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.mutant.group, []).append(result)
    return groups


def table(results: Sequence[Result]) -> str:
    """Return a Markdown table with a row for each group and one for all."""
    rows = [f"| group | mutants | {' | '.join(Verdict)} | rate |", f"|---|---|{'---|' * len(Verdict)}---|"]
    for name, part in [*by_group(results).items(), ("all", list(results))]:
        counts = [sum(result.run.verdict is verdict for result in part) for verdict in Verdict]
        rows.append(f"| {name} | {len(part)} | {' | '.join(map(str, counts))} | {rate(part):.0%} |")
    return "\n".join(rows)


def weak(results: Sequence[Result]) -> list[str]:
    """Return what is below the limits, in words."""
    below = [
        f"{name}: {rate(part):.0%} of the mutants killed, at least {GROUP_LEAST:.0%} expected"
        for name, part in by_group(results).items()
        if rate(part) < GROUP_LEAST
    ]
    if rate(results) < WHOLE_LEAST:
        below.append(f"all: {rate(results):.0%} of the mutants killed, at least {WHOLE_LEAST:.0%} expected")
    return below


def line(result: Result) -> str:
    """Return a mutant and its verdict in one line."""
    mutant, run = result.mutant, result.run
    return f"{run.verdict:8} {run.seconds:6.1f} s  {mutant.path}:{mutant.line} {mutant.operator}  {run.test}"


def write_killed(path: Path, results: Sequence[Result]) -> None:
    """Write the digests of the killed mutants, each with the test that killed it."""
    killed = {result.mutant.digest: result.run.test for result in results if result.run.verdict is Verdict.KILLED}
    path.write_text(json.dumps(killed, indent=0))


def read_killed(path: Path) -> dict[str, str]:
    """Return the mutants that were killed when the report was written; none without one."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def describe(root: Path, result: Result) -> str:
    """Return a mutant with its change as a diff."""
    mutant, run = result.mutant, result.run
    before = (root / mutant.path).read_text().splitlines()
    lines = difflib.unified_diff(before, mutant.code.splitlines(), n=2, lineterm="")
    diff = "\n".join(list(lines)[2:])
    return f"### {run.verdict}: {mutant.path}:{mutant.line} {mutant.operator}\n\n```diff\n{diff}\n```\n"


def page(root: Path, results: Sequence[Result], settings: str) -> str:
    """Return the whole report as Markdown."""
    left = [result for result in results if result.run.verdict in (Verdict.SURVIVED, Verdict.TIMEOUT)]
    same = [result for result in results if result.run.verdict is Verdict.EQUIVALENT]
    parts = [f"# Mutants\n\n{settings}\n", table(results) + "\n", "## Not killed\n"]
    parts += [describe(root, result) for result in left]
    if same:
        parts += ["## Equivalent\n", *(f"{describe(root, result)}\n{result.run.output}\n" for result in same)]
    return "\n".join(parts)
