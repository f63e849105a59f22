"""``deviceshare chaos``: its options and help."""

from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def chaos(
    seed: Annotated[str, typer.Option(metavar="S", help="A number, from which all choices are derived.")] = "1",
    minutes: Annotated[float, typer.Option(metavar="M", min=0.0, help="The run ends after so many minutes.")] = 10.0,
    faults: Annotated[str, typer.Option(metavar="N", help="The run ends after so many faults.")] = "",
    kinds: Annotated[
        str, typer.Option(metavar="LIST", help="Names of faults, or all. [default: all that are survived]")
    ] = "",
    replicas: Annotated[
        str, typer.Option(metavar="LIST", help="Replicas such as placement=2,binder=2. [default: 1]")
    ] = "",
    longest: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="The longest duration of a fault, such as a pause.")
    ] = 60.0,
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="Time to converge after the faults of a round.")
    ] = 90.0,
    nodes: Annotated[int, typer.Option(metavar="N", min=2, help="Nodes of each device family.")] = 3,
) -> None:
    """Inject random faults into a system of real processes and check what must hold; status 1 after a violation."""
    from deviceshare_cli.chaos.real import command

    command.run(seed, minutes, faults, kinds, replicas, longest, patience, nodes)
