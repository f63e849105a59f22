"""The command line of the commands that only read: ``get``, ``describe``, ``explain`` and others."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from deviceshare_cli.exit_status import run_and_exit
from deviceshare_cli.reading.filters import Filters, Status
from deviceshare_cli.reading.kinds import DESCRIBED, RESOURCES, Resource
from deviceshare_cli.reading.opening import Source

app = typer.Typer()

RunOption = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="PID|FILE",
        help="Process id or run file of the system; default: the latest one of this user. "
        "Run files are in $DEVICESHARE_RUN_DIR, else deviceshare-<uid> under $XDG_RUNTIME_DIR or /tmp.",
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="DEVICESHARE_SERVER",
        metavar="URL",
        help="The metrics service of an installed system, such as http://127.0.0.1:8080 behind `kubectl port-forward`; "
        "its objects are read by the kubeconfig.",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="DEVICESHARE_TOKEN",
        metavar="TOKEN",
        show_envvar=True,
        help="The token for it: of Kubernetes, or the shared secret; default: that of the kubeconfig or run file.",
    ),
]
SnapshotOption = Annotated[
    Path | None,
    typer.Option("--snapshot", metavar="FILE", help="Read this file of `deviceshare snapshot`, - for standard input."),
]
NamespaceOption = Annotated[
    str | None, typer.Option("-n", "--namespace", metavar="NS", help="The namespace; for names the default is default.")
]


def _completion(*resources: Resource) -> Any:
    """Return the argument that takes the names of these resources, with their completion."""
    names = [name for each in resources for name in (each.plural, each.singular, *each.short[:1])]
    return typer.Argument(
        metavar="KIND [NAME...]",
        help=f"{', '.join(each.plural for each in resources)}, or a short name such as po; also KIND/NAME.",
        autocompletion=lambda incomplete: [name for name in names if name.startswith(incomplete)],
    )


@app.command()
def get(
    arguments: Annotated[list[str], _completion(*RESOURCES)],
    output: Annotated[
        Literal["table", "wide", "json", "yaml", "name"],
        typer.Option(
            "-o",
            "--output",
            help="json: the fields of the JSON API (of PodGroups, Queues, Jobs and Events the objects); "
            "yaml: the Kubernetes objects.",
        ),
    ] = "table",
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", metavar="NS", help="Only this namespace; default: all, for names default."),
    ] = None,
    every_namespace: Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")] = False,
    selector: Annotated[
        str, typer.Option("-l", "--selector", metavar="LABELS", help="Only with these labels: a=b,c!=d,e in (f,g),!h.")
    ] = "",
    status: Annotated[
        Status | None,
        typer.Option(
            case_sensitive=False,
            help="Only pods with this status; waiting: all that wait, refused: those with an invalid request, "
            "fragmented: those for which enough is free, but not on one node or card.",
        ),
    ] = None,
    queue: Annotated[str, typer.Option(metavar="NAME", help="Only pods of this queue.")] = "",
    node: Annotated[
        str,
        typer.Option(metavar="NAME", help="Only pods, devices, claims, ResourceClaims or ResourceSlices of this node."),
    ] = "",
    field_selector: Annotated[
        str,
        typer.Option(metavar="FIELDS", help="Only with these fields: spec.nodeName=gpu-1,status.phase!=Running."),
    ] = "",
    sort: Annotated[
        str,
        typer.Option(
            "--sort-by",
            metavar="PATH",
            help="Order by a field: .waiting_since, .priority, .memory_used, .metadata.creationTimestamp.",
        ),
    ] = "",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Then print each change, until Ctrl-C.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Print no head of the table.")] = False,
    run: RunOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    snapshot: SnapshotOption = None,
) -> None:
    """Show nodes, devices, pods, claims, podgroups, queues, jobs, events, or the objects of storage."""
    from deviceshare_cli import getting

    where = None if every_namespace else namespace
    filters = Filters(status, queue, node, field_selector)
    options = getting.GetOptions(where, every_namespace, selector, filters, output, sort, watch, not no_headers)
    run_and_exit(getting.get(Source(run, snapshot, server, token), arguments, options))


@app.command()
def describe(
    arguments: Annotated[list[str], _completion(*DESCRIBED)],
    namespace: NamespaceOption = None,
    run: RunOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    snapshot: SnapshotOption = None,
) -> None:
    """Show all fields of an object, its devices and its events."""
    from deviceshare_cli import describing

    run_and_exit(describing.describe(Source(run, snapshot, server, token), arguments, namespace))


@app.command()
def explain(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND NAME",
            help="KIND: pod, node, device, queue, podgroup or job. NAME: also NAMESPACE/NAME; of a device its id, also "
            "NODE/ID or NODE/INDEX. Also KIND/NAME.",
        ),
    ],
    output: Annotated[
        Literal["text", "wide", "json", "yaml"], typer.Option("-o", "--output", help="How to print it.")
    ] = "text",
    preempt: Annotated[
        bool,
        typer.Option(
            "--preempt",
            help="Of a waiting pod: which pods would be evicted for it now, or why none. Nothing is evicted.",
        ),
    ] = False,
    namespace: NamespaceOption = None,
    run: RunOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    snapshot: SnapshotOption = None,
) -> None:
    """Explain an object: where a pod is placed and why, or why it is pending; what is used of a node, device or queue.

    -o wide of a pod also shows what each of the closest nodes lacks, and what is free on its cards.
    """
    from deviceshare_cli import explaining

    if len(arguments) + ("/" in arguments[0]) != 2:
        raise typer.BadParameter("one object is explained: name it as KIND NAME or KIND/NAME", param_hint="'KIND NAME'")
    source = Source(run, snapshot, server, token)
    run_and_exit(explaining.explain(source, arguments, namespace, output, preempt=preempt))


@app.command()
def fit(
    filename: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE", help="Pods and Volcano's Jobs, - for standard input."),
    ],
    count: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Place so many copies together.")] = 1,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, max=100_000, help="Count further copies that fit up to this number.")
    ] = 1000,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="How to print it.")] = "text",
    without: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="Without this node and its pods; repeatable.")
    ] = None,
    add_nodes: Annotated[
        int, typer.Option(metavar="N", min=0, max=10_000, help="With so many more nodes like --like.")
    ] = 0,
    like: Annotated[str, typer.Option(metavar="NODE", help="The node that those of --add-nodes are like.")] = "",
    conf: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A volcano-scheduler.conf, instead of the configuration of the cluster."),
    ] = None,
    run: RunOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    snapshot: SnapshotOption = None,
) -> None:
    """Show whether pods fit now, where, and how many more; otherwise what is missing and who holds it.

    Nothing is created. Nodes, cards, gangs and limits of queues are evaluated by the code of the scheduler, on the
    state of the running system. Pods that are pending are not placed first. The status is 1 if the pods do not fit.
    """
    from deviceshare_cli.whatif import fit as module
    from deviceshare_cli.whatif.addition import Addition
    from deviceshare_cli.whatif.changed_cluster import ClusterChanges

    if bool(add_nodes) != bool(like):
        raise typer.BadParameter("--add-nodes goes with --like, which names a node of the cluster")
    changes = ClusterChanges(tuple(without or ()), Addition(add_nodes, like), conf)
    run_and_exit(module.run_fit(Source(run, snapshot, server, token), filename, count, limit, output, changes))


@app.command()
def top(
    what: Annotated[
        Literal["models", "pods", "namespaces", "queues", "owners"],
        typer.Argument(
            help="models: totals of card models, DeviceClasses and queues. Else who holds cards, most first."
        ),
    ] = "models",
    model: Annotated[
        str, typer.Option(metavar="TEXT", help="Only card models (and DeviceClasses) with this text, such as A100.")
    ] = "",
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output", help="How to print it.")] = "table",
    run: RunOption = None,
    server: ServerOption = None,
    token: TokenOption = None,
    snapshot: SnapshotOption = None,
) -> None:
    """Show what there is of each card model and queue, what is used, and how fragmented the rest is; or who uses it.

    WHOLE FREE: cards without pods; 8/4/2/1 ON A NODE: on how many nodes at least so many of them are. LARGEST FREE: the
    largest share of one card. FRAGMENTED: how much of the free memory is on cards in use. UNAVAILABLE: cards that are
    unhealthy or cordoned, or on nodes that take no pods. ALLOCATED: devices that ResourceClaims have by a DeviceClass;
    DEVICES OF DRIVER: those that any claims have, of all that the driver publishes. CARD-HOURS: what the shares have
    taken that are held now.
    """
    source = Source(run, snapshot, server, token)
    if what == "models":
        from deviceshare_cli.whatif.top import run_top

        run_and_exit(run_top(source, model, output))
    else:
        from deviceshare_cli.whatif.holders import run_holders

        run_and_exit(run_holders(source, what, model, output))


@app.command()
def usage(
    prometheus: Annotated[
        str,
        typer.Option(
            envvar="DEVICESHARE_PROMETHEUS",
            metavar="URL",
            help="The Prometheus that scrapes the metrics service, such as http://127.0.0.1:9090.",
        ),
    ] = "http://127.0.0.1:9090",
    since: Annotated[str, typer.Option(metavar="TIME", help="Of the last hours, days or weeks: 12h, 30d, 4w.")] = "30d",
    by: Annotated[
        Literal["namespace", "queue", "model", "owner-kind"], typer.Option(help="Whose usage.")
    ] = "namespace",
    output: Annotated[
        Literal["table", "csv", "json"], typer.Option("-o", "--output", help="How to print it.")
    ] = "table",
    token: Annotated[
        str, typer.Option(envvar="DEVICESHARE_PROMETHEUS_TOKEN", metavar="TOKEN", help="The token for Prometheus.")
    ] = "",
) -> None:
    """Show who used how many cards for how long, most first, by the samples of Prometheus.

    A share of a card counts by its part of the card's memory, or of its cores. Shorter times than five minutes are
    not seen.
    """
    from deviceshare_cli.endpoint import Endpoint
    from deviceshare_cli.usage import run_usage

    run_and_exit(run_usage(Endpoint(prometheus, token), since, by, output))


@app.command()
def snapshot(run: RunOption = None, server: ServerOption = None, token: TokenOption = None) -> None:
    """Write the state of the running system to standard output, as one JSON file.

    Every command that reads accepts the file with --snapshot and gives the answers that the system gave. It contains
    the objects of the cluster (no ConfigMaps and Secrets) and the messages of the bus; gzip shrinks it to a tenth.
    """
    from deviceshare_cli.reading import taking

    run_and_exit(taking.write_snapshot(Source(run, None, server, token)))
