"""What a run prints: a line for each fault and group, violations with their evidence, and a summary."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from deviceshare.model import visible, visible_lines
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from deviceshare_lab.checker import Violation


class Reporter:
    """Prints lines; on a terminal above a bar of progress."""

    def __init__(self, seed: int, seconds: float, faults: int | None) -> None:
        self._seed, self._seconds, self._faults = seed, seconds, faults
        self._began = time.monotonic()
        self.kinds: Counter[str] = Counter()
        """Faults so far, by kind."""
        self.no_effect: Counter[str] = Counter()
        """Attempts that had no effect, by kind: not among the faults."""
        self.settled: list[tuple[float, str]] = []
        """How long the system took to settle after each group, and the faults of the group."""
        self.violations = 0
        self._progress: Progress | None = None
        if sys.stdout.isatty():
            columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
            self._progress = Progress(*columns, console=Console(), redirect_stdout=False, redirect_stderr=False)
            self._task = self._progress.add_task("starting", total=faults or seconds)
            self._progress.start()

    @property
    def count(self) -> int:
        """Faults so far."""
        return self.kinds.total()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def enough(self) -> bool:
        """Whether all faults were injected, or the time is over."""
        return self.elapsed >= self._seconds or (self._faults is not None and self.count >= self._faults)

    def line(self, text: str) -> None:
        """Print a line."""
        shown = f"{self.elapsed:8.1f} s  {text}"
        if self._progress is None:
            print(shown, flush=True)
            return
        self._progress.console.print(escape(visible(shown)), soft_wrap=True)
        done = self.count if self._faults is not None else self.elapsed
        self._progress.update(self._task, completed=done, description=f"{self.count} faults")

    def fault(self, name: str) -> int:
        """Count a fault and return its number."""
        self.kinds[name] += 1
        return self.count

    def summary(self, kinds: Iterable[str], churn: Mapping[str, int], evidence: str) -> None:
        """Print what was injected, done and checked. ``kinds``: the faults that may occur."""
        self.line(f"faults: {_counts(self.kinds)}")
        if never := sorted(set(kinds) - self.kinds.keys()):
            self.line(f"NEVER INJECTED: {', '.join(never)}")
        if self.no_effect:
            self.line(f"attempts without effect, not counted: {_counts(self.no_effect)}")
        self.line(f"workload: {_counts(churn)}")
        self.line(f"checker: {evidence}")
        if self.settled:
            seconds = sorted(seconds for seconds, _ in self.settled)
            slowest, faults = max(self.settled)
            self.line(
                f"the system settled {len(seconds)} times, {seconds[len(seconds) // 2]:.1f} s after the last fault "
                f"of a group (median); at most {slowest:.1f} s, after {faults}"
            )

    def broken(self, violations: Iterable[Violation], faults: Iterable[str], directory: Path) -> None:
        """Print violations, with the faults of the round and where to look."""
        files = sorted(directory.glob("*.corelog"))
        logs = sorted(directory.glob("*.log"))
        lines = ["", f"VIOLATION with --seed {self._seed}, after {self.count} faults; those of this group:"]
        lines += [f"  {fault}" for fault in faults]
        for violation in violations:
            self.violations += 1
            at = time.strftime("%H:%M:%S", time.gmtime(violation.at)) + f".{int(violation.at % 1 * 1000):03d}Z"
            lines += [f"{at} {violation.rule}:", f"  {violation.text}"]
        lines.append(f"everything is kept in {directory}")
        lines.append(f"logs: {' '.join(path.name for path in logs)}")
        lines.append(f"core logs, for `deviceshare replay`: {' '.join(path.name for path in files) or 'none'}")
        text = "\n".join(lines)
        (directory / "violation.txt").write_text(text + "\n")
        if self._progress is None:
            print(text, flush=True)
        else:
            self._progress.console.print(escape(visible_lines(text)), soft_wrap=True)

    def end(self) -> None:
        """Print the summary as the last line."""
        if self._progress is not None:
            self._progress.stop()
        print(
            f"{self.count} faults, {self.violations} violations (seed {self._seed}, {self.elapsed:.0f} s)", flush=True
        )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
