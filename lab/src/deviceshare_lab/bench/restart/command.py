"""``deviceshare lab bench restart``."""

import os
import time
from typing import Any

from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.output import indented_json, table
from deviceshare_cluster.interface import ClusterError
from msgspec.structs import asdict

from deviceshare_lab.bench.restart.contents import Contents
from deviceshare_lab.bench.restart.measure import Run, measure


async def bench_restart(nodes: int, cards: int, pods: int, timeout: float, *, as_json: bool) -> int:
    """Measure, print, and return the exit status 0."""
    contents = Contents(nodes, cards, pods, time.time())
    try:
        run = await measure(contents, timeout, Notices())
    except ClusterError as error:
        raise CommandError(str(error)) from None
    shown = report(run, contents)
    print(indented_json(shown) if as_json else as_text(shown))
    return 0


def report(run: Run, contents: Contents) -> dict[str, Any]:
    """Return the measurements by name."""
    return {
        "nodes": contents.nodes,
        "devices_per_node": contents.cards,
        "pods": contents.pods,
        "cpus": os.cpu_count(),
        "load_average": {"before": run.load_before, "after": run.load_after},
        "filled_in_seconds": round(run.filled_in, 1),
        "services": {
            name: {
                field: round(value, 2)
                for field, value in zip(
                    ("seconds", "cpu_seconds", "memory_mib", "peak_memory_mib"), asdict(one).values(), strict=True
                )
            }
            for name, one in run.restarts.items()
        },
    }


def as_text(shown: dict[str, Any]) -> str:
    """Return the measurements as a table."""
    rows = [[name, *map(str, one.values())] for name, one in shown["services"].items()]
    return table(("SERVICE", "SECONDS", "CPU SECONDS", "MEMORY MIB", "PEAK MIB"), rows)
