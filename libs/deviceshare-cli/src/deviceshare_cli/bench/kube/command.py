"""``deviceshare bench kube``."""

import os
from typing import Any

from deviceshare_cluster.interface import ClusterError

from deviceshare_cli.bench.kube.measure import Pair, Run, Size, measure
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.output import indented_json, table
from deviceshare_cli.supervisor import ProgramFailed


async def bench_kube(size: Size, timeout: float, *, as_json: bool) -> int:
    """Measure, print, and return the exit status."""
    try:
        run = await measure(size, timeout, Notices())
    except (ProgramFailed, ClusterError) as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(f"not done after {timeout:g} s") from None
    shown = report(run, size)
    print(indented_json(shown) if as_json else as_text(shown))
    return 0


def report(run: Run, size: Size) -> dict[str, Any]:
    """Return the measurements by name."""
    return {
        "nodes": size.nodes,
        "pods": size.pods,
        "bare_requests_in_flight": size.in_flight,
        **_pair(run.beside_plugins, size.pods),
        "without_plugins": _pair(run.alone, size.pods),
        "cpus": os.cpu_count(),
        "load_average": {"before": run.load_before, "after": run.load_after},
    }


def _pair(pair: Pair, pods: int) -> dict[str, Any]:
    rate, bare = pods / pair.system.seconds, pods / pair.bare_seconds
    return {
        "bindings_per_second": round(rate, 1),
        "bare_bindings_per_second": round(bare, 1),
        "ratio": round(rate / bare, 3),
        "seconds": round(pair.system.seconds, 3),
        "seconds_with_start": round(pair.system.seconds_with_start, 3),
        "bare_seconds": round(pair.bare_seconds, 3),
        "cpu_milliseconds_per_pod": {
            name: round(1000 * used / pods, 2) for name, used in pair.system.cpu_seconds.items()
        },
        "reports_waiting": pair.system.reports_waiting,
    }


def as_text(shown: dict[str, Any]) -> str:
    """Return the measurements as a table."""
    load, alone = shown["load_average"], shown["without_plugins"]
    rows = [
        ("pods", f"{shown['pods']} on {shown['nodes']} nodes"),
        ("bindings/s beside device plugins", _rates(shown)),
        ("bindings/s without device plugins", _rates(alone)),
        ("CPU ms per pod beside device plugins", _used(shown)),
        ("CPU ms per pod without device plugins", _used(alone)),
        ("load", f"{load['before']:.2f} before, {load['after']:.2f} after"),
    ]
    return table(("MEASURE", "VALUE"), rows)


def _rates(pair: dict[str, Any]) -> str:
    return f"{pair['bindings_per_second']}, a bare client {pair['bare_bindings_per_second']}, ratio {pair['ratio']}"


def _used(pair: dict[str, Any]) -> str:
    return ", ".join(f"{name} {used}" for name, used in pair["cpu_milliseconds_per_pod"].items())
