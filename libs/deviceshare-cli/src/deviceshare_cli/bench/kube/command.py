"""``deviceshare bench kube``."""

import os
from typing import Any

import msgspec
from deviceshare_cluster.interface import ClusterError

from deviceshare_cli.bench.kube.measure import IN_FLIGHT, Run, measure
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.supervisor import CannotLive
from deviceshare_cli.tables import table


async def bench_kube(nodes: int, pods: int, timeout: float, *, as_json: bool) -> int:
    """Measure, print, and return the exit status."""
    try:
        run = await measure(nodes, pods, timeout, Notices())
    except (CannotLive, ClusterError) as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(f"not done after {timeout:g} s") from None
    shown = report(run, nodes, pods)
    print(msgspec.json.format(msgspec.json.encode(shown)).decode() if as_json else as_text(shown))
    return 0


def report(run: Run, nodes: int, pods: int) -> dict[str, Any]:
    """Return the measures by their names."""
    rate, bare, beside = pods / run.seconds, pods / run.bare_seconds, pods / run.bare_beside_plugins_seconds
    return {
        "nodes": nodes,
        "pods": pods,
        "bindings_per_second": round(rate, 1),
        "bare_bindings_per_second": round(bare, 1),
        "ratio": round(rate / bare, 3),
        "bare_beside_plugins_bindings_per_second": round(beside, 1),
        "ratio_beside_plugins": round(rate / beside, 3),
        "seconds": round(run.seconds, 3),
        "seconds_with_start": round(run.decided_in, 3),
        "bare_seconds": round(run.bare_seconds, 3),
        "bare_requests_in_flight": IN_FLIGHT,
        "cpu_seconds": run.cpu_seconds,
        "cpus": os.cpu_count(),
        "load_average": {"before": run.load_before, "after": run.load_after},
    }


def as_text(shown: dict[str, Any]) -> str:
    """Return the measures as a table for people."""
    load = shown["load_average"]
    rows = [
        ("bindings/s", f"{shown['bindings_per_second']} ({shown['pods']} pods on {shown['nodes']} nodes)"),
        ("bare bindings/s", f"{shown['bare_bindings_per_second']}, ratio {shown['ratio']}"),
        (
            "beside device plugins",
            f"{shown['bare_beside_plugins_bindings_per_second']}, ratio {shown['ratio_beside_plugins']}",
        ),
        ("CPU", ", ".join(f"{name} {used} s" for name, used in shown["cpu_seconds"].items())),
        ("load", f"{load['before']:.2f} before, {load['after']:.2f} after"),
    ]
    return table(("MEASURE", "VALUE"), rows)
