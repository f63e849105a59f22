"""Running the asynchronous work of a command."""

from collections.abc import Coroutine
from typing import Any

import typer
import uvloop


def run_and_exit(work: Coroutine[Any, Any, int]) -> None:
    """Run a command and exit with the status that it returns."""
    raise typer.Exit(uvloop.run(work))
