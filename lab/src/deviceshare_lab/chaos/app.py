"""``deviceshare lab chaos``: its options and help."""

import os
from typing import Annotated, Literal

import typer
from deviceshare_cli.errors import CommandError
from deviceshare_cli.numbers import finite
from deviceshare_cli.replicas import parse_replicas

from deviceshare_lab.chaos.real.options import PACE, PATIENCE, Options
from deviceshare_lab.chaos.sizes import SIZES

app = typer.Typer()


SIMULATED = ("hours", "histories", "size", "jobs", "verbose")
"""Options of simulated histories only."""
REAL = ("minutes", "pace", "kinds", "longest", "patience", "nodes", "bus", "preempt")
"""Options of chaos on real processes only."""


@app.command()
def chaos(
    context: typer.Context,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Simulate the whole system in one process, in virtual time.")
    ] = False,
    seed: Annotated[
        str, typer.Option(metavar="S", help="A number; or the seed of one history, as a violation names it.")
    ] = "1",
    hours: Annotated[
        float, typer.Option(callback=finite, metavar="H", min=0.0, help="Simulated hours to play, at least.")
    ] = 1.0,
    histories: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Play so many histories instead of --hours.")
    ] = None,
    replicas: Annotated[
        str, typer.Option(metavar="LIST", help="Replicas such as placement=3,binder=2. [default: 1; simulated: drawn]")
    ] = "",
    faults: Annotated[
        str,
        typer.Option(
            metavar="LIST|N",
            help="Simulated: names of faults. [default: all] Else: their number.",
        ),
    ] = "",
    size: Annotated[
        str, typer.Option(metavar="SIZE", help="Simulated: small, medium or full. [default: drawn, mostly small]")
    ] = "",
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = os.cpu_count() or 1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the text of a single history.")] = False,
    minutes: Annotated[
        float,
        typer.Option(
            callback=finite, metavar="M", min=0.0, help="Real processes: end after so many minutes, or --faults."
        ),
    ] = 10.0,
    pace: Annotated[
        float,
        typer.Option(
            callback=finite, metavar="SECONDS", min=0.1, help="Real processes: time between two faults, on average."
        ),
    ] = PACE,
    kinds: Annotated[str, typer.Option(metavar="LIST", help="Real processes: names of faults. [default: all]")] = "",
    longest: Annotated[
        float,
        typer.Option(
            callback=finite, metavar="SECONDS", min=0.1, help="Real processes: the longest duration of a fault."
        ),
    ] = 60.0,
    patience: Annotated[
        float,
        typer.Option(
            callback=finite, metavar="SECONDS", min=1.0, help="Real processes: time to settle after a group of faults."
        ),
    ] = PATIENCE,
    nodes: Annotated[int, typer.Option(metavar="N", min=2, help="Real processes: nodes of each family.")] = 3,
    bus: Annotated[
        Literal["users", "open"],
        typer.Option(help="Real processes: every client of the bus is a user with its own rights, or there are none."),
    ] = "users",
    preempt: Annotated[
        bool, typer.Option("--preempt", help="Real processes: the nodes are full of pods that go for others.")
    ] = False,
) -> None:
    """Inject random faults and check what must hold; status 1 after a violation.

    Without --simulated, faults hit the processes of a system that is started for it. They come in groups during a
    workload; after each group the system must settle. A checker runs all the time. With --simulated, histories of a
    model are played.
    """
    for name in REAL if simulated else SIMULATED:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise CommandError(f"--{name} is not an option {'with' if simulated else 'without'} --simulated")
    if not simulated:
        from deviceshare_lab.chaos.real import command as real

        numbers = Options(1, minutes * 60, None, (), pace, {}, longest, patience, nodes, bus == "users", preempt)
        real.run(seed, faults, kinds, replicas, numbers)
    from deviceshare_lab.chaos import command

    if not all(part.isdecimal() for part in seed.split(".")):
        raise CommandError(f"--seed {seed!r} is not valid: expected NUMBER or NUMBER.NUMBER")
    names = command.parse_faults(faults) if faults else None
    if size not in ("", *SIZES):
        raise CommandError(f"--size {size!r} is not valid: expected {', '.join(SIZES)}")
    options = command.Options(parse_replicas(replicas), names, size or None)
    raise typer.Exit(command.simulated(seed, hours, histories, options, jobs, verbose=verbose))
