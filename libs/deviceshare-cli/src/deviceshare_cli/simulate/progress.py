"""A progress bar on stderr while a simulation runs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Progressed = Callable[[int, str], None]
"""Shows how much is done, and the description of what is done."""
RUNS = "runs"


@contextmanager
def progress_bar(total: int, description: str) -> Iterator[Progressed]:
    """Show a progress bar until the end of the context, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _description: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done, text: progress.update(task, completed=done, description=text)
