"""The results of ``deviceshare lab study trace`` as JSON, tables and curves."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

from deviceshare_cli.output import table
from deviceshare_cli.plots import Curve, Plot

from deviceshare_lab.studies.trace.run import Result


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return the results as the value of ``--json``."""
    return {
        "runs": [
            {
                "workload": each.workload,
                "policy": each.policy,
                "seed": each.seed,
                "alloc_pct": {str(percent): value for percent, value in each.allocated.items()},
                "failed": each.failed,
                "pods_per_second": round(each.pods_per_second),
            }
            for each in results
        ]
    }


def as_text(results: Sequence[Result]) -> str:
    """Return two tables: allocated cards by workload and policy, and the placed pods by number of cards."""
    percents = list(results[0].allocated)
    head = ["WORKLOAD", "POLICY", *(f"AT {percent}%" for percent in percents), "± SEEDS", "FAILED", "PODS/S"]
    rows = []
    placed = []
    kinds = sorted({kind for each in results for kind in each.arrived})
    for workload, policy, runs in _groups(results):
        means = [f"{fmean(each.allocated[percent] for each in runs):.2f}" for percent in percents]
        rows.append(
            (
                workload,
                policy,
                *means,
                f"{pstdev(each.allocated[percents[-1]] for each in runs):.2f}",
                f"{fmean(each.failed for each in runs):.0f}",
                f"{fmean(each.pods_per_second for each in runs):,.0f}",
            )
        )
        placed.append((workload, policy, *(_share(runs, kind) for kind in kinds)))
    names = [_KINDS.get(kind, f"{kind:g} CARDS") for kind in kinds]
    text = "Allocated cards, percent of all cards, by percent requested so far; mean over the seeds:"
    more = "Placed pods, percent of the arrived ones, by number of cards:"
    return f"{text}\n{table(head, rows)}\n\n{more}\n{table(['WORKLOAD', 'POLICY', *names], placed)}"


_KINDS = {0.0: "NO CARD", 0.5: "SHARE", 1.0: "1 CARD"}


def plots(results: Sequence[Result]) -> Iterator[tuple[str, Plot]]:
    """Yield a plot for each workload by name: allocated by requested percentage, a curve for each policy."""
    for workload in dict.fromkeys(each.workload for each in results):
        curves = []
        for name, policy, runs in _groups(results):
            if name == workload:
                values: defaultdict[int, list[float]] = defaultdict(list)
                for percent, value in (point for each in runs for point in each.curve):
                    values[percent].append(value)
                curves.append(Curve(policy, [(percent, fmean(values[percent])) for percent in sorted(values)]))
        title = f"Workload {workload}, mean of {len({each.seed for each in results})} seeds"
        yield f"trace-{workload}", Plot(title, "requested, percent of all cards", "allocated, percent", curves)


def _groups(results: Sequence[Result]) -> Iterator[tuple[str, str, list[Result]]]:
    for workload, policy in dict.fromkeys((each.workload, each.policy) for each in results):
        yield workload, policy, [each for each in results if (each.workload, each.policy) == (workload, policy)]


def _share(runs: Sequence[Result], kind: float) -> str:
    arrived = sum(each.arrived[kind] for each in runs)
    return f"{100 * sum(each.placed[kind] for each in runs) / arrived:.1f}" if arrived else "-"
