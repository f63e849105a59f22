"""The command line of ``deviceshare simulate``."""

from pathlib import Path
from typing import Annotated

import typer

from deviceshare_cli.reading.app import RunOption, ServerOption, SnapshotOption, TokenOption

app = typer.Typer(help="Simulate the scheduler in virtual time.", no_args_is_help=True)


@app.callback()
def _simulate() -> None:
    """Keep the name of the command, although it is the only one."""


@app.command("cluster")
def cluster(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[local:DIR]",
            help="The manifests of a cluster, as of `up`; without it the cluster of a running system or of --snapshot.",
        ),
    ] = None,
    pods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="File or directory with further pods and workloads, - for standard input; repeatable. "
            "Without it the pods of the directory are what is asked about.",
        ),
    ] = None,
    copies: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="So many copies of the pods of --pods.")
    ] = 1,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME,…", help="The policies to compare: configured, binpack or another card policy, or all."
        ),
    ] = "configured",
    conf: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A volcano-scheduler.conf, instead of the configuration of the cluster."),
    ] = None,
    defragment: Annotated[
        bool,
        typer.Option(
            "--defragment",
            help="Print a plan: which placed pods to restart elsewhere so that the expected pods, those of the cluster "
            "and of --pods, can use more of what is free. Nothing is moved.",
        ),
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE",
            help="Without this node: where the pods that it has would go, and which would wait; repeatable.",
        ),
    ] = None,
    add_nodes: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=10_000, help="With so many more nodes like --like: which waiting pods are placed."
        ),
    ] = 0,
    like: Annotated[str, typer.Option(metavar="NODE", help="The node that those of --add-nodes are like.")] = "",
    moves: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=100_000,
            help="The most pods that the plan moves; by default 1 % of the placed pods with cards, at least one.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the curve of allocated cards to this directory: cluster.svg."),
    ] = None,
    live: Annotated[
        str,
        typer.Option("--cluster", metavar="kube[:CONTEXT]", help="Read a live cluster by the kubeconfig instead."),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    run: RunOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    snapshot: SnapshotOption = None,
) -> None:
    """Show what pods would do in a cluster: how many are placed, where, and why the others wait.

    The scheduler's code decides, with queues, gangs, priorities and the bindings that follow; nothing is created or
    changed. Pods of the cluster that wait are decided first. docs/commands.md states what is not simulated.

    With --without it shows what would become of the pods of nodes that are gone, with --add-nodes which waiting pods
    further nodes would take.

    With --defragment it shows which placed pods to restart elsewhere, and which waiting pods are placed then.
    """
    from deviceshare_cli.backing import directory_of
    from deviceshare_cli.exit_status import run_and_exit
    from deviceshare_cli.reading.opening import Source
    from deviceshare_cli.simulate import command
    from deviceshare_cli.whatif.addition import Addition

    if bool(add_nodes) != bool(like):
        raise typer.BadParameter("--add-nodes goes with --like, which names a node of the cluster")
    if target is None and not (pods or defragment or without or add_nodes):
        raise typer.BadParameter(
            "give local:DIR, or --pods with the pods to place in the running system, or --without, or --add-nodes"
        )
    if target is not None and (run or snapshot):
        raise typer.BadParameter("local:DIR excludes --run and --snapshot")
    kind, _, context = live.partition(":")
    if live and (kind != "kube" or target is not None or run or snapshot):
        raise typer.BadParameter("--cluster is kube or kube:CONTEXT, without local:DIR, --run and --snapshot")
    if copies > 1 and not pods:
        raise typer.BadParameter("--copies goes with --pods")
    if moves is not None and not defragment:
        raise typer.BadParameter("--moves goes with --defragment")
    for option, given in (("--plot", plot), ("--without", without), ("--add-nodes", add_nodes)):
        if defragment and given:
            raise typer.BadParameter(f"--defragment excludes {option}")
    policies = command.policies(policy)
    if defragment and len(policies) > 1:
        raise typer.BadParameter(f"--policy {policy}: --defragment plans for one policy")
    directory = directory_of(target, "") if target is not None else None
    if target is not None and directory is None:
        raise typer.BadParameter(f"{target}: expected local:DIR, or nothing for the running system")
    options = command.SimulateOptions(
        directory,
        Source(run, snapshot, server, token),
        tuple(pods or ()),
        copies,
        policies,
        conf,
        defragment,
        moves,
        tuple(without or ()),
        Addition(add_nodes, like),
        context if live else None,
    )
    run_and_exit(command.simulate_cluster(options, json=json, plot=plot))
