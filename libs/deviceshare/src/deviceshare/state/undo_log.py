"""Trying changes: while a trial is open, every change of what pods hold is logged with what undoes it.

A trial that is not committed undoes its changes, the last one first, so that the state is the same as before, with the
order of all maps. Trials may be nested: an outer one undoes what an inner one has committed. Changes outside of trials
cost one comparison.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self


class UndoLog:
    """What undoes the changes of the open trials."""

    def __init__(self) -> None:
        self.trials = 0
        """The number of open trials: while there is none, nothing is logged."""
        self._entries: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def add(self, undo: Callable[..., object], *arguments: Any) -> None:
        """Log what undoes a change. Only to be called while there are :attr:`trials`."""
        self._entries.append((undo, arguments))

    @property
    def position(self) -> int:
        """The present end of the log."""
        return len(self._entries)

    def begin(self) -> int:
        """Open a trial; return its position in the log."""
        self.trials += 1
        return len(self._entries)

    def undo(self, position: int) -> None:
        """Undo the changes since a position."""
        trials, self.trials = self.trials, 0  # what is undone is not logged
        while len(self._entries) > position:
            undo, arguments = self._entries.pop()
            undo(*arguments)
        self.trials = trials

    def end(self) -> None:
        """Close the trial that was opened last."""
        self.trials -= 1
        if not self.trials:
            self._entries.clear()


class Trial:
    """Changes that are undone at the end of ``with``, unless they are committed.

    Args:
        logs: the logs of everything that is changed.
    """

    def __init__(self, *logs: UndoLog) -> None:
        self._logs = logs
        self._positions: list[int] = []

    def __enter__(self) -> Self:
        self._positions = [log.begin() for log in self._logs]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.roll_back()
        for log in self._logs:
            log.end()

    def commit(self) -> None:
        """Keep the changes so far."""
        self._positions = [log.position for log in self._logs]

    def roll_back(self) -> None:
        """Undo the changes since the beginning, or since the last commit."""
        for log, position in zip(self._logs, self._positions, strict=True):
            log.undo(position)
