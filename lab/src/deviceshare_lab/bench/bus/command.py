"""``deviceshare lab bench bus``."""

import os
import sys
from collections.abc import Iterator
from typing import Any

from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.output import indented_json, table
from deviceshare_cli.replicas import parse_replicas
from deviceshare_cluster.interface import ClusterError

from deviceshare_lab.bench.bus.floor import floor
from deviceshare_lab.bench.bus.measure import Load, Run, measure
from deviceshare_lab.bench.bus.stages import QUANTILES, STAGES, durations, judgement, quantile, since_creation

SIMULATOR = ("nats-server (cluster)", "bench")
"""The processes that are no part of the product: the server of the API objects, and its clients and controllers."""


async def bench_bus(load: Load, timeout: float, replicas: str, *, as_json: bool, with_floor: bool) -> int:
    """Measure, print, and return the exit status: 1 if a pod was not bound, or the system did not keep up."""
    notices = Notices()
    try:
        run = await measure(load, timeout, notices, parse_replicas(replicas))
        # The floor transfers the messages as fast as it can: a rate says nothing of it.
        floor_seconds = await floor(run, load.pods, timeout, notices) if with_floor and not load.rate else None
    except ClusterError as error:
        raise CommandError(str(error)) from None
    shown = report(run, load, floor_seconds)
    print(indented_json(shown) if as_json else as_text(shown))
    if problem := shown["not_kept_up"]:
        print(problem, file=sys.stderr)
    return int(run.pending > 0 or bool(problem))


def report(run: Run, load: Load, floor_seconds: float | None) -> dict[str, Any]:
    """Return the measurements by name."""
    rate = run.bound / run.seconds if run.seconds else 0.0
    floor_rate = run.bound / floor_seconds if floor_seconds else None
    arrivals = run.arrivals
    return {
        "nodes": load.nodes,
        "devices_per_node": load.cards,
        "pods": load.pods,
        "fill": load.fill,
        "queues": load.queues,
        "rate": load.rate or None,
        "not_kept_up": judgement(arrivals, run.moments, rate) if arrivals is not None else "",
        "open_after_last_creation": arrivals.open if arrivals is not None else None,
        "creation_delay_seconds": _rounded(arrivals.late) if arrivals is not None else None,
        "bound": run.bound,
        "pending": run.pending,
        "seconds": _rounded(run.seconds),
        "creation_seconds": _rounded(run.created_in),
        "pods_per_second": _rounded(rate, 1),
        "latency_p50_seconds": _rounded(quantile(run.latencies, 0.5)),
        "latency_p99_seconds": _rounded(quantile(run.latencies, 0.99)),
        "latency_max_seconds": _rounded(quantile(run.latencies, 1.0)),
        "since_creation_seconds": since_creation(run.moments),
        "stage_seconds": durations(run.moments),
        "cpu_seconds": run.cpu_seconds,
        "cpu_milliseconds_per_pod": _per_pod(run.cpu_seconds, run.bound),
        "claims": run.claims,
        "conflicts": run.conflicts,
        "conflicts_per_ledger": _rounded(sum(run.conflicts.values()) / run.attempts, 4) if run.attempts else None,
        "cpus": os.cpu_count(),
        "load_average": {"before": run.load_before, "after": run.load_after},
        "streams": {
            name: {"messages": traffic.messages, "bytes": traffic.bytes} for name, traffic in run.traffic.items()
        },
        "floor_seconds": _rounded(floor_seconds),
        "floor_pods_per_second": _rounded(floor_rate, 1),
        "ratio": _rounded(rate / floor_rate) if floor_rate else None,
    }


def as_text(shown: dict[str, Any]) -> str:
    """Return the measurements as a table."""
    rows = [
        ("bound", f"{shown['bound']} of {shown['pods']} pods on {shown['nodes']} nodes"),
        ("pods/s", f"{shown['pods_per_second']} ({shown['seconds']} s, created in {shown['creation_seconds']} s)"),
        ("latency", f"p50 {shown['latency_p50_seconds']} s, p99 {shown['latency_p99_seconds']} s"),
        *_stages(shown),
        ("CPU", ", ".join(f"{name} {used} s" for name, used in shown["cpu_seconds"].items())),
        ("CPU a pod", ", ".join(f"{name} {used} ms" for name, used in shown["cpu_milliseconds_per_pod"].items())),
        ("claims", ", ".join(f"{name} {count}" for name, count in shown["claims"].items())),
        ("conflicts", str(sum(shown["conflicts"].values()))),
        ("load", f"{shown['load_average']['before']:.2f} before, {shown['load_average']['after']:.2f} after"),
        (
            "streams",
            ", ".join(
                f"{name} {one['messages']} ({one['bytes'] / 1e6:.1f} MB)" for name, one in shown["streams"].items()
            ),
        ),
    ]
    if shown["floor_seconds"] is not None:
        rows.append(
            ("floor", f"{shown['floor_pods_per_second']} pods/s ({shown['floor_seconds']} s), ratio {shown['ratio']}")
        )
    return table(("MEASURE", "VALUE"), rows)


def _stages(shown: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the quantiles of each stage in milliseconds, since the creation and of the stage alone."""
    for stage in STAGES:
        since, alone = (
            "/".join("-" if seconds is None else f"{seconds * 1000:.1f}" for seconds in shown[field][stage].values())
            for field in ("since_creation_seconds", "stage_seconds")
        )
        yield stage, f"{'/'.join(QUANTILES)} {since} ms after the creation, {alone} ms after the stage before"


def _per_pod(cpu_seconds: dict[str, float], bound: int) -> dict[str, float]:
    """Return the CPU time of each process, of the product, of the simulator and of all per bound pod, in milliseconds.

    The product includes its bus, and the binder's part of a binding on a local cluster.
    """
    total, simulator = sum(cpu_seconds.values()), sum(cpu_seconds.get(name, 0.0) for name in SIMULATOR)
    used = {**cpu_seconds, "product": total - simulator, "simulator": simulator, "total": total}
    return {name: round(seconds * 1000 / bound, 4) for name, seconds in used.items()} if bound else {}


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
