"""``deviceshare lab study trace``: its options, and all runs."""

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from deviceshare_cli.errors import CommandError
from deviceshare_cli.simulate.options import parse_names

from deviceshare_lab.studies.parallel import run_all
from deviceshare_lab.studies.trace.arrivals import draw, read_order
from deviceshare_lab.studies.trace.churn import ArrivalPlan, ChurnResult, plan_arrivals, run_churn
from deviceshare_lab.studies.trace.policies import POLICIES
from deviceshare_lab.studies.trace.reading import read_trace, workloads
from deviceshare_lab.studies.trace.run import Result, run
from deviceshare_lab.studies.trace.start_times import StartTimesResult, run_start_times
from deviceshare_lab.traces import Trace, with_times

MAX_LOAD = 10.0
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


def known_workloads(directory: Path) -> list[str]:
    """Return the workloads of a directory. Raises CommandError if there is none."""
    if not directory.is_dir():
        raise CommandError(f"{directory}: no such directory")
    found = workloads(directory)
    if not found:
        raise CommandError(f"{directory}: no file openb_pod_list_WORKLOAD.csv or openb_pod_list_WORKLOAD.csv.gz")
    return found


R = TypeVar("R")


def simulate(options: Options) -> list[Result]:
    """Run all combinations, and return the results in the order of the options. Raises CommandError."""
    return _simulate(options, _run)


def simulate_churn(options: Options) -> list[ChurnResult]:
    """Run all combinations with departures; as :func:`simulate`."""
    if options.orders is not None:
        raise CommandError("--orders: not possible with --churn: pods arrive by their recorded times")
    return _simulate(options, _run_churn)


def simulate_start_times(options: Options) -> list[StartTimesResult]:
    """Run all combinations with departures, and ask when waiting pods start; as :func:`simulate`."""
    return _simulate(options, _run_start_times)


def _simulate(options: Options, run_one: Callable[[_Task], R]) -> list[R]:
    if not 0.01 <= options.load <= MAX_LOAD:
        raise CommandError(f"--load: {options.load}: must be 0.01 to {MAX_LOAD:g}")
    tasks = [
        _Task(options.directory, options.orders, workload, options.load, policy, seed)
        for workload in options.workloads
        for policy in options.policies
        for seed in options.seeds
    ]
    return run_all(run_one, tasks, options.jobs, lambda task: f"{task.workload} {task.policy} {task.seed}")


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
def _plan(directory: Path, workload: str, load: float, seed: int) -> ArrivalPlan:
    return plan_arrivals(_timed(directory, workload), load, seed)


def _run_churn(task: _Task) -> ChurnResult:
    planned = _plan(task.directory, task.workload, task.load, task.seed)
    return run_churn(_timed(task.directory, task.workload), planned, task.policy, task.seed)


def _run_start_times(task: _Task) -> StartTimesResult:
    planned = _plan(task.directory, task.workload, task.load, task.seed)
    return run_start_times(_timed(task.directory, task.workload), planned, task.policy, task.seed)


def policies(text: str) -> tuple[str, ...]:
    """Return the policies of a list. Raises CommandError."""
    return parse_names(text, tuple(POLICIES), "--policy")
