"""A running ``deviceshare up``, and commands on it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = str(Path(sys.executable).parent / "deviceshare")
EXAMPLES = Path(__file__).parents[2] / "examples"
UP_SECONDS, COMMAND_SECONDS = 100.0, 350.0
"""The longest time until pods are shown, and of a command."""


class UpSystem:
    """A running ``up``; :func:`running_up` starts it. ``directory`` has its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "DEVICESHARE_RUN_DIR": str(directory / "run"), "TMPDIR": str(directory)}

    def command(
        self, *arguments: str, stdin: str = "", directory: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command, in a directory if one is named."""
        return subprocess.run(
            [COMMAND, *arguments],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            input=stdin,
            env=self.environment,
            cwd=directory,
        )

    def out(self, *arguments: str, stdin: str = "") -> str:
        """Return the output of a command that succeeds."""
        done = self.command(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def running_up(system: UpSystem, *options: str) -> Iterator[None]:
    """Run ``up`` with options; within the context the first pods were shown."""
    output = system.directory / "up.out"
    with output.open("w") as file:
        process = subprocess.Popen(
            [COMMAND, "up", "--metrics-port", "0", *options],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=system.environment,
        )
    try:
        until = time.monotonic() + UP_SECONDS
        while "NAMESPACE" not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(20)
