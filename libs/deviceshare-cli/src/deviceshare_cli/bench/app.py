"""The command line of ``deviceshare bench``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deviceshare_cli.exit_status import run_and_exit

app = typer.Typer(help="Measure the system on this machine.", no_args_is_help=True)


@app.command("bus")
def bus(
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

    run_and_exit(command.bench_bus(nodes, pods, devices, timeout, as_json=json, with_floor=floor))


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


@app.command("kube")
def kube(
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

    run_and_exit(command.bench_kube(measure.Size(nodes, pods, in_flight), timeout, as_json=json))


@app.command("allocator")
def allocator(
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


@app.command("curve")
def curve(
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
