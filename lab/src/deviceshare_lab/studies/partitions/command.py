"""``deviceshare lab study partitions``: its options, and all runs."""

import math
from typing import NamedTuple

from deviceshare_cli.errors import CommandError
from deviceshare_cli.simulate.options import parse_names, parse_seeds

from deviceshare_lab.studies.parallel import run_all
from deviceshare_lab.studies.partitions.arrivals import DISTRIBUTIONS
from deviceshare_lab.studies.partitions.clusters import CLUSTERS
from deviceshare_lab.studies.partitions.run import MOVING, POLICIES, Result, Task, run

MAX_LOADS = 20
MIN_LOAD, MAX_LOAD = 0.1, 5.0


class Options(NamedTuple):
    """What is simulated."""

    clusters: tuple[str, ...]
    distributions: tuple[str, ...]
    loads: tuple[float, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    jobs: int | None = None


def options(
    cluster: str, profiles: str, load: str, policy: str, seeds: str, *, defragment: bool, jobs: int | None
) -> Options:
    """Return the options as the command line gives them. Raises CommandError."""
    policies = parse_names(policy, tuple(POLICIES), "--policy")
    if defragment:
        policies = (*policies, MOVING)
    return Options(
        parse_names(cluster, tuple(CLUSTERS), "--cluster"),
        parse_names(profiles, DISTRIBUTIONS, "--profiles"),
        _loads(load),
        policies,
        parse_seeds(seeds),
        jobs,
    )


def _loads(text: str) -> tuple[float, ...]:
    """Return the loads of a list such as ``1.0,1.25``. Raises CommandError."""
    found: list[float] = []
    for part in text.split(","):
        try:
            load = float(part)
        except ValueError:
            load = math.nan
        if not MIN_LOAD <= load <= MAX_LOAD:
            raise CommandError(f"--load: {part.strip()!r}: must be numbers from {MIN_LOAD:g} to {MAX_LOAD:g}")
        found.append(load)
    if len(found) > MAX_LOADS:
        raise CommandError(f"--load: {text!r}: must be at most {MAX_LOADS} loads")
    return tuple(dict.fromkeys(found))


def simulate(chosen: Options) -> list[Result]:
    """Run all combinations, and return the results in the order of the options."""
    tasks = [
        Task(cluster, distribution, load, policy, seed)
        for cluster in chosen.clusters
        for distribution in chosen.distributions
        for load in chosen.loads
        for policy in chosen.policies
        for seed in chosen.seeds
    ]
    return run_all(run, tasks, chosen.jobs)
