"""The command line: names, options and help of the commands; each calls the module that implements it."""

import io
import logging
import sys
from collections.abc import Coroutine
from enum import StrEnum
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from deviceshare_cli import runfile
from deviceshare_cli.errors import CommandError
from deviceshare_cli.pods import SCHEDULERS

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
benching = typer.Typer(help="Measure the system on this machine.", no_args_is_help=True)
app.add_typer(benching, name="bench")
simulating = typer.Typer(help="Play what the scheduler does, in made-up time.", no_args_is_help=True)
app.add_typer(simulating, name="simulate")

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


class Output(StrEnum):
    """Output formats of tables."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class ExplainOutput(StrEnum):
    """Output formats of explanations."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


class Kind(StrEnum):
    """Kinds of `get`, plural and singular."""

    NODES = "nodes"
    NODE = "node"
    DEVICES = "devices"
    DEVICE = "device"
    PODS = "pods"
    POD = "pod"
    CLAIMS = "claims"
    CLAIM = "claim"
    PODGROUPS = "podgroups"
    PODGROUP = "podgroup"
    QUEUES = "queues"
    QUEUE = "queue"


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
) -> None:
    """Start nats-server and the four services, place the pods of a directory, and show the decisions.

    On a terminal it shows a live table, elsewhere a line for each placement and, when all pods are settled, a table of
    the pods. It runs until Ctrl-C or SIGTERM, unless --until-settled is given.
    """
    from deviceshare_cli.backing import directory_of
    from deviceshare_cli.system import Wanted
    from deviceshare_cli.up import Options
    from deviceshare_cli.up import up as run_up

    wanted = Wanted(cluster, directory_of(cluster), conf, tuple(scheduler_name or SCHEDULERS), metrics_port)
    if timeout is not None and not until_settled:
        raise typer.BadParameter("--timeout goes with --until-settled")
    options = Options(wanted, until_settled, json, timeout)
    _end(run_up(options))


@app.command()
def apply(filename: FileOption, run: RunOption = None) -> None:
    """Create the objects of manifests in the running local cluster, or update existing ones."""
    from deviceshare_cli import changing

    _end(changing.apply(runfile.find(run), filename))


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

    _end(changing.delete(runfile.find(run), filename, ignore_not_found=ignore_not_found))


@app.command()
def get(
    kind: Annotated[Kind, typer.Argument(metavar="nodes|devices|pods|claims|podgroups|queues")],
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.TABLE,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NS", help="Only this namespace; default: all.")
    ] = None,
    run: RunOption = None,
) -> None:
    """Show nodes, devices, pods or claims of the running system, or PodGroups and Queues of its local cluster."""
    from deviceshare_cli import getting, listing

    plural = kind if kind.endswith("s") else f"{kind}s"
    if plural in listing.KINDS:
        _end(listing.listed(runfile.find(run), plural, namespace, output=output))
    _end(getting.get(runfile.find(run), plural, namespace, output=output))


@explaining.command("pod")
def explain_pod(
    name: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="Without a namespace: default.")],
    output: Annotated[ExplainOutput, typer.Option("-o", "--output", help="How to print it.")] = ExplainOutput.TEXT,
    run: RunOption = None,
) -> None:
    """Show a pod's node and devices with the reasons, or why it is pending.

    -o wide also shows what each of the closest nodes lacks, and what is free on its cards.
    """
    from deviceshare_cli import explaining as module

    as_json, wide = output is ExplainOutput.JSON, output is ExplainOutput.WIDE
    _end(module.explain_pod(runfile.find(run), name, as_json=as_json, wide=wide))


@app.command()
def conformance(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recorded cases or sessions, .jsonl or .jsonl.gz.")
    ],
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show every difference of every case that failed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_volcano: Annotated[
        bool, typer.Option("--as-volcano", help="Replay sessions with everything turned off that goes beyond Volcano.")
    ] = False,
) -> None:
    """Compare our answers with those recorded from Volcano's code.

    A file has one case or session a line. A case is one node and its devices; device configurations are read from
    configs/ beside the file. Fit, score, annotations and the state of the devices are compared after every step. A
    difference is on purpose where we answer as recorded once we read what Volcano reads.

    A session is a whole cluster: pods, nodes, devices, order and phases of PodGroups are compared. A rule of ours
    explains a difference where we decide as recorded once the rule is turned off.

    docs/compatibility.md has the lists. Nothing else needs to run. The status is 1 if a case or a session failed.
    """
    from deviceshare_cli.conformance import command

    raise typer.Exit(command.conformance(files, verbose=verbose, json=json, as_volcano=as_volcano))


@benching.command("bus")
def bench_bus(
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes with hami-core cards.")] = 1000,
    pods: Annotated[int, typer.Option(metavar="N", min=1, help="Single pods, of ten shapes in turn.")] = 10_000,
    devices: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Cards on each node.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    floor: Annotated[bool, typer.Option(help="Measure the floor as well.")] = True,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="How long each of the phases may take.")
    ] = 600.0,
) -> None:
    """Place generated pods with the whole system, on a local cluster, and measure.

    The system is started as `up` does. When all nodes are known, the pods are created as fast as the local cluster
    takes them, 250 at a time.

    pods_per_second: bound pods by the time from the first creation until the last binding was seen.

    latency_p50_seconds, latency_p99_seconds: of a pod, from right before its creation was sent (so the wait for the
    acknowledgement is in it) until a watch of the cluster showed it bound. All pods come at once: most of this is the
    wait for those before it.

    cpu_seconds: user and system time of each process in that time; `bench` plays the API server's clients and
    controllers. load_average: over the last minute, before and after.

    floor_pods_per_second: the same number of messages of the same mean size on each stream, published and read with
    bare nats-py by as many processes that decide nothing, all at once; ratio is how much of that the system reaches.
    """
    from deviceshare_cli.bench.bus import command

    _end(command.bench_bus(nodes, pods, devices, timeout, as_json=json, with_floor=floor))


class BenchFamily(StrEnum):
    """The families that can be measured, or all of them at once."""

    HAMI_CORE = "hami-core"
    MIG = "mig"
    VNPU_HAMI = "vnpu-hami"
    GPU_SHARE = "gpu-share"
    MIXED = "mixed"


class Policy(StrEnum):
    """How cards and nodes are chosen."""

    NONE = "none"
    BINPACK = "binpack"
    SPREAD = "spread"


class MigGeometry(StrEnum):
    """How a MIG instance is chosen."""

    BEST_FIT = "best-fit"
    FIRST_FIT = "first-fit"


@benching.command("kube")
def bench_kube(
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes of eight cards that pods share.")] = 250,
    pods: Annotated[int, typer.Option(metavar="N", min=1, help="Single pods, all alike.")] = 2000,
    in_flight: Annotated[int, typer.Option(metavar="N", min=1, help="Requests of the bare client at a time.")] = 16,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1.0, help="How long all of it may take.")] = 600.0,
) -> None:
    """Bind pods with the whole system on a kube-apiserver of its own, and measure.

    etcd and kube-apiserver are taken from KUBEBUILDER_ASSETS, else from .cache/kube, where the tests build them. All
    pods wait when the system starts to read the cluster. Device plugins are played: they answer at once.

    bindings_per_second: all pods by the time from the first binding to the last, as a watch shows them.

    bare_bindings_per_second: as many pods, with the same annotations, to the same nodes, on the same API server, by
    a client that decides nothing and knows where each pod belongs, when the system has ended. The device plugins
    serve its pods as well: the two are measured under the same conditions. ratio is how much of that the system
    reaches.

    without_plugins: the same two once more, with pods that no device plugin has to serve: nobody else is at work.

    cpu_milliseconds_per_pod: user and system time of each process from the first binding to the last; bench plays
    the device plugins. reports_waiting: Events of bindings that were not written by then; they give way to bindings.
    """
    from deviceshare_cli.bench.kube import command, measure

    _end(command.bench_kube(measure.Size(nodes, pods, in_flight), timeout, as_json=json))


@benching.command("allocator")
def bench_allocator(
    family: Annotated[BenchFamily, typer.Option(help="Whose cards.")] = BenchFamily.HAMI_CORE,
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes.")] = 5000,
    devices: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Cards on each node.")] = 8,
    pods: Annotated[int, typer.Option(metavar="N", min=1, help="Pods, placed one after the other.")] = 10_000,
    shapes: Annotated[int, typer.Option(metavar="N", min=1, help="Different requests, in turn.")] = 50,
    policy: Annotated[Policy, typer.Option(help="Policy.")] = Policy.BINPACK,
    prefill: Annotated[
        float, typer.Option(metavar="SHARE", min=0.0, max=1.0, help="Share of the cards that are partly taken.")
    ] = 0.5,
    ties: Annotated[
        str, typer.Option(metavar="lowest|seed:N", help="Which of equal nodes: by name, or in an order made up.")
    ] = "lowest",
    mig_geometry: Annotated[MigGeometry, typer.Option(help="How a MIG instance is chosen.")] = MigGeometry.BEST_FIT,
    gang: Annotated[
        int, typer.Option(metavar="SIZE", min=0, help="Decide gangs of so many pods that ask a whole card each.")
    ] = 0,
    workload: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Place this workload; it brings its family, policy and configuration."),
    ] = None,
    placements: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write pod, node and device annotation of each, as CSV.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the decision alone: one process, one core, no bus.

    pods_per_second: pods by the time that placing and charging them took. Each shape is looked at once before.

    floor_pods_per_second: an argmax over as many scores and the bookkeeping of one placement, nothing else; ratio is
    how much of that the allocator reaches.
    """
    from deviceshare_cli.bench.allocator import command

    chosen = "" if policy is Policy.NONE else policy.value
    size = command.Size(family.value, nodes, devices, pods, shapes, chosen, prefill, mig_geometry.value, gang)
    command.bench_allocator(size, command.ties_of(ties), workload, placements, as_json=json)


@benching.command("curve")
def bench_curve(
    nodes: Annotated[str, typer.Option(metavar="N,…", help="Sizes of the cluster.")] = "1000,5000,10000,20000",
    shapes: Annotated[str, typer.Option(metavar="N,…", help="Numbers of different requests.")] = "50,500",
    pods: Annotated[int, typer.Option(metavar="N", min=1, help="Pods of each run.")] = 20_000,
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each size; the middle one counts.")] = 3,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the curves there, an allocator-….svg for each of SHAPES.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run `bench allocator` for every family at several sizes, each run in a process of its own."""
    from deviceshare_cli.bench.allocator import curve

    sizes = curve.numbers("--nodes", nodes), curve.numbers("--shapes", shapes)
    curve.bench_curve(*sizes, pods, runs, plots, as_json=json)


@simulating.command("fairness")
def simulate_fairness(
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same pods.")] = 1,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the curves there, a fairness-….svg for each scene.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show on a made-up cluster, in made-up time, that the order of work is fair.

    Queues of different weights, two jobs that want different things, a large gang among small pods: docs/fairness.md
    tells what each scene is. Nothing else needs to run.

    The status is 1 if something does not come out as it has to.
    """
    from deviceshare_cli.simulate import command

    raise typer.Exit(command.fairness(seed, plots, as_json=json))


@app.command()
def version() -> None:
    """Show the version."""
    print(f"deviceshare {installed_version('deviceshare-cli')}")


def _end(work: Coroutine[Any, Any, int]) -> None:
    """Run a command and exit with its status."""
    raise typer.Exit(uvloop.run(work))


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
