"""The command line of ``deviceshare lab bench``."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer
from click import Choice
from deviceshare.policies import POLICIES
from deviceshare_cli.exit_status import run_and_exit
from deviceshare_cli.numbers import finite

app = typer.Typer(help="Measure the system on this machine.", no_args_is_help=True)


@app.command("bus")
def bus(
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes with hami-core cards.")] = 1000,
    pods: Annotated[
        int, typer.Option(metavar="N", min=1, help="Single pods with ten different requests in turn.")
    ] = 10_000,
    devices: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Cards on each node.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    rate: Annotated[
        float,
        typer.Option(
            callback=finite,
            metavar="N",
            min=0.0,
            help="Create N pods per second. [default: as fast as they are accepted]",
        ),
    ] = 0.0,
    floor: Annotated[bool, typer.Option(help="Also measure the floor, unless there is a rate.")] = True,
    replicas: Annotated[
        str, typer.Option(metavar="LIST", help="Processes of the services, such as placement=3,binder=2. [default: 1]")
    ] = "",
    fill: Annotated[
        float,
        typer.Option(
            callback=finite, metavar="SHARE", min=0.0, max=1.0, help="Share of the nodes that are full before."
        ),
    ] = 0.0,
    queues: Annotated[int, typer.Option(metavar="N", min=0, help="Queues of the pods. [default: one]")] = 0,
    timeout: Annotated[
        float, typer.Option(callback=finite, metavar="SECONDS", min=1.0, help="Time limit of each phase.")
    ] = 600.0,
) -> None:
    """Place generated pods with the whole system, on a local cluster, and measure.

    The system is started as by `up`. When all nodes are known, the pods are created as fast as the local cluster
    accepts them, 250 at a time; with --rate they are created on schedule, whatever the system does with them, and a
    pod's creation is the moment when it is due.

    not_kept_up: with --rate, why the latencies are not those of a system that keeps up, which is also the last line;
    the status is then 1. open_after_last_creation: pods that were not bound when the last one arrived.

    since_creation_seconds, stage_seconds: quantiles from the creation until each stage, and from the stage before.
    seen: inventory has read the pod. claimed: its claim is in the ledger. bound: a watch of the cluster shows it bound.

    pods_per_second: bound pods divided by the time from the first creation to the last binding.

    latency_p50_seconds, latency_p99_seconds: from the moment before a pod's creation is sent (including the wait for
    the acknowledgement) until a watch of the cluster shows the pod bound. All pods are created at once: most of the
    latency is the wait for earlier pods, without --rate.

    cpu_seconds: user and system time of each process during the run; `bench` is this process, with the clients and
    controllers of the API server. cpu_milliseconds_per_pod has sums in addition: `simulator` is `bench` and the
    nats-server of the cluster, which take the place of an API server, `product` all others. load_average: over the last
    minute, before and after the run.

    claims: the claims in the ledgers at the end, by the placement process that decided them. conflicts: how many writes
    of each process were refused since another one had written the node's ledger; their pods are decided again.
    conflicts_per_ledger, with --fill or --queues: conflicts divided by the ledgers that were sent.

    floor_pods_per_second: the rate at which the same number of processes, without decisions, concurrently publish and
    read the same number of messages of the same mean size on each stream, with plain nats-py. ratio: pods_per_second
    divided by floor_pods_per_second.
    """
    from deviceshare_lab.bench.bus import command, measure, stages

    if rate and pods < (least := math.ceil(stages.MIN_SECONDS * rate)):
        raise typer.BadParameter(f"at {rate:g} pods/s expected at least {least} pods, {stages.MIN_SECONDS:g} s")
    load = measure.Load(nodes, devices, pods, rate, fill, queues)
    run_and_exit(command.bench_bus(load, timeout, replicas, as_json=json, with_floor=floor))


Family = Literal["hami-core", "mig", "vnpu-hami", "gpu-share", "mixed"]
Constraints = Literal[
    "none",
    "affinity-zone",
    "anti-affinity-node",
    "preferred-anti-affinity-node",
    "spread-zone",
    "spread-node",
    "preferred-spread",
    "mixed",
]


@app.command("kube")
def kube(
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes with eight shared cards.")] = 250,
    pods: Annotated[int, typer.Option(metavar="N", min=1, help="Single pods with equal requests.")] = 2000,
    in_flight: Annotated[int, typer.Option(metavar="N", min=1, help="Concurrent requests of the bare client.")] = 16,
    claims: Annotated[bool, typer.Option("--claims", help="Pods with ResourceClaims of a template.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timeout: Annotated[float, typer.Option(callback=finite, metavar="SECONDS", min=1.0, help="Time limit.")] = 600.0,
) -> None:
    """Bind pods with the whole system on a new kube-apiserver, and measure.

    etcd and kube-apiserver are taken from KUBEBUILDER_ASSETS, else from .cache/kube, where the tests build them. All
    pods exist when the system starts. Device plugins are simulated and answer immediately.

    bindings_per_second: number of pods divided by the time from the first binding to the last, as seen by a watch.

    bare_bindings_per_second: the same rate for a client that makes no decisions. It binds the same number of pods, with
    the same annotations, to the same nodes, after the system has stopped. Device plugins serve these pods as well.
    ratio: bindings_per_second divided by bare_bindings_per_second.

    without_plugins: the same measurements for pods that need no device plugin. kube_scheduler: the rate of
    kube-scheduler for as many pods that request no devices, if the program is found in KUBEBUILDER_ASSETS, .cache/node
    or PATH.

    cpu_milliseconds_per_pod: user and system time of each process from the first binding to the last; `bench` is the
    device plugins. reports_waiting: Events of bindings that were not written at the last binding, because bindings have
    a higher priority.

    --claims: pods whose ResourceClaims of one device kube-controller-manager has made of a template; as many are then
    bound by kube-scheduler, when the first ones and their claims are deleted. ratio: bindings_per_second divided by
    kube-scheduler's.
    """
    from deviceshare_lab.bench.kube import command, measure

    run_and_exit(command.bench_kube(measure.Size(nodes, pods, in_flight), timeout, claims=claims, as_json=json))


@app.command("allocator")
def allocator(
    family: Annotated[Family, typer.Option(help="Device family of the cards.")] = "hami-core",
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes.")] = 5000,
    devices: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Cards on each node.")] = 8,
    pods: Annotated[int, typer.Option(metavar="N", min=1, help="Pods, placed one at a time.")] = 10_000,
    pod_classes: Annotated[
        int, typer.Option(metavar="N", min=1, help="Pod classes: different requests, used in turn.")
    ] = 50,
    policy: Annotated[str, typer.Option(click_type=Choice(["none", *POLICIES]), help="Policy.")] = "binpack",
    prefill: Annotated[
        float,
        typer.Option(
            callback=finite, metavar="SHARE", min=0.0, max=1.0, help="Share of the cards that are partly allocated."
        ),
    ] = 0.5,
    ties: Annotated[
        str, typer.Option(metavar="lowest|seed:N", help="How ties between nodes break: by name, or in a random order.")
    ] = "lowest",
    mig_geometry: Annotated[
        Literal["best-fit", "first-fit"], typer.Option(help="Policy for MIG instances.")
    ] = "best-fit",
    gang: Annotated[
        int, typer.Option(metavar="SIZE", min=0, help="Place gangs of this many pods that request a whole card each.")
    ] = 0,
    constraints: Annotated[
        Constraints, typer.Option(help="Inter-pod constraint of each request, about the pods with the same request.")
    ] = "none",
    workload: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Place this workload, which sets family, policy and configuration."),
    ] = None,
    slices: Annotated[
        Literal["h100", "a100-mig"] | None,
        typer.Option(help="Claims for devices of ResourceSlices instead: 8 H100 a node, or 4 A100 with partitions."),
    ] = None,
    placements: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write pod, node and device annotation of each placement, as CSV."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the decision alone: one process, one core, no bus.

    pods_per_second: number of pods divided by the time to place and charge them. Each different request is evaluated
    once before the measurement.

    floor_pods_per_second: the rate of a loop that computes an argmax over the same number of scores and records one
    placement. ratio: pods_per_second divided by floor_pods_per_second.

    With --constraints the nodes are in 10 zones, and each request has a constraint about the pods with the same
    request, which is required or preferred by zone or by node; mixed: all of them in turn.

    With --slices only --nodes, --pods, --policy and --json count of the other options. Claims ask for a whole card, or
    for the partitions of an A100 but the largest in turn; in the second half as many end as are placed.
    claims_per_second: by the CPU time of placing and charging them. bytes_per_device: of the memory for the slices.
    """
    from deviceshare_lab.bench.allocator import command, generated

    chosen = "" if policy == "none" else policy
    if slices is not None:
        from deviceshare_lab.bench.slices import bench_slices

        bench_slices(slices, nodes, pods, chosen, as_json=json)
        return
    size = generated.Size(family, nodes, devices, pods, pod_classes, chosen, prefill, mig_geometry, gang, constraints)
    command.bench_allocator(size, command.ties_of(ties), workload, placements, as_json=json)


@app.command("curve")
def curve(
    nodes: Annotated[str, typer.Option(metavar="N,…", help="Sizes of the cluster.")] = "1000,5000,10000,20000",
    pod_classes: Annotated[str, typer.Option(metavar="N,…", help="Numbers of pod classes.")] = "50,500",
    pods: Annotated[int, typer.Option(metavar="N", min=1, help="Pods of each run.")] = 20_000,
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each size; the median counts.")] = 3,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the curves to this directory, one allocator-N-classes.svg for each N."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run `lab bench allocator` for every family at several sizes, each run in a process of its own."""
    from deviceshare_lab.bench.allocator import curve

    sizes = curve.numbers("--nodes", nodes), curve.numbers("--pod-classes", pod_classes)
    curve.bench_curve(*sizes, pods, runs, plots, as_json=json)


@app.command("preemption")
def preemption(
    nodes: Annotated[int, typer.Option(metavar="N", min=16, help="Nodes.")] = 5000,
    devices: Annotated[int, typer.Option(metavar="N", min=8, max=64, help="Cards on each node, all in use.")] = 8,
    decisions: Annotated[int, typer.Option(metavar="N", min=1, help="Decisions for each group.")] = 20,
    family: Annotated[
        str, typer.Option(click_type=Choice(("hami-core", "mig", "vnpu-hami")), help="The cards.")
    ] = "hami-core",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how long it takes to find the pods to evict for a group: one process, no bus, and none is evicted.

    A pod for one card, a pod for eight, a gang of 64, and a pod of the lowest priority, for which none may be evicted,
    each in a cluster with about one pod a card. Between two decisions 50 pods change.

    milliseconds_first: of the first decision for the group; the very first reads all pods. milliseconds_p50,
    milliseconds_max: of the others. All are CPU time. victims, sum_of_priorities: the pods that would be evicted.
    """
    from deviceshare_lab.bench.preemption import command

    command.bench_preemption(nodes, devices, decisions, family, as_json=json)


@app.command("restart")
def restart(
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes with hami-core cards.")] = 5000,
    pods: Annotated[int, typer.Option(metavar="N", min=1, help="Bound pods; at most 10 for each card.")] = 50_000,
    devices: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Cards on each node.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timeout: Annotated[
        float, typer.Option(callback=finite, metavar="SECONDS", min=1.0, help="Time limit of each phase.")
    ] = 900.0,
) -> None:
    """Measure the restart of each service of a large cluster whose pods are all bound.

    Objects, LEDGER, OUTCOME and EVENT are written directly, CLUSTER by inventory. When all services have read
    everything, they are restarted one after the other.

    seconds, cpu_seconds: from the start of the process until a pod that is created then is bound; of metrics until
    `/metrics` was read once. memory_mib, peak_memory_mib: resident memory some seconds later, and its maximum.
    """
    from deviceshare_lab.bench.restart import command

    if pods > 10 * nodes * devices:
        raise typer.BadParameter(f"{nodes} nodes with {devices} cards have room for {10 * nodes * devices} pods")
    run_and_exit(command.bench_restart(nodes, devices, pods, timeout, as_json=json))


@app.command("ui")
def ui(
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="Nodes.")] = 1250,
    cards: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Cards on each node.")] = 8,
    changes: Annotated[
        float, typer.Option(callback=finite, metavar="N", min=0.0, help="Changes of nodes per second.")
    ] = 500.0,
    seconds: Annotated[
        float, typer.Option(callback=finite, metavar="SECONDS", min=1.0, help="Duration under changes.")
    ] = 10.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    timeout: Annotated[float, typer.Option(callback=finite, metavar="SECONDS", min=1.0, help="Time limit.")] = 300.0,
    screenshots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Measure nothing: write the screenshots of the pages to DIR.")
    ] = None,
) -> None:
    """Measure the dashboard in a real Chromium, on a synthetic cluster.

    The state is synthetic; the metrics core, its HTTP server and the page are those of the service. Chromium is
    headless, 1920 by 1080 pixels, and is found in PATH or by DEVICESHARE_CHROMIUM.

    first_paint_seconds: from the arrival of the map's data until the browser has drawn the frame with the map, from the
    browser's trace. transferred_bytes: everything that was received until then and in the second after it.

    frames_per_second: frames that the browser has drawn according to its trace, at the given number of changes per
    second. stream_bytes_per_second: received meanwhile.
    """
    from deviceshare_lab.bench.ui import command, measure
    from deviceshare_lab.bench.ui import screenshots as pictures

    if screenshots is not None:
        screenshots.mkdir(parents=True, exist_ok=True)
        run_and_exit(pictures.take(screenshots, nodes, cards))
    run_and_exit(command.bench_ui(measure.Load(nodes, cards, changes, seconds), timeout, as_json=json))
