"""A running ``up`` whose commands are called as users do, and a snapshot of it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = str(Path(sys.executable).parent / "deviceshare")


class System:
    """A running `up`, and a snapshot of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "DEVICESHARE_RUN_DIR": str(directory / "run"), "TMPDIR": str(directory)}
        self.snapshot = str(directory / "snapshot.json")

    def command(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [COMMAND, *arguments], capture_output=True, text=True, timeout=120, input=stdin, env=self.environment
        )

    def out(self, *arguments: str) -> str:
        done = self.command(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self, *arguments: str) -> list[list[str]]:
        return [line.split() for line in self.out(*arguments).splitlines()]


@contextmanager
def running_system(directory: Path, *options: str) -> Iterator[System]:
    """Run ``up`` with these options until its result is printed, and take a snapshot."""
    system = System(directory)
    output = system.directory / "up.out"
    with output.open("w") as file:
        process = subprocess.Popen(
            [COMMAND, "up", *options, "--metrics-port", "0"],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=system.environment,
        )
    try:
        until = time.monotonic() + 180
        while "NAMESPACE" not in output.read_text():
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.1)
        Path(system.snapshot).write_text(system.out("snapshot"))
        yield system
    finally:
        process.terminate()
        process.wait(20)
