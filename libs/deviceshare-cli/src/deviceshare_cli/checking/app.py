"""The command line of ``deviceshare check``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from deviceshare_cli.exit_status import run_and_exit
from deviceshare_cli.pods import SCHEDULERS

app = typer.Typer()


@app.command()
def check(
    cluster: Annotated[
        str, typer.Argument(metavar="[local:DIR]", help="A directory of manifests instead of a live cluster.")
    ] = "",
    filename: Annotated[
        list[str] | None, typer.Option("-f", "--filename", metavar="FILE", help="Manifests, - for standard input.")
    ] = None,
    kubeconfig: Annotated[
        str, typer.Option(metavar="FILE", help="The kubeconfig. [default: $KUBECONFIG, else ~/.kube/config]")
    ] = "",
    context: Annotated[str, typer.Option(metavar="NAME", help="Its context. [default: the current one]")] = "",
    scheduler_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"A spec.schedulerName to serve. [default: {', '.join(SCHEDULERS)}]"),
    ] = None,
    conf: Annotated[Path | None, typer.Option(metavar="FILE", help="A volcano-scheduler.conf, as of `up`.")] = None,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output", help="How to print it.")] = "table",
) -> None:
    """Inspect a cluster before a migration: what is understood of it, and which pods would wait. Reads only.

    The status is 3 if something is not understood, or would change, or a pod would not be placed on an empty cluster
    either: each such field with its value, what would be right, and the effect.
    """
    from deviceshare_cli.checking.command import CheckOptions
    from deviceshare_cli.checking.command import check as run_check

    files = list(filename or ())
    if cluster:
        if not cluster.startswith("local:") or files:
            raise typer.BadParameter("give local:DIR, or -f FILE, or neither for the cluster of the kubeconfig")
        files = [cluster.removeprefix("local:")]
    if files and (kubeconfig or context):
        raise typer.BadParameter("--kubeconfig and --context go with a live cluster")
    schedulers = tuple(scheduler_name or SCHEDULERS)
    run_and_exit(run_check(CheckOptions(kubeconfig, context, tuple(files), schedulers, output, conf)))
