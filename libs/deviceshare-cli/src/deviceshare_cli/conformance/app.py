"""The command line of ``deviceshare conformance``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


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
