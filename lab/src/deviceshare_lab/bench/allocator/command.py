"""``deviceshare lab bench allocator``."""

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deviceshare.allocation import Placement, Ties, parse_ties
from deviceshare.families import BY_NAME
from deviceshare.model import Claim, InputError
from deviceshare_cli.errors import CommandError
from deviceshare_cli.output import indented_json, table

from deviceshare_lab.bench.allocator.files import read_workload
from deviceshare_lab.bench.allocator.floor import floor
from deviceshare_lab.bench.allocator.forms import Form
from deviceshare_lab.bench.allocator.generated import POOLS, Size, generate
from deviceshare_lab.bench.allocator.measure import Run, measure
from deviceshare_lab.bench.allocator.workload import Workload

_NAMES = {"vnpu-hami": "hami-vnpu"}
"""The names of families that the command calls as Volcano does."""


def bench_allocator(
    size: Size, ties: Ties, workload_file: Path | None, placements_file: Path | None, *, as_json: bool
) -> None:
    """Measure and print; write the placements to ``placements_file`` if given."""
    forms: dict[str, Form] = {_NAMES.get(name, name): pool.form for name, pool in POOLS.items()}
    if workload_file is not None:
        workload, form = read_workload(workload_file)
        forms = dict.fromkeys(BY_NAME, form)
        devices = 0
    else:
        workload = generate(size)
        devices = size.devices
    load = os.getloadavg()[0]
    gang = 0 if workload_file is not None else size.gang
    run = measure(workload, ties, gang=gang, keep=placements_file is not None)
    floor_seconds = floor(run.nodes, devices or 8, len(workload.pods))
    if placements_file is not None:
        _write(placements_file, run, forms)
    shown = report(workload, run, floor_seconds, load, gang)
    print(indented_json(shown) if as_json else as_text(shown))


def ties_of(text: str) -> Ties:
    """Parse the option ``--ties``. Raises CommandError."""
    try:
        return parse_ties(text)
    except InputError as error:
        raise CommandError(str(error)) from None


def report(workload: Workload, run: Run, floor_seconds: float, load: float, gang: int) -> dict[str, Any]:
    """Return the measurements by name."""
    pods = len(workload.pods)
    rate = pods / run.seconds if run.seconds else 0.0
    floor_rate = pods / floor_seconds if floor_seconds else 0.0
    return {
        "workload": workload.name,
        "nodes": run.nodes,
        "pods": pods,
        "gang": gang,
        "pod_classes": len(workload.requests),
        "policy": workload.conf.policy,
        "placed": pods - sum(placement is None for _, placement in run.placements),
        "seconds": round(run.seconds, 4),
        "pods_per_second": round(rate, 1),
        "microseconds_p50": _quantile(run.microseconds, 0.5),
        "microseconds_p99": _quantile(run.microseconds, 0.99),
        "setup_seconds": round(run.setup_seconds, 3),
        "peak_memory_mb": round(run.peak_bytes / 1e6, 1),
        "start_memory_mb": round(run.start_bytes / 1e6, 1),
        "load_average": load,
        "floor_pods_per_second": round(floor_rate, 1),
        "ratio": round(rate / floor_rate, 4) if floor_rate else None,
    }


def as_text(shown: dict[str, Any]) -> str:
    """Return the measurements as a table."""
    rows = [
        ("placed", f"{shown['placed']} of {shown['pods']} pods on {shown['nodes']} nodes"),
        ("pod classes", str(shown["pod_classes"])),
        ("pods/s", f"{shown['pods_per_second']} ({shown['seconds']} s after {shown['setup_seconds']} s of set-up)"),
        (
            f"a gang of {shown['gang']}" if shown["gang"] else "a pod",
            f"p50 {shown['microseconds_p50']} µs, p99 {shown['microseconds_p99']} µs",
        ),
        ("memory", f"{shown['peak_memory_mb']} MB at most, {shown['start_memory_mb']} MB before"),
        ("load", f"{shown['load_average']:.2f} before"),
        ("floor", f"{shown['floor_pods_per_second']} pods/s, ratio {shown['ratio']}"),
    ]
    return table(("MEASURE", "VALUE"), rows)


def _quantile(values: list[float], share: float) -> float | None:
    return round(values[min(len(values) - 1, int(share * len(values)))], 1) if values else None


def _write(path: Path, run: Run, forms: dict[str, Form]) -> None:
    try:
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(_rows(run, forms))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None


def _rows(run: Run, forms: dict[str, Form]) -> Iterator[tuple[str, str, str]]:
    """Yield pod, node and device annotation of each pod; node and annotation are empty for a pending pod."""
    for name, placement in run.placements:
        if placement is None:
            yield name, "", ""
        else:
            yield name, placement.node, _annotation(name, placement, forms)


def _annotation(name: str, placement: Placement, forms: dict[str, Form]) -> str:
    if not placement.grants:
        return ""
    family = BY_NAME[placement.grants[0].family]
    claim = Claim(id=name, uid=name, namespace="bench", name=name, grants=placement.grants)
    return forms[family.name].value(family.annotations(claim, placement.node, ["main"], 0.0))
