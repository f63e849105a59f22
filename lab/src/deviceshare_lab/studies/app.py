"""The command line of ``deviceshare lab study``."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from deviceshare_cli.numbers import finite

app = typer.Typer(help="Study jobs, policies and the pipeline of services in virtual time.", no_args_is_help=True)


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

    from deviceshare_lab.studies.fairness import as_text, scenes

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
            help="A report of `lab bench bus --json` with one replica, from which the costs are taken; further ones, "
            "with more replicas of placement, are compared with their simulation.",
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

    from deviceshare_lab.studies import scaling as simulated
    from deviceshare_lab.studies.pipeline import Costs

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
    load: Annotated[
        float | None,
        typer.Option(
            callback=finite,
            help="How much arriving pods request, as a share of all cards; with --churn the time average of what the "
            "pods request that would run if none waited. By default 1.3, with --churn 0.95.",
        ),
    ] = None,
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
        typer.Option(
            "--plot",
            metavar="DIR",
            help="Write the curves to this directory: trace-WORKLOAD.svg, with --churn churn-WORKLOAD.svg.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    churn: Annotated[
        bool,
        typer.Option("--churn", help="Pods arrive by recorded times, wait while they do not fit, and end."),
    ] = False,
    start_times: Annotated[
        bool,
        typer.Option("--start-times", help="As --churn; show how many of the ranges in which pods start are right."),
    ] = False,
) -> None:
    """Compare policies on the nodes and pods of a recorded trace: how much of all cards do they allocate?

    The benchmark of "Beware of Fragmentation" (USENIX ATC 2023): pods arrive one by one and stay, until they request
    more than the cluster has. With --churn pods end after their recorded lifetimes: how much capacity is free while
    pods wait, and how long do they wait? docs/policies.md describes both, and where to get the trace.
    """
    from deviceshare_cli.output import indented_json
    from deviceshare_cli.plots import Plot, write
    from deviceshare_cli.simulate.options import parse_names, parse_seeds

    from deviceshare_lab.studies.trace import churn_report, command, report
    from deviceshare_lab.studies.trace import start_times as start_report

    names = parse_names(workload, command.known_workloads(directory), "--workload")
    chosen = parse_seeds(seeds), command.policies(policy), orders, jobs
    drawn: Iterable[tuple[str, Plot]] = ()
    if start_times:
        options = command.Options(directory, names, 0.95 if load is None else load, *chosen)
        asked = command.simulate_start_times(options)
        value, text = start_report.as_json(asked), start_report.as_text(asked)
    elif churn:
        options = command.Options(directory, names, 0.95 if load is None else load, *chosen)
        runs = command.simulate_churn(options)
        drawn = churn_report.plots(runs)
        value, text = churn_report.as_json(runs), churn_report.as_text(runs)
    else:
        options = command.Options(directory, names, 1.3 if load is None else load, *chosen)
        results = command.simulate(options)
        drawn = report.plots(results)
        value, text = report.as_json(results), report.as_text(results)
    print(indented_json(value) if json else text)
    if plots is not None:
        for name, plot in drawn:
            write(plot, plots / f"{name}.svg")


@app.command("partitions")
def partitions(
    cluster: Annotated[str, typer.Option(metavar="NAME,…", help="The clusters: mig, vnpu, or all.")] = "all",
    profiles: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            help="How frequent each profile is: uniform, skewed-small, skewed-big, openb, or all.",
        ),
    ] = "all",
    load: Annotated[
        str, typer.Option(metavar="N,…", help="What arriving pods request, as a share of the memory of all cards.")
    ] = "1.0,1.25,1.5",
    seeds: Annotated[str, typer.Option(metavar="N..M", help="The seeds: a number, a range, or several.")] = "1..5",
    policy: Annotated[str, typer.Option(metavar="NAME,…", help="The policies, or all.")] = "all",
    defragment: Annotated[
        bool,
        typer.Option(
            "--defragment",
            help="In addition, fragmentation with plans to move pods, carried out for at most 1 % of the pods.",
        ),
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Runs at the same time; by default one for each core.")
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option("--plot", metavar="DIR", help="Write the curves to this directory: partitions-….svg."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare policies on cards partitioned into MIG instances, or by templates of Ascend chips.

    Pods arrive at random and leave after a random time; one that fits nowhere is rejected. How many are placed?
    docs/policies.md describes the clusters. The command needs no running system.
    """
    from deviceshare_cli.output import indented_json
    from deviceshare_cli.plots import write

    from deviceshare_lab.studies.partitions import command, report

    chosen = command.options(cluster, profiles, load, policy, seeds, defragment=defragment, jobs=jobs)
    results = command.simulate(chosen)
    print(indented_json(report.as_json(results)) if json else report.as_text(results))
    if plots is not None:
        for name, plot in report.plots(results):
            write(plot, plots / f"{name}.svg")


@app.command("devices")
def devices(
    mix: Annotated[
        str, typer.Option(metavar="NAME,…", help="How often profiles are asked for: small, even, large.")
    ] = "small,even,large",
    load: Annotated[
        float, typer.Option(callback=finite, metavar="N", min=0.1, max=5.0, help="What is asked for, of all memory.")
    ] = 1.3,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Runs of each mix and policy.")] = 5,
    nodes: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Nodes with four cards.")] = 8,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes. [default: one per core]")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare how much of A100 cards is in use by ResourceClaims for MIG partitions, by policy.

    Claims arrive at random times and end after random times; one that fits nowhere when it arrives is lost.
    kube-scheduler: a model of its choice, of the nodes on which a claim fits the one with the fewest pods, and there
    the first device. first: without a policy. used: of the memory slices of all cards, over time. to kube-scheduler:
    percentage points on the same arrivals, on average and in the worst run. The command needs no running system.
    """
    from deviceshare_cli.simulate.options import parse_names

    from deviceshare_lab.studies.devices import MIXES, study

    study(parse_names(mix, tuple(MIXES), "--mix"), seeds, nodes, load, jobs, as_json=json)


@app.command("victims")
def victims(
    clusters: Annotated[int, typer.Option(metavar="N", min=1, help="Clusters of each kind.")] = 1000,
    jobs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Clusters at the same time; by default one for each core.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the pods evicted for a waiting group with the best ones, on small random clusters.

    The best ones are found by trying every set of pods. Kinds: the pods of the group have equal requests; different
    ones; they are in a queue that takes from others.

    without_answer: no set of pods is enough. missed: only one of both has an answer. wrong: ours may not be evicted, or
    are not enough. fewest, one_more, several_more: the number of pods compared with the best. best: the sum of
    priorities is the lowest as well.

    The status is 1 if an answer is missed or wrong, two pods more go than needed, or less than 99 % are the fewest.
    """
    from deviceshare_cli.output import indented_json

    from deviceshare_lab.studies.victims import comparison

    found = comparison.compare_all(clusters, jobs)
    shown = comparison.report(found)
    print(indented_json(shown) if json else comparison.as_text(shown))
    raise typer.Exit(1 if found.failures else 0)
