"""Runs of a simulation on several cores."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from deviceshare_cli.errors import CommandError
from deviceshare_cli.simulate.progress import RUNS, progress_bar

_WATCH_SECONDS = 0.5
"""How often a worker looks whether the command still runs."""

T = TypeVar("T")
R = TypeVar("R")


def run_all(
    run: Callable[[T], R], tasks: Sequence[T], jobs: int | None, described: Callable[[T], str] = lambda _task: RUNS
) -> list[R]:
    """Return the result of each task, in order; ``jobs`` at the same time, None: one for each core.

    Raises CommandError if a worker is killed.

    ``described``: what the progress bar says when a task ends.
    """
    results: dict[int, R] = {}
    with progress_bar(len(tasks), RUNS) as progress:
        for number, result in _results(run, tasks, min(jobs or os.cpu_count() or 1, len(tasks))):
            results[number] = result
            progress(len(results), described(tasks[number]))
    return [results[number] for number in range(len(tasks))]


def _results(run: Callable[[T], R], tasks: Sequence[T], jobs: int) -> Iterator[tuple[int, R]]:
    """Yield the number and the result of each task when it ends."""
    if jobs <= 1:
        yield from enumerate(map(run, tasks))
        return
    # A new interpreter for each worker: the command may have threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _end_with_parent, (os.getpid(),)) as pool:
        numbers = {pool.submit(run, task): number for number, task in enumerate(tasks)}
        try:
            for done in as_completed(numbers):
                yield numbers[done], done.result()
        except BrokenProcessPool:
            raise CommandError(
                "a worker process was killed, maybe for want of memory: --jobs 1 needs the least"
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _end_with_parent(parent: int) -> None:
    """Let a worker end when the command was killed: its results are not needed any more."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
