"""The results of ``deviceshare lab study partitions`` as JSON, tables and curves."""

from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

from deviceshare_cli.output import table
from deviceshare_cli.plots import Curve, Plot

from deviceshare_lab.studies.partitions.clusters import CLUSTERS
from deviceshare_lab.studies.partitions.run import Result

COMPARED = "bestfit"
"""The policy with which the others are compared."""


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return the results as the value of ``--json``."""
    return {
        "runs": [
            {
                "cluster": each.task.cluster,
                "profiles": each.task.distribution,
                "load": each.task.load,
                "policy": each.task.policy,
                "seed": each.task.seed,
                "arrived": each.arrived.total(),
                "placed": each.placed.total(),
                "acceptance_pct": round(100 * each.acceptance, 2),
                "memory_pct": round(100 * each.used, 2),
                "moved": each.moved,
                "by_profile": {
                    profile.name: {"arrived": each.arrived[number], "placed": each.placed[number]}
                    for number, profile in enumerate(CLUSTERS[each.task.cluster].profiles)
                },
            }
            for each in results
        ]
    }


def as_text(results: Sequence[Result]) -> str:
    """Return the acceptance by cluster, profiles, load and policy, then one table by profile for each cluster."""
    head = ["CLUSTER", "PROFILES", "LOAD", "POLICY", "PLACED", "± SEEDS", "TO BESTFIT", "MEMORY", "MOVED"]
    rows = []
    means = {key: fmean(each.acceptance for each in runs) for key, runs in _groups(results)}
    for (cluster, profiles, load, policy), runs in _groups(results):
        mean = means[cluster, profiles, load, policy]
        base = means.get((cluster, profiles, load, COMPARED))
        moved = sum(each.moved for each in runs)
        rows.append(
            (
                cluster,
                profiles,
                f"{load:g}",
                policy,
                f"{100 * mean:.2f}",
                f"{100 * pstdev(each.acceptance for each in runs):.2f}",
                f"{100 * (mean / base - 1):+.1f} %" if base else "-",
                f"{100 * fmean(each.used for each in runs):.2f}",
                str(moved) if moved else "-",
            )
        )
    text = "Placed pods, percent of the arrived ones, and the part of the requested memory and time that they have:"
    return "\n\n".join([f"{text}\n{table(head, rows)}", *_by_profile(results)])


def _by_profile(results: Sequence[Result]) -> Iterator[str]:
    for cluster in dict.fromkeys(each.task.cluster for each in results):
        profiles = CLUSTERS[cluster].profiles
        rows = [
            (key[1], f"{key[2]:g}", key[3], *(_share(runs, number) for number in range(len(profiles))))
            for key, runs in _groups(results)
            if key[0] == cluster
        ]
        head = ["PROFILES", "LOAD", "POLICY", *(each.name for each in profiles)]
        yield f"Cluster {cluster}: placed pods, percent, by profile:\n{table(head, rows)}"


def plots(results: Sequence[Result]) -> Iterator[tuple[str, Plot]]:
    """Yield a plot for each cluster and distribution by name: placed pods by load, a curve for each policy."""
    groups = list(_groups(results))
    for cluster, profiles in dict.fromkeys((key[0], key[1]) for key, _ in groups):
        points: dict[str, list[tuple[float, float]]] = {}
        for key, runs in groups:
            if key[:2] == (cluster, profiles):
                points.setdefault(key[3], []).append((key[2], 100 * fmean(each.acceptance for each in runs)))
        curves = [Curve(policy, sorted(of)) for policy, of in points.items()]
        title = f"Cluster {cluster}, profiles {profiles}"
        yield (
            f"partitions-{cluster}-{profiles}",
            Plot(title, "requested memory / memory of all cards", "placed pods, percent", curves, marked=True),
        )


def _groups(results: Sequence[Result]) -> Iterator[tuple[tuple[str, str, float, str], list[Result]]]:
    """Yield cluster, distribution, load and policy, with the results of all seeds."""
    found: dict[tuple[str, str, float, str], list[Result]] = {}
    for each in results:
        cluster, distribution, load, policy, _ = each.task
        found.setdefault((cluster, distribution, load, policy), []).append(each)
    yield from found.items()


def _share(runs: Sequence[Result], profile: int) -> str:
    arrived = sum(each.arrived[profile] for each in runs)
    return f"{100 * sum(each.placed[profile] for each in runs) / arrived:.1f}" if arrived else "-"
