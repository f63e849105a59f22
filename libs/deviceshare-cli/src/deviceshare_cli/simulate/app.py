"""The command line of ``deviceshare simulate``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Simulate the scheduler in virtual time.", no_args_is_help=True)


@app.command("fairness")
def fairness(
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same pods.")] = 1,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the curves to this directory, one fairness-….svg for each scene."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show on a simulated cluster, in virtual time, that queues and jobs get their fair shares.

    Queues of different weights, two jobs with different requests, a large gang among small pods: docs/fairness.md
    describes each scene. The command needs no running system.

    The status is 1 if the claim of a scene does not hold.
    """
    from deviceshare_cli.output import indented_json
    from deviceshare_cli.plots import write
    from deviceshare_cli.simulate.fairness import as_text, scenes

    shown = list(scenes(seed))
    if plots is not None:
        for scene in shown:
            write(scene.plot, plots / f"fairness-{scene.name}.svg")
    report = {each.name: {"claim": each.claim, "holds": each.holds, **each.numbers} for each in shown}
    print(indented_json(report) if json else as_text(shown))
    raise typer.Exit(0 if all(scene.holds for scene in shown) else 1)


@app.command("scaling")
def scaling(
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A report of `bench bus --json` with one replica, from which the costs are taken; further ones, with "
            "more replicas of placement, are compared with their simulation.",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the curves to this directory: scaling-….svg.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate how many replicas, and which bus, clusters of 1,000 to 100,000 nodes need.

    The services, their bus and the cluster are simulated in virtual time with costs per step: docs/scaling.md states
    the model and its error. The command needs no running system.
    """
    from deviceshare_cli.output import indented_json
    from deviceshare_cli.plots import write
    from deviceshare_cli.simulate import scaling as simulated
    from deviceshare_cli.simulate.pipeline import Costs

    reports = [simulated.read_report(file) for file in measured or ()]
    costs = simulated.calibrated(reports[0]) if reports else Costs()
    if plots is not None:
        for name, plot in simulated.plots(costs):
            write(plot, plots / f"{name}.svg")
    needs = list(simulated.needs(costs))
    compared = simulated.compare(reports, costs)
    if not json:
        print(simulated.as_text(needs, compared))
        return
    checked = [{**each._asdict(), "errors": each.errors} for each in compared]
    print(indented_json({"costs": costs._asdict(), "needs": [each._asdict() for each in needs], "compared": checked}))


@app.command("trace")
def trace(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The directory with openb_node_list_gpu_node.csv and openb_pod_list_WORKLOAD.csv or .csv.gz.",
        ),
    ],
    workload: Annotated[str, typer.Option(metavar="NAME,…", help="The workloads, or all.")] = "default",
    load: Annotated[float, typer.Option(help="How much arriving pods request, as a share of all cards.")] = 1.3,
    seeds: Annotated[str, typer.Option(metavar="N..M", help="The seeds: a number, a range, or several.")] = "42",
    policy: Annotated[str, typer.Option(metavar="NAME,…", help="The policies, or all.")] = "all",
    orders: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Read arrivals from openb_pod_list_WORKLOAD_SEED.txt in this directory, instead of drawing them.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at the same time; by default one for each core.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option("--plot", metavar="DIR", help="Write the curves to this directory: trace-WORKLOAD.svg."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare policies on the nodes and pods of a recorded trace: how much of all cards do they allocate?

    The benchmark of "Beware of Fragmentation" (USENIX ATC 2023): pods arrive one by one and stay, until they request
    more than the cluster has. docs/policies.md describes it, and where to get the trace.
    """
    from deviceshare_cli.output import indented_json
    from deviceshare_cli.plots import write
    from deviceshare_cli.simulate.trace import command, report

    names = command.parse_names(workload, command.known_workloads(directory), "--workload")
    options = command.Options(
        directory, names, load, command.parse_seeds(seeds), command.policies(policy), orders, jobs
    )
    results = command.simulate(options)
    if plots is not None:
        for name, plot in report.plots(results):
            write(plot, plots / f"{name}.svg")
    print(indented_json(report.as_json(results)) if json else report.as_text(results))
