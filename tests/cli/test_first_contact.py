"""`make run` and the end of `up`: what a newcomer sees."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make_in(directory: Path) -> dict[str, str]:
    """Make a directory in which only what `make` looks at is, and return the environment for `make` in it."""
    shutil.copy(ROOT / "Makefile", directory)
    for needed in (
        "requirements/uv.txt",
        "requirements/runtime.txt",
        "requirements/dev.txt",
        "libs/deviceshare/setup.py",
    ):
        (directory / needed).parent.mkdir(parents=True, exist_ok=True)
        (directory / needed).touch()
    for package in (*(ROOT / "libs").iterdir(), *(ROOT / "services").iterdir(), ROOT / "lab"):
        target = directory / package.relative_to(ROOT)
        target.mkdir(parents=True, exist_ok=True)
        (target / "pyproject.toml").touch()
    # Not as a part of the make that runs the tests.
    return {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_an_unsupported_python_is_one_line(tmp_path: Path) -> None:
    environment = make_in(tmp_path)
    old = program(tmp_path / "python3.9", 'test "$1" != --version || echo Python 3.9.2')
    for python, says in ((str(old), f"{old} is Python 3.9.2"), ("no-python", "no-python is not installed")):
        done = subprocess.run(
            ["make", "run", f"PYTHON={python}"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert f"Python 3.11 or later is required, {says}: name another one, such as `make run PYTHON=" in done.stderr


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *command: str, cwd: Path, environment: dict[str, str]) -> None:
        self.output = ""
        controller, terminal = pty.openpty()
        self._controller = controller
        self.process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
            preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(terminal)

    def read_until(self, text: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while text not in self.output:
            assert time.monotonic() < until, self.output
            if select.select([self._controller], [], [], 0.2)[0]:
                try:
                    self.output += os.read(self._controller, 65536).decode(errors="replace")
                except OSError:  # the command has ended
                    assert text in self.output, self.output
                    return

    def press(self, key: bytes) -> None:
        os.write(self._controller, key)

    def end(self) -> int:
        until = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < until:
            self.read_some()
        self.read_some()
        os.close(self._controller)
        return self.process.wait(1)

    def read_some(self) -> None:
        try:
            while select.select([self._controller], [], [], 0.2)[0]:
                self.output += os.read(self._controller, 65536).decode(errors="replace")
        except OSError:
            return


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.system
@pytest.mark.skipif(not (ROOT / ".venv" / ".ready").exists(), reason="make setup has not run here")
def test_ctrl_c_ends_make_run_with_the_last_table_and_no_error(tmp_path: Path) -> None:
    environment = {**os.environ, "DEVICESHARE_RUN_DIR": str(tmp_path / "run"), "TMPDIR": str(tmp_path), "TERM": "xterm"}
    # The installation is as old as its files: a checkout may have changed their times.
    terminal = Terminal("make", "-o", ".venv/.ready", "run", cwd=ROOT, environment=environment)
    terminal.read_until("settled", 60)
    before = len(terminal.output)
    terminal.press(b"\x03")
    status = terminal.end()
    last = terminal.output[before:]
    assert status == 0, last
    assert "NAMESPACE" in last
    assert "gpu-pod1" in last
    assert "***" not in last
    # The table is redrawn in place, by the terminal's own sequences.
    assert "\x1b[" in terminal.output
    assert "\\u001b" not in terminal.output
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.system
def test_a_killed_up_leaves_no_directory(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    environment = {**os.environ, "DEVICESHARE_RUN_DIR": str(tmp_path / "run"), "TMPDIR": str(tmp_path)}
    command = [
        str(Path(sys.executable).parent / "deviceshare"),
        "up",
        "--cluster",
        f"local:{manifests}",
        "--metrics-port",
        "0",
    ]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("logs "):
            assert process.poll() is None
        assert len(list(tmp_path.glob("deviceshare-*"))) == 1
        process.kill()
    until = time.monotonic() + 60
    while list(tmp_path.glob("deviceshare-*")) or list((tmp_path / "run").iterdir()):
        assert time.monotonic() < until, [*tmp_path.iterdir(), *(tmp_path / "run").iterdir()]
        time.sleep(0.1)


def test_on_a_terminal_each_step_of_the_setup_shows_how_far_it_is(tmp_path: Path) -> None:
    environment = make_in(tmp_path)
    program(tmp_path / ".venv/bin/python", "exit 0")
    program(tmp_path / ".venv/bin/uv", 'echo "uv $*" >&2; test ! -e broken')
    steps = ("1/3 the installer", "2/3 packages, nats-server among them", "3/3 deviceshare; compiling")
    shown = Terminal("make", "setup", cwd=tmp_path, environment=environment)
    assert shown.end() == 0, shown.output
    parts = [re.escape(step) for step in (*steps[:2], "uv pip install --python", steps[2], "uv pip install --python")]
    assert re.search(".*".join(parts), shown.output, re.DOTALL), shown.output
    (tmp_path / ".venv/.ready").unlink()
    quiet = subprocess.run(["make", "setup"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (quiet.returncode, quiet.stdout, quiet.stderr.count("uv pip install --quiet --python")) == (0, "", 2)
    # Nothing is said to be ready that is not.
    (tmp_path / ".venv/.ready").unlink()
    (tmp_path / "broken").touch()
    broken = subprocess.run(["make", "setup"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (broken.returncode, (tmp_path / ".venv/.ready").exists(), steps[2] in broken.stderr) == (2, False, False)
