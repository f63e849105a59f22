"""Running the asynchronous work of a command."""

from collections.abc import Coroutine
from typing import Any

import typer
import uvloop


def run_and_exit(work: Coroutine[Any, Any, int]) -> None:
    """Run a command and exit with the status that it returns; 130, as usual, after Ctrl-C."""
    try:
        status = uvloop.run(work)
    except KeyboardInterrupt:
        status = 130
    raise typer.Exit(status)
