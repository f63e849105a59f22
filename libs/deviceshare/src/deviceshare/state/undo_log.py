"""Trying changes: while a trial is open, every change of what pods hold is logged with what undoes it.

A trial that is not committed undoes its changes, the last one first, so that the state is the same as before, with the
order of the holdings of a node. Trials may be nested: an outer one undoes what an inner one has committed. Changes
outside of trials cost one comparison.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self


class UndoLog:
    """What undoes the changes of the open trials."""

    __slots__ = ("entries", "trials")

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] | None = None
        """For each change of the open trials a function that undoes it, and its arguments; None while none is open."""
        self.trials = 0
        """The number of open trials."""

    def begin(self) -> int:
        """Open a trial; return its position in the log."""
        self.trials += 1
        if self.entries is None:
            self.entries = []
        return len(self.entries)

    def undo(self, position: int) -> None:
        """Undo the changes since a position. If one cannot be undone, the log keeps those before it."""
        entries, self.entries = self.entries, None  # what is undone is not logged
        assert entries is not None
        try:
            while len(entries) > position:
                undo: Callable[..., object]
                undo, *arguments = entries.pop()
                undo(*arguments)
        finally:
            self.entries = entries

    def end(self) -> None:
        """Close the trial that was opened last."""
        self.trials -= 1
        if not self.trials:
            self.entries = None


class Trial:
    """Changes that are undone at the end of ``with``, unless they are committed.

    Args:
        logs: the logs of everything that is changed.
    """

    _committed = False

    def __init__(self, *logs: UndoLog) -> None:
        self._logs = logs

    def __enter__(self) -> Self:
        self._positions = [*map(UndoLog.begin, self._logs)]
        self._trials = [log.trials for log in self._logs]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is not None or not self._committed:
                self.roll_back()
        finally:
            for log in self._logs:
                log.end()

    def commit(self) -> None:
        """Keep the changes of the trial.

        Raises:
            RuntimeError: a trial within this one is open, which may undo what it has changed.
        """
        self._require_innermost("committed")
        self._committed = True

    def _require_innermost(self, done: str) -> None:
        if [log.trials for log in self._logs] != self._trials:
            raise RuntimeError(f"a trial cannot be {done} while one within it is open")

    def roll_back(self) -> None:
        """Undo the changes so far.

        Raises:
            RuntimeError: a trial within this one is open, whose changes would be undone twice.
        """
        self._require_innermost("rolled back")
        for log, position in zip(self._logs, self._positions, strict=True):
            log.undo(position)
