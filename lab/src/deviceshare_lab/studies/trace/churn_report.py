"""The results of ``deviceshare lab study trace --churn`` as JSON, tables and curves."""

from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

from deviceshare_cli.output import table
from deviceshare_cli.plots import Curve, Plot

from deviceshare_lab.studies.trace.churn import ChurnResult
from deviceshare_lab.studies.trace.meter import Wait, Waits

_KINDS = {0.0: "NO CARD", 0.5: "SHARE", 1.0: "1 CARD"}


def as_json(results: Sequence[ChurnResult]) -> dict[str, Any]:
    """Return the results as the value of ``--json``."""
    return {"runs": [_run(each) for each in results]}


def _run(result: ChurnResult) -> dict[str, Any]:
    fairness = result.waits.fairness()
    return {
        "workload": result.workload,
        "policy": result.policy,
        "seed": result.seed,
        "allocated_pct": round(result.capacity.allocated, 3),
        "unusable_pct": round(result.capacity.unusable, 3),
        "free_while_waiting_pct": round(result.capacity.free_while_waiting, 3),
        "wait_seconds": {
            "all": _wait(result.waits.all()),
            **{f"{kind:g}": _wait(wait) for kind, wait in result.waits.by_kind().items()},
        },
        "fairness": {"worst_to_mean": round(fairness.worst, 3), "jain": round(fairness.jain, 4)},
        "arrived": result.arrived,
        "waiting": result.waiting,
        "impossible": result.impossible,
        "pods_per_second": round(result.pods_per_second),
    }


def _wait(wait: Wait) -> dict[str, float]:
    return {"pods": wait.pods, "mean": round(wait.mean, 1), "p50": wait.p50, "p99": wait.p99}


def as_text(results: Sequence[ChurnResult]) -> str:
    """Return two tables: capacity and fairness, and waiting times by number of cards."""
    head = ("WORKLOAD", "POLICY", "UNUSABLE", "± SEEDS", "FREE", "ALLOCATED", "WORST/MEAN", "JAIN", "WAITING", "PODS/S")
    rows, waits = [], []
    for workload, policy, runs in _groups(results):
        rows.append(
            (
                workload,
                policy,
                f"{fmean(each.capacity.unusable for each in runs):.2f}",
                f"{pstdev(each.capacity.unusable for each in runs):.2f}",
                f"{fmean(each.capacity.free_while_waiting for each in runs):.2f}",
                f"{fmean(each.capacity.allocated for each in runs):.2f}",
                f"{fmean(each.waits.fairness().worst for each in runs):.1f}",
                f"{fmean(each.waits.fairness().jain for each in runs):.2f}",
                f"{fmean(each.waiting for each in runs):.0f}",
                f"{fmean(each.pods_per_second for each in runs):,.0f}",
            )
        )
        merged = Waits()
        for each in runs:
            merged.extend(each.waits)
        for kind, wait in merged.by_kind().items():
            name = _KINDS.get(kind, f"{kind:g} CARDS")
            seconds = (f"{value:,.0f}" for value in (wait.mean, wait.p50, wait.p99))
            waits.append((workload, policy, name, f"{wait.pods:,}", *seconds))
    text = (
        "Time averages, percent of all cards: capacity that waiting pods request and cannot use, what is free while "
        "pods wait, and what is allocated; mean over the seeds:"
    )
    more = "Waiting time in seconds, by number of cards, over all seeds:"
    columns = ("WORKLOAD", "POLICY", "PODS WITH", "PODS", "MEAN", "P50", "P99")
    return f"{text}\n{table(head, rows)}\n\n{more}\n{table(columns, waits)}"


def plots(results: Sequence[ChurnResult]) -> Iterator[tuple[str, Plot]]:
    """Yield a plot for each workload by name: unusable capacity over time, a curve for each policy."""
    for workload in dict.fromkeys(each.workload for each in results):
        curves = []
        for name, policy, runs in _groups(results):
            if name == workload:
                points = zip(*(each.curve for each in runs), strict=True)
                means = [
                    (fmean(hour for hour, _ in at), fmean(capacity.unusable for _, capacity in at)) for at in points
                ]
                curves.append(Curve(policy, means))
        title = f"Workload {workload} with departures, mean of {len({each.seed for each in results})} seeds"
        yield f"churn-{workload}", Plot(title, "hours", "unusable, percent of all cards", curves)


def _groups(results: Sequence[ChurnResult]) -> Iterator[tuple[str, str, list[ChurnResult]]]:
    for workload, policy in dict.fromkeys((each.workload, each.policy) for each in results):
        yield workload, policy, [each for each in results if (each.workload, each.policy) == (workload, policy)]
