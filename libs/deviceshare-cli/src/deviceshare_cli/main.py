"""The command line: names, options and help of the commands; each calls the module that implements it.

The commands of :mod:`.bench`, :mod:`.conformance` and :mod:`.simulate` are in the module ``app`` of these packages.
Modules that take long to import are imported by the command that needs them.
"""

import io
import logging
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Literal

import typer

from deviceshare_cli import runfile
from deviceshare_cli.bench.app import app as bench_app
from deviceshare_cli.chaos.app import app as chaos_app
from deviceshare_cli.conformance.app import app as conformance_app
from deviceshare_cli.errors import CommandError
from deviceshare_cli.exit_status import run_and_exit
from deviceshare_cli.pods import SCHEDULERS
from deviceshare_cli.simulate.app import app as simulate_app

app = typer.Typer(
    help="Share GPUs and NPUs among pods: run the scheduler on this machine, change its cluster, explain decisions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
explaining = typer.Typer(help="Explain placements and why pods are pending.", no_args_is_help=True)
app.add_typer(explaining, name="explain")
app.add_typer(bench_app, name="bench")
app.add_typer(simulate_app, name="simulate")
app.add_typer(conformance_app)
app.add_typer(chaos_app)

RunOption = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="FILE",
        help="Run file of the system; default: the latest one. "
        "Run files are in $DEVICESHARE_RUN_DIR, else deviceshare-<uid> under $XDG_RUNTIME_DIR or /tmp.",
    ),
]
FileOption = Annotated[
    list[str], typer.Option("-f", "--filename", metavar="FILE", help="File, directory or - for standard input.")
]


# The names of `get`, plural and singular.
Kind = Literal[
    "nodes", "node", "devices", "device", "pods", "pod", "claims", "claim", "podgroups", "podgroup", "queues", "queue"
]  # fmt: skip


@app.command()
def up(
    cluster: Annotated[
        str, typer.Option(metavar="local:DIR", help="The cluster: local:DIR loads a directory of manifests.")
    ],
    conf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A volcano-scheduler.conf in Volcano's format.")
    ] = None,
    until_settled: Annotated[
        bool,
        typer.Option("--until-settled", help="End with status 0 when every pod is bound or has a reason why not."),
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as JSON at the end; all other output goes to stderr."),
    ] = False,
    metrics_port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port of /metrics and the JSON API; 0: any free port.")
    ] = 8080,
    scheduler_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"Place the pods with this spec.schedulerName; repeatable. [default: {', '.join(SCHEDULERS)}]",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="With --until-settled: end with status 1 and the open work if not settled by then.",
        ),
    ] = None,
    bus_servers: Annotated[
        int, typer.Option(metavar="N", help="nats-servers of the bus, 1, 3 or 5; each holds all streams.")
    ] = 1,
    replicas: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Processes of the services, which divide the work, such as placement=3,binder=2. [default: 1 of each]",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Start nats-server and the four services, place the pods of a directory, and show the decisions.

    On a terminal it shows a live table, elsewhere a line for each placement and, when all pods are settled, a table of
    the pods. It runs until Ctrl-C or SIGTERM, unless --until-settled is given.
    """
    from deviceshare_cli.backing import directory_of
    from deviceshare_cli.replicas import parse_replicas
    from deviceshare_cli.system import Wanted
    from deviceshare_cli.up import Options
    from deviceshare_cli.up import up as run_up

    if bus_servers not in (1, 3, 5):
        raise typer.BadParameter("--bus-servers is 1, 3 or 5")
    schedulers = tuple(scheduler_name or SCHEDULERS)
    processes = parse_replicas(replicas)
    if processes.get("metrics", 1) != 1:
        raise typer.BadParameter("--replicas: metrics has one process, which serves the page")
    wanted = Wanted(cluster, directory_of(cluster), conf, schedulers, metrics_port, bus_servers, processes)
    if timeout is not None and not until_settled:
        raise typer.BadParameter("--timeout goes with --until-settled")
    options = Options(wanted, until_settled, json, timeout)
    run_and_exit(run_up(options))


@app.command()
def apply(filename: FileOption, run: RunOption = None) -> None:
    """Create the objects of manifests in the running local cluster, or update existing ones."""
    from deviceshare_cli import changing

    run_and_exit(changing.apply(runfile.find(run), filename))


@app.command()
def delete(
    filename: FileOption,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Ignore objects that do not exist.")
    ] = False,
    run: RunOption = None,
) -> None:
    """Delete the objects of manifests from the running local cluster."""
    from deviceshare_cli import changing

    run_and_exit(changing.delete(runfile.find(run), filename, ignore_not_found=ignore_not_found))


@app.command()
def get(
    kind: Annotated[Kind, typer.Argument(metavar="nodes|devices|pods|claims|podgroups|queues")],
    output: Annotated[
        Literal["table", "wide", "json"], typer.Option("-o", "--output", help="How to print it.")
    ] = "table",
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="Only this namespace; default: all.")
    ] = None,
    run: RunOption = None,
) -> None:
    """Show nodes, devices, pods or claims of the running system, or PodGroups and Queues of its local cluster."""
    from deviceshare_cli import getting, listing

    plural = kind if kind.endswith("s") else f"{kind}s"
    if plural in listing.KINDS:
        run_and_exit(listing.listed(runfile.find(run), plural, namespace, output=output))
    run_and_exit(getting.get(runfile.find(run), plural, namespace, output=output))


@explaining.command("pod")
def explain_pod(
    name: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="Without a namespace: default.")],
    output: Annotated[
        Literal["text", "wide", "json"], typer.Option("-o", "--output", help="How to print it.")
    ] = "text",
    run: RunOption = None,
) -> None:
    """Show a pod's node and devices with the reasons, or why it is pending.

    -o wide also shows what each of the closest nodes lacks, and what is free on its cards.
    """
    from deviceshare_cli import explaining as module

    run_and_exit(module.explain_pod(runfile.find(run), name, as_json=output == "json", wide=output == "wide"))


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A core log, as a service writes it on SIGUSR1.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print the events and commands of a core log, and replay it.

    Each event has its time in seconds since the first event, and the commands that the core returned. If the log is
    complete, a new core of the service handles the same events: commands that differ are shown with - (recorded) and
    + (replayed), and the status is 1. Signing keys are read from the environment, as in the services.
    """
    from deviceshare_cli import replay as module

    raise typer.Exit(module.replay(file, as_json=json))


@app.command()
def version() -> None:
    """Show the version."""
    print(f"deviceshare {installed_version('deviceshare-cli')}")


def main() -> None:
    """Run the command line; errors are one line on stderr and exit status 1, wrong usage is 2."""
    # Log messages of libraries are for services; commands report errors themselves.
    logging.getLogger("deviceshare").addHandler(logging.NullHandler())
    logging.getLogger("deviceshare").propagate = False
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    # Characters that the terminal's encoding lacks are escaped, as on stderr.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except CommandError as error:
        print(f"deviceshare: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
