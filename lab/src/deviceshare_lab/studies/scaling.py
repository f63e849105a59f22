"""How many replicas, and which bus, a cluster needs: the pipeline simulated for many layouts (:mod:`.pipeline`)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from deviceshare_cli.errors import CommandError
from deviceshare_cli.output import table
from deviceshare_cli.plots import Curve, Plot

from deviceshare_lab.studies.pipeline import Costs, Layout, Result, simulate

NODES = (1000, 5000, 20_000, 100_000)
REPLICAS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PODS_PER_NODE_HOUR = 6.0
"""Pods that end, and are followed by others, on each node in an hour: eight cards, and pods of 80 minutes."""
BURST = 10.0
"""By how much arrivals may exceed their mean before pods wait long."""
CPU_BOUND = 0.7
"""Share of a core above which a process counts as full."""
REPLICATED_ABOVE = 1000
"""Nodes above which the streams have three replicas: the loss of one server stops nothing."""
COSTS = Costs()


class Need(NamedTuple):
    """What a cluster needs: pods per second, the replicas that serve them, and how busy the busiest process is."""

    nodes: int
    pods_per_second: float
    placement: int
    binder: int
    replicated: bool
    reached: float
    bottleneck: str


def calibrated(report: Mapping[str, Any], costs: Costs = COSTS) -> Costs:
    """Return the costs of a run of ``deviceshare lab bench bus --json`` with one replica of each service.

    What placement spends to follow the work of others cannot be measured with one replica: its part is that of
    ``costs``, as are the parts of the binder and of the bus.

    Raises CommandError if the report lacks a process.
    """
    used = {name: seconds * 1e6 / report["bound"] for name, seconds in report["cpu_seconds"].items()}
    try:
        placement, binder, bus = used["placement"], used["binder"], used["nats-server (bus)"]
        inventory, metrics = used["inventory"], used["metrics"]
        cluster = used["nats-server (cluster)"] + used["bench"]
    except KeyError as missing:
        raise CommandError(f"the report has no process {missing}: it must be of one replica of each service") from None
    following = costs.follow / (costs.follow + costs.decide + costs.node)
    binding = costs.bind / (costs.bind + costs.bind_follow)
    return costs._replace(
        inventory=inventory,
        follow=placement * following,
        decide=placement * (1 - following) - costs.node * report["nodes"] / 1000,
        bind=binder * binding,
        bind_follow=binder * (1 - binding),
        metrics=metrics,
        bus=bus,
        bus_copy=bus * costs.bus_copy / costs.bus,
        cluster=cluster,
    )


class Comparison(NamedTuple):
    """A measured run and its simulation: pods per second, and milliseconds of CPU per pod."""

    placement: int
    measured: tuple[float, float]
    simulated: tuple[float, float]

    @property
    def errors(self) -> tuple[float, float]:
        """The relative errors of the simulation."""
        (rate, cpu), (found_rate, found_cpu) = self.measured, self.simulated
        return found_rate / rate - 1, found_cpu / cpu - 1


def compare(reports: Sequence[Mapping[str, Any]], costs: Costs) -> list[Comparison]:
    """Simulate measured runs. Other work on the machine slows all of them: rates are scaled by that of the first."""
    found = []
    scale = 0.0
    for report in reports:
        replicas = sum(name.startswith("placement") for name in report["cpu_seconds"])
        result = simulate(Layout(report["nodes"], replicas, cores=report["cpus"]), costs, report["bound"])
        cpu = sum(report["cpu_seconds"].values()) * 1000 / report["bound"]
        scale = scale or report["pods_per_second"] / result.pods_per_second
        simulated = (result.pods_per_second * scale, result.cpu_ms_per_pod)
        found.append(Comparison(replicas, (report["pods_per_second"], cpu), simulated))
    return found


def read_report(file: Path) -> dict[str, Any]:
    """Read a report of ``deviceshare lab bench bus --json``. Raises CommandError."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise CommandError(f"cannot read {file}: {error}") from None


def rates(costs: Costs, nodes: int, *, replicated: bool, binders: bool) -> list[tuple[int, Result]]:
    """Simulate all numbers of replicas of placement; with ``binders`` as many of the binder."""
    return [
        (count, simulate(Layout(nodes, count, count if binders else 1, replicated), costs, 5000)) for count in REPLICAS
    ]


def needs(costs: Costs) -> Iterator[Need]:
    """Find the smallest layout for each size of a cluster."""
    for nodes in NODES:
        wanted = nodes * PODS_PER_NODE_HOUR / 3600 * BURST
        replicated = nodes > REPLICATED_ABOVE
        layouts = sorted(
            ((placement, binder) for placement in REPLICAS[:6] for binder in REPLICAS[:6]),
            key=lambda pair: (sum(pair), pair),
        )
        best, reached, bottleneck = (1, 1), 0.0, ""
        for placement, binder in layouts:
            result = simulate(Layout(nodes, placement, binder, replicated), costs, 5000)
            rate = result.pods_per_second * CPU_BOUND
            if rate > reached * 1.02:
                best, reached, bottleneck = (placement, binder), rate, result.bottleneck
            if reached >= wanted:
                break
        yield Need(nodes, wanted, *best, replicated, reached, bottleneck)


def plots(costs: Costs) -> Iterator[tuple[str, Plot]]:
    """Yield the plots of :doc:`docs/scaling.md` by name."""
    curves, cpu = [], []
    for nodes in NODES:
        found = rates(costs, nodes, replicated=False, binders=True)
        curves.append(Curve(f"{nodes:,} nodes", [(count, result.pods_per_second) for count, result in found]))
        cpu.append(Curve(f"{nodes:,} nodes", [(count, result.cpu_ms_per_pod) for count, result in found]))
    found = rates(costs, 5000, replicated=True, binders=True)
    curves.append(Curve("5,000 nodes, R3", [(count, result.pods_per_second) for count, result in found], dashed=True))
    replicas = "replicas of placement and of the binder"
    yield "scaling-rate", Plot("Pods per second", replicas, "pods/s", curves)
    yield "scaling-cpu", Plot("CPU of all processes", replicas, "ms per pod", cpu)


def as_text(found: Sequence[Need], compared: Sequence[Comparison]) -> str:
    """Return the results as tables."""
    rows = [
        (
            f"{need.nodes:,}",
            f"{need.pods_per_second:,.0f}",
            str(need.placement),
            str(need.binder),
            "R3, three servers" if need.replicated else "R1, one server",
            f"{need.reached:,.0f}",
            need.bottleneck,
        )
        for need in found
    ]
    text = table(("NODES", "PODS/S", "PLACEMENT", "BINDER", "BUS", "REACHED", "BOTTLENECK"), rows)
    if not compared:
        return text
    checked = [
        (
            str(each.placement),
            f"{each.measured[0]:.0f} / {each.simulated[0]:.0f}",
            f"{each.errors[0]:+.0%}",
            f"{each.measured[1]:.2f} / {each.simulated[1]:.2f}",
            f"{each.errors[1]:+.0%}",
        )
        for each in compared
    ]
    header = ("PLACEMENT", "PODS/S MEASURED / SIMULATED", "ERROR", "CPU MS MEASURED / SIMULATED", "ERROR")
    return f"{text}\n\n{table(header, checked)}"
