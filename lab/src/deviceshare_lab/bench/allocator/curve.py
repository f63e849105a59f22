"""``deviceshare lab bench curve``: time per pod as a function of the number of nodes and of different requests.

Each point is a separate process of ``deviceshare lab bench allocator``, with its own memory. The speed of a machine
varies: the sizes of a family are measured in turn, several times, and the median run of each point counts.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.output import indented_json, table
from deviceshare_cli.plots import Curve, Plot, write

FAMILIES = ("hami-core", "gpu-share", "mig", "vnpu-hami", "mixed")
_COLUMNS = ("FAMILY", "NODES", "POD CLASSES", "PODS/S", "MICROSECONDS", "P99", "MEMORY", "OF FLOOR", "LOAD")


def numbers(option: str, text: str) -> list[int]:
    """Parse an option of comma-separated numbers. Raises CommandError if it is invalid."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise CommandError(f"{option}: '{text}' is not valid: expected whole numbers above 0, separated by commas")
    return sorted({int(word) for word in words})


def bench_curve(
    nodes: Sequence[int], pod_classes: Sequence[int], pods: int, runs: int, plots: Path | None, *, as_json: bool
) -> None:
    """Measure every family at every size and print; write a plot per number of pod classes to ``plots``."""
    points = list(_points(nodes, pod_classes, pods, runs))
    if plots is not None:
        for count in pod_classes:
            write(_plot(points, count), plots / f"allocator-{count}-classes.svg")
    print(indented_json(points) if as_json else _as_text(points))


def _points(nodes: Sequence[int], pod_classes: Sequence[int], pods: int, runs: int) -> Iterator[dict[str, Any]]:
    for family in FAMILIES:
        measured: dict[tuple[int, int], list[dict[str, Any]]] = {
            (count, number): [] for count in pod_classes for number in nodes
        }
        for run in range(1, runs + 1):
            # Numbers of pod classes, which are compared most, are measured one after the other.
            for count, number in sorted(measured, key=lambda size: size[1]):
                to_stderr(f"{family}: {number} nodes, {count} pod classes, run {run} of {runs}")
                measured[count, number].append({"family": family, **_run(family, number, count, pods)})
        for found in measured.values():
            yield sorted(found, key=_microseconds)[runs // 2]


def _run(family: str, nodes: int, pod_classes: int, pods: int) -> dict[str, Any]:
    options = {"--family": family, "--nodes": nodes, "--pod-classes": pod_classes, "--pods": pods}
    given = [str(word) for option in options.items() for word in option]
    command = [sys.executable, "-m", "deviceshare_cli", "lab", "bench", "allocator", "--json", *given]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise CommandError(f"{' '.join(command)} ended with status {ended.returncode}", ended.stderr.strip())
    found: dict[str, Any] = msgspec.json.decode(ended.stdout)
    return found


def _plot(points: Sequence[dict[str, Any]], pod_classes: int) -> Plot:
    of_classes = [point for point in points if point["pod_classes"] == pod_classes]
    curves = [
        Curve(family, [(point["nodes"], _microseconds(point)) for point in run])
        for family, run in groupby(of_classes, key=lambda point: str(point["family"]))
    ]
    return Plot(
        f"The decision for one pod, {pod_classes} different requests", "nodes of 8 cards", "µs", curves, marked=True
    )


def _microseconds(point: dict[str, Any]) -> float:
    return 1e6 / float(point["pods_per_second"])


def _as_text(points: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            point["family"],
            str(point["nodes"]),
            str(point["pod_classes"]),
            f"{point['pods_per_second']:.0f}",
            f"{_microseconds(point):.1f}",
            f"{point['microseconds_p99']:.0f}",
            f"{point['peak_memory_mb']:.0f} MB",
            f"{point['ratio']:.2f}",
            f"{point['load_average']:.1f}",
        )
        for point in points
    ]
    return table(_COLUMNS, rows)
