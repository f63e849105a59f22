"""The command line: names, options and help of the commands; each calls the module that implements it.

The commands of packages such as :mod:`.reading` are in their module ``app``; :mod:`.added_commands` finds those of
other distributions. Modules that take long to import are imported by the command that needs them.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from deviceshare_cli import runfile
from deviceshare_cli.checking.app import app as checking_app
from deviceshare_cli.command_groups import GroupedCommands
from deviceshare_cli.credentials.app import app as credentials_app
from deviceshare_cli.errors import CommandError
from deviceshare_cli.exit_status import run_and_exit
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.numbers import finite
from deviceshare_cli.pods import SCHEDULERS
from deviceshare_cli.process import prepared
from deviceshare_cli.reading.app import NamespaceOption, RunOption, ServerOption, TokenOption
from deviceshare_cli.reading.app import app as reading_app
from deviceshare_cli.simulate.app import app as simulate_app

app = typer.Typer(
    cls=GroupedCommands,
    help="Share GPUs and NPUs among pods: run the scheduler on this machine, change its cluster, explain decisions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(reading_app)
app.add_typer(simulate_app, name="simulate")
app.add_typer(credentials_app)
app.add_typer(checking_app)

FileOption = Annotated[
    list[str], typer.Option("-f", "--filename", metavar="FILE", help="File, directory or - for standard input.")
]
OptionalFileOption = Annotated[
    list[str] | None, typer.Option("-f", "--filename", metavar="FILE", help="File, directory or - for standard input.")
]


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version as installed_version

        print(f"deviceshare {installed_version('deviceshare-cli')}")
        raise typer.Exit


@app.callback()
def _options(
    shown: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Take the options before the command."""


@app.command()
def up(
    cluster: Annotated[
        str,
        typer.Option(
            metavar="local:DIR|kube[:CONTEXT]",
            help="The cluster. local:DIR: a local cluster with the manifests of a directory. kube: the live cluster "
            "of the current context of the kubeconfig; kube:CONTEXT: of another context.",
        ),
    ],
    conf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A volcano-scheduler.conf in Volcano's format.")
    ] = None,
    until_settled: Annotated[
        bool,
        typer.Option(
            "--until-settled",
            help="End when every pod is bound or has a reason why not: status 0; 3 if manifests were rejected.",
        ),
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as JSON at the end; all other output goes to stderr."),
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Port of the page, /metrics and the JSON API; 0: any free port. [default: 8080, or a free one]",
            show_default=False,
        ),
    ] = None,
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
            callback=finite,
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
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing to a live cluster: another scheduler, such as Volcano's, places the same pods, and its "
            "choices are compared with the decisions.",
        ),
    ] = False,
) -> None:
    """Start nats-server and the four services, place the pods of a cluster, and show the decisions.

    On a terminal it shows a live table, elsewhere a line for each placement and, when all pods are settled, a table of
    the pods. It runs until Ctrl-C or SIGTERM, unless --until-settled is given.
    """
    from deviceshare_cli.backing import directory_of
    from deviceshare_cli.replicas import parse_replicas
    from deviceshare_cli.system import Wanted
    from deviceshare_cli.up import UpOptions
    from deviceshare_cli.up import up as run_up

    if bus_servers not in (1, 3, 5):
        raise typer.BadParameter("--bus-servers is 1, 3 or 5")
    schedulers = tuple(scheduler_name or SCHEDULERS)
    processes = parse_replicas(replicas)
    directory = directory_of(cluster)
    if dry_run and directory is not None:
        raise typer.BadParameter("--dry-run goes with --cluster kube: a local cluster has no other scheduler")
    wanted = Wanted(cluster, directory, conf, schedulers, metrics_port, bus_servers, processes, dry_run)
    if timeout is not None and not until_settled:
        raise typer.BadParameter("--timeout goes with --until-settled")
    options = UpOptions(wanted, until_settled, json, timeout)
    run_and_exit(run_up(options))


@app.command()
def apply(filename: FileOption, run: RunOption = None) -> None:
    """Create the objects of manifests in the running local cluster, or update existing ones."""
    from deviceshare_cli import changing

    run_and_exit(changing.apply(runfile.find_to_change(run), filename))


@app.command()
def create(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[job NAME]", help="job NAME --from cronjob/NAME, instead of files.")
    ] = None,
    filename: OptionalFileOption = None,
    origin: Annotated[
        str | None, typer.Option("--from", metavar="cronjob/NAME", help="The CronJob to make a Job from.")
    ] = None,
    namespace: NamespaceOption = None,
    run: RunOption = None,
) -> None:
    """Create the objects of manifests in the running local cluster, or a Job from a CronJob, which starts it now."""
    from deviceshare_cli import changing

    if bool(arguments) == bool(filename):
        raise typer.BadParameter("give either -f FILE or job NAME --from cronjob/NAME")
    if filename:
        run_and_exit(changing.create(runfile.find_to_change(run), filename))
    assert arguments is not None
    if len(arguments) != 2 or arguments[0] not in ("job", "job.batch") or origin is None:
        raise typer.BadParameter("expected job NAME --from cronjob/NAME")
    run_and_exit(changing.create_job(runfile.find_to_change(run), arguments[1], origin, namespace))


@app.command()
def scale(
    arguments: Annotated[list[str], typer.Argument(metavar="KIND NAME...", help="deployment NAME, or KIND/NAME.")],
    replicas: Annotated[int, typer.Option(metavar="N", min=0, max=10_000, help="The new number of replicas.")],
    namespace: NamespaceOption = None,
    run: RunOption = None,
) -> None:
    """Set the replicas of Deployments, ReplicaSets, StatefulSets or LeaderWorkerSets of the running local cluster."""
    from deviceshare_cli import changing

    run_and_exit(changing.scale(runfile.find_to_change(run), arguments, replicas, namespace))


@app.command()
def delete(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[KIND NAME...]", help="pod NAME, or KIND/NAME, instead of files.")
    ] = None,
    filename: OptionalFileOption = None,
    namespace: NamespaceOption = None,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Ignore objects that do not exist.")
    ] = False,
    run: RunOption = None,
) -> None:
    """Delete objects of the running local cluster, by name or as manifests name them."""
    from deviceshare_cli import changing

    if bool(arguments) == bool(filename):
        raise typer.BadParameter("give either KIND NAME or -f FILE")
    if arguments:
        deleted = changing.delete_named(
            runfile.find_to_change(run), arguments, namespace, ignore_not_found=ignore_not_found
        )
        run_and_exit(deleted)
    assert filename is not None
    run_and_exit(changing.delete(runfile.find_to_change(run), filename, ignore_not_found=ignore_not_found))


_ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why, for all who look at the card.")]
_ByOption = Annotated[str, typer.Option(metavar="NAME", help="Who. [default: the user of this process]")]
_KIND = typer.Argument(metavar="card NODE/UUID...", help="The word card, and the cards by UUID or index.")
_LiveOption = Annotated[bool, typer.Option("--live", help="The cluster of the kubeconfig, not that of a running `up`.")]
_KubeconfigOption = Annotated[
    str,
    typer.Option(metavar="FILE", help="The kubeconfig of a live cluster. [default: $KUBECONFIG, else ~/.kube/config]"),
]
_ContextOption = Annotated[str, typer.Option(metavar="NAME", help="Its context. [default: the current one]")]


def _cards_of(arguments: list[str]) -> list[str]:
    """Return the cards after the word ``card``."""
    if arguments[0] not in ("card", "cards", "device", "devices") or len(arguments) < 2:
        raise typer.BadParameter("expected: card NODE/UUID. For a whole node, use kubectl cordon or drain")
    return arguments[1:]


@app.command()
def cordon(
    arguments: Annotated[list[str], _KIND],
    reason: _ReasonOption = "",
    by: _ByOption = "",
    live: _LiveOption = False,
    kubeconfig: _KubeconfigOption = "",
    context: _ContextOption = "",
    run: RunOption = None,
) -> None:
    """Keep cards from getting further pods, for maintenance. Pods that have them keep them.

    Writes the annotation deviceshare.io/cordoned-cards of the Node, in the cluster of the running system, else in that
    of the kubeconfig, which needs the right to patch nodes.
    """
    import getpass
    import time

    from deviceshare_cli import cordon as module

    target = module.Target(run, live or bool(kubeconfig or context), kubeconfig, context)
    change = module.cordoning(by or getpass.getuser(), reason, time.time())
    run_and_exit(module.change(target, _cards_of(arguments), change))


@app.command()
def drain(
    ctx: typer.Context,
    arguments: Annotated[list[str], _KIND],
    ignore_daemonsets: Annotated[
        bool, typer.Option("--ignore-daemonsets", help="Leave pods of DaemonSets where they are.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Evict also pods without a controller, which nothing creates again.")
    ] = False,
    delete_emptydir_data: Annotated[
        bool, typer.Option("--delete-emptydir-data", help="Evict also pods with an emptyDir, whose data is lost.")
    ] = False,
    grace_period: Annotated[
        int, typer.Option(metavar="SECONDS", max=2**31 - 1, help="The time of each pod to end; negative: its own.")
    ] = -1,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="End with status 1 after this time, such as 5m; 0: never.")
    ] = "0",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask the API server which pods would be evicted, and change nothing.")
    ] = False,
    reason: _ReasonOption = "",
    by: _ByOption = "",
    live: _LiveOption = False,
    kubeconfig: _KubeconfigOption = "",
    context: _ContextOption = "",
    run: RunOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
) -> None:
    """Cordon cards and evict all pods that have a share of them, as `kubectl drain` does with a node.

    Pods go by the Eviction API, as their PodDisruptionBudgets allow; what these do not allow is tried again. Priorities
    and volcano.sh/preemptable do not protect a pod. The cards stay cordoned: `deviceshare uncordon card`.
    """
    import getpass
    import time

    from deviceshare.conf import seconds_of

    from deviceshare_cli import cordon as module
    from deviceshare_cli import drain as draining

    seconds = seconds_of(timeout)
    if seconds is None:
        raise typer.BadParameter(f"--timeout {timeout}: expected a duration such as 90s or 5m")
    options = draining.DrainOptions(
        ignore_daemonsets, force, delete_emptydir_data, None if grace_period < 0 else grace_period, seconds, dry_run
    )
    target = module.Target(run, live or bool(kubeconfig or context), kubeconfig, context)
    change = module.cordoning(by or getpass.getuser(), reason, time.time())
    _note_unused(ctx, "server", "--live", used=target.live)
    _note_unused(ctx, "token", "--server", used=target.live and server is not None)
    run_and_exit(draining.drain(target, _cards_of(arguments), change, options, server, token))


def _note_unused(ctx: typer.Context, option: str, other: str, *, used: bool) -> None:
    """Note a variable that is not used, as it may be set for other commands. Raises BadParameter for an option."""
    source = ctx.get_parameter_source(option)
    given = source.name if source is not None and not used else ""
    if given == "COMMANDLINE":
        raise typer.BadParameter(f"--{option} goes with {other}")
    if given == "ENVIRONMENT":
        to_stderr(f"note: DEVICESHARE_{option.upper()} is not used without {other}")


@app.command()
def uncordon(
    arguments: Annotated[list[str], _KIND],
    live: _LiveOption = False,
    kubeconfig: _KubeconfigOption = "",
    context: _ContextOption = "",
    run: RunOption = None,
) -> None:
    """Let cards get pods again after `deviceshare cordon card`."""
    from deviceshare_cli import cordon as module

    target = module.Target(run, live or bool(kubeconfig or context), kubeconfig, context)
    run_and_exit(module.change(target, _cards_of(arguments), module.uncordoning()))


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
    _show_version(True)


def main() -> None:
    """Run the command line; errors are one line on stderr and exit status 1, wrong usage is 2."""
    with prepared():
        try:
            app()
        except CommandError as error:
            to_stderr(f"deviceshare: {error}")
            if error.details:
                print(error.details, file=sys.stderr)
            sys.exit(1)
        except BrokenPipeError:
            sys.exit(1)
