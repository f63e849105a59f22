"""The command line of ``deviceshare simulate``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Simulate the scheduler in virtual time.", no_args_is_help=True)


@app.command("fairness")
def fairness(
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
