"""``deviceshare simulate trace``: all runs, on all cores, with a progress bar on a terminal."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from deviceshare.traces import Trace, with_times
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deviceshare_cli.errors import CommandError
from deviceshare_cli.simulate.trace.arrivals import draw, read_order
from deviceshare_cli.simulate.trace.churn import ChurnResult, Plan, plan, run_churn
from deviceshare_cli.simulate.trace.policies import POLICIES
from deviceshare_cli.simulate.trace.reading import parse_number, read_trace, workloads
from deviceshare_cli.simulate.trace.run import Result, run

MOST_SEEDS = 1000
MOST_LOAD = 10.0
_RECORDED = "default"
"""The workload whose times count for workloads without times."""


class Options(NamedTuple):
    """What is simulated. ``orders``: a directory of recorded arrivals; None: arrivals are drawn from the seed."""

    directory: Path
    workloads: tuple[str, ...]
    load: float
    seeds: tuple[int, ...]
    policies: tuple[str, ...]
    orders: Path | None = None
    jobs: int | None = None


class _Task(NamedTuple):
    directory: Path
    orders: Path | None
    workload: str
    load: float
    policy: str
    seed: int


def parse_names(text: str, known: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the names of a list, ``all`` for all that are known. Raises CommandError."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if names == ("all",):
        return tuple(known)
    if not names:
        raise CommandError(f"{option}: {text!r}: must be names, joined by commas: {', '.join(known)}")
    for name in names:
        if name not in known:
            raise CommandError(f"{option}: {name!r}: must be one of {', '.join(known)}, or all")
    return names


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of ``42..51``, ``42`` or ``42,44,50..51``. Raises CommandError."""
    found: dict[int, None] = {}
    for part in text.split(","):
        begin, _, end = part.strip().partition("..")
        first, last = parse_number(begin), parse_number(end or begin)
        if first is None or last is None or first > last:
            raise CommandError(f"--seeds: {part!r}: must be a whole number or a range such as 42..51")
        if last - first + len(found) >= MOST_SEEDS:
            raise CommandError(f"--seeds: {text!r}: must be at most {MOST_SEEDS} seeds")
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


def known_workloads(directory: Path) -> list[str]:
    """Return the workloads of a directory. Raises CommandError if there is none."""
    if not directory.is_dir():
        raise CommandError(f"{directory}: no such directory")
    found = workloads(directory)
    if not found:
        raise CommandError(f"{directory}: no file openb_pod_list_WORKLOAD.csv or openb_pod_list_WORKLOAD.csv.gz")
    return found


class _Named(Protocol):
    @property
    def workload(self) -> str: ...
    @property
    def policy(self) -> str: ...
    @property
    def seed(self) -> int: ...


R = TypeVar("R", bound=_Named)


def simulate(options: Options) -> list[Result]:
    """Run all combinations, and return the results in the order of the options. Raises CommandError."""
    return _simulate(options, _run)


def simulate_churn(options: Options) -> list[ChurnResult]:
    """Run all combinations with departures; as :func:`simulate`."""
    if options.orders is not None:
        raise CommandError("--orders: not possible with --churn: pods arrive by their recorded times")
    return _simulate(options, _run_churn)


def _simulate(options: Options, run_one: Callable[[_Task], R]) -> list[R]:
    if not 0.01 <= options.load <= MOST_LOAD:
        raise CommandError(f"--load: {options.load}: must be 0.01 to {MOST_LOAD:g}")
    tasks = [
        _Task(options.directory, options.orders, workload, options.load, policy, seed)
        for workload in options.workloads
        for policy in options.policies
        for seed in options.seeds
    ]
    jobs = min(options.jobs or os.cpu_count() or 1, len(tasks))
    results = dict(_shown(_all(tasks, jobs, run_one), len(tasks)))
    return [results[at] for at in range(len(tasks))]


def _all(tasks: Sequence[_Task], jobs: int, run_one: Callable[[_Task], R]) -> Iterator[tuple[int, R]]:
    """Yield the number and the result of each run when it ends."""
    if jobs == 1:
        yield from ((number, run_one(task)) for number, task in enumerate(tasks))
        return
    # A new interpreter for each worker: the command may have threads.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        numbers = {pool.submit(run_one, task): number for number, task in enumerate(tasks)}
        try:
            for done in as_completed(numbers):
                yield numbers[done], done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _shown(results: Iterable[tuple[int, R]], total: int) -> Iterator[tuple[int, R]]:
    """Show a progress bar while results are computed, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield from results
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("runs", total=total)
        for number, result in results:
            progress.update(task, advance=1, description=f"{result.workload} {result.policy} {result.seed}")
            yield number, result


@cache
def _trace(directory: Path, workload: str) -> Trace:
    return read_trace(directory, workload)


def _run(task: _Task) -> Result:
    trace = _trace(task.directory, task.workload)
    if task.orders is None:
        arrivals = draw(trace, task.load, task.seed)
    else:
        arrivals = read_order(task.orders, trace, task.load, task.seed)
    return run(trace, arrivals, task.load, task.policy, task.seed)


@cache
def _timed(directory: Path, workload: str) -> Trace:
    """Return a trace whose pods have times. Raises CommandError."""
    trace = _trace(directory, workload)
    if all(pod.deleted for pod in trace.pods):
        return trace
    recorded = _trace(directory, _RECORDED) if _RECORDED in known_workloads(directory) else trace
    try:
        return with_times(trace, recorded)
    except ValueError:
        raise CommandError(
            f"workload {workload}: pods have no creation_time and deletion_time: must be there for --churn, or in "
            f"workload {_RECORDED}"
        ) from None


@lru_cache(1)
def _plan(directory: Path, workload: str, load: float, seed: int) -> Plan:
    return plan(_timed(directory, workload), load, seed)


def _run_churn(task: _Task) -> ChurnResult:
    planned = _plan(task.directory, task.workload, task.load, task.seed)
    return run_churn(_timed(task.directory, task.workload), planned, task.policy, task.seed)


def policies(text: str) -> tuple[str, ...]:
    """Return the policies of a list. Raises CommandError."""
    return parse_names(text, tuple(POLICIES), "--policy")
