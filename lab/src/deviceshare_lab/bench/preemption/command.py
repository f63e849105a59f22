"""``deviceshare lab bench preemption``."""

import os
from typing import Any

from deviceshare_cli.output import indented_json, table

from deviceshare_lab.bench.preemption.measure import Run, measure


def bench_preemption(nodes: int, cards: int, decisions: int, family: str, *, as_json: bool) -> None:
    """Measure and print."""
    load = os.getloadavg()[0]
    shown = report(measure(nodes, cards, decisions, family), nodes, cards, family, load)
    print(indented_json(shown) if as_json else as_text(shown))


def report(run: Run, nodes: int, cards: int, family: str, load: float) -> dict[str, Any]:
    """Return the measurements by name."""
    return {
        "nodes": nodes,
        "devices_per_node": cards,
        "family": family,
        "pods": run.pods,
        "setup_seconds": round(run.setup_seconds, 2),
        "load_average": load,
        "groups": {
            each.name: {
                "victims": each.victims,
                "sum_of_priorities": each.priorities,
                "milliseconds_first": round(each.first, 3),
                "milliseconds_p50": round(each.milliseconds[len(each.milliseconds) // 2], 3),
                "milliseconds_max": round(each.milliseconds[-1], 3),
            }
            for each in run.decisions
        },
    }


def as_text(shown: dict[str, Any]) -> str:
    """Return the measurements as a table."""
    rows = [[name, *map(str, one.values())] for name, one in shown["groups"].items()]
    return table(("GROUP", "VICTIMS", "PRIORITIES", "FIRST MS", "P50 MS", "MAX MS"), rows)
