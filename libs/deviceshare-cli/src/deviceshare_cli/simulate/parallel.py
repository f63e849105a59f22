"""Runs of a simulation on several cores, with a progress bar on a terminal."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")
R = TypeVar("R")


def run_all(run: Callable[[T], R], tasks: Sequence[T], jobs: int | None) -> list[R]:
    """Return the result of each task, in order; ``jobs`` at the same time, None: one for each core."""
    results = _results(run, tasks, min(jobs or os.cpu_count() or 1, len(tasks)))
    if not sys.stderr.isatty():
        return list(results)
    columns = TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        return list(progress.track(results, total=len(tasks)))


def _results(run: Callable[[T], R], tasks: Sequence[T], jobs: int) -> Iterator[R]:
    if jobs <= 1:
        yield from map(run, tasks)
        return
    # A new interpreter for each worker: the command may have threads.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            yield from pool.map(run, tasks)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
