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

    __slots__ = ("_trials", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] | None = None
        """For each change of the open trials a function that undoes it, and its arguments; None while none is open."""
        self._trials = 0

    def begin(self) -> int:
        """Open a trial; return its position in the log."""
        self._trials += 1
        if self.entries is None:
            self.entries = []
        return len(self.entries)

    def undo(self, position: int) -> None:
        """Undo the changes since a position."""
        entries, self.entries = self.entries, None  # what is undone is not logged
        assert entries is not None
        while len(entries) > position:
            undo: Callable[..., object]
            undo, *arguments = entries.pop()
            undo(*arguments)
        self.entries = entries

    def end(self) -> None:
        """Close the trial that was opened last."""
        self._trials -= 1
        if not self._trials:
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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None or not self._committed:
            self.roll_back()
        for log in self._logs:
            log.end()

    def commit(self) -> None:
        """Keep the changes of the trial."""
        self._committed = True

    def roll_back(self) -> None:
        """Undo the changes so far."""
        for log, position in zip(self._logs, self._positions, strict=True):
            log.undo(position)
