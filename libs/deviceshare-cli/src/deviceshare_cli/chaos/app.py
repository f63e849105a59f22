"""``deviceshare chaos``: its options and help."""

import os
from typing import Annotated

import typer

from deviceshare_cli.errors import CommandError

app = typer.Typer()


@app.command()
def chaos(
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Simulate the whole system in one process, in virtual time.")
    ] = False,
    seed: Annotated[
        str, typer.Option(metavar="S", help="A number; or the seed of one history, as a violation names it.")
    ] = "1",
    hours: Annotated[float, typer.Option(metavar="H", min=0.0, help="Simulated hours to play, at least.")] = 1.0,
    histories: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Play so many histories instead of --hours.")
    ] = None,
    replicas: Annotated[
        str, typer.Option(metavar="LIST", help="Replicas such as placement=3,binder=2. [default: drawn by history]")
    ] = "",
    faults: Annotated[
        str, typer.Option(metavar="LIST", help="Names of faults, or all. [default: all that are survived]")
    ] = "",
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")] = os.cpu_count() or 1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the text of a single history.")] = False,
) -> None:
    """Play random histories of faults and check what must hold in each of them; status 1 after a violation."""
    from deviceshare_cli.chaos import command

    if not simulated:
        raise CommandError("chaos needs --simulated")
    if not all(part.isdecimal() for part in seed.split(".")):
        raise CommandError(f"--seed {seed!r} is not valid: expected NUMBER or NUMBER.NUMBER")
    names = command.parse_faults(faults) if faults else None
    options = command.Options(command.parse_replicas(replicas), names)
    raise typer.Exit(command.simulated(seed, hours, histories, options, jobs, verbose=verbose))
