"""The command line of ``deviceshare simulate``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Simulate the scheduler in virtual time.", no_args_is_help=True)


@app.command("fairness")
def fairness(
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same pods.")] = 1,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the curves to this directory, one fairness-….svg for each scene."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show on a simulated cluster, in virtual time, that queues and jobs get their fair shares.

    Queues of different weights, two jobs with different requests, a large gang among small pods: docs/fairness.md
    describes each scene. The command needs no running system.

    The status is 1 if the claim of a scene does not hold.
    """
    from deviceshare_cli.output import indented_json
    from deviceshare_cli.plots import write
    from deviceshare_cli.simulate.fairness import as_text, scenes

    shown = list(scenes(seed))
    if plots is not None:
        for scene in shown:
            write(scene.plot, plots / f"fairness-{scene.name}.svg")
    report = {each.name: {"claim": each.claim, "holds": each.holds, **each.numbers} for each in shown}
    print(indented_json(report) if json else as_text(shown))
    raise typer.Exit(0 if all(scene.holds for scene in shown) else 1)
