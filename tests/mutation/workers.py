"""Run the tests of mutants on copies of the repository; the checkout is never written to."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mutation import selection
from mutation.guard import STOPPED
from mutation.mutants import Mutant
from mutation.selection import Recording

_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "node_modules")
_PLUGIN = Path(__file__).with_name("plugin")
_GUARD = Path(__file__).with_name("guard.py")
_FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - |$)", re.MULTILINE)


_BASELINE_TRIES = 3
TEST_TIMEOUT = 60.0
"""Seconds after which a test that hangs has failed, in addition to five times what it takes without a mutant.

In ``make test`` a test that hangs fails as well.
"""
MIN_TIMEOUT = 40.0
"""Seconds to start the tests on a busy machine."""


class Verdict(StrEnum):
    """The verdict on a mutant."""

    KILLED = "killed"
    """A test failed."""
    SURVIVED = "survived"
    TIMEOUT = "timeout"
    """The tests did not end; not counted as killed."""
    INVALID = "invalid"
    """No test failed, but the tests could not run, since a module cannot be imported; not counted at all."""
    EQUIVALENT = "equivalent"
    """No test failed, and :mod:`.equivalent` says why none can; not counted at all."""


@dataclass(frozen=True)
class Run:
    """One run of tests."""

    verdict: Verdict
    seconds: float
    test: str = ""
    """The first test that failed."""
    output: str = ""


def _sources(root: Path) -> list[Path]:
    """Return the directories of our packages, sorted."""
    return sorted([root / "lab" / "src", *root.glob("*/*/src")])


class Stopped(Exception):
    """The measurement is to end."""


class Copy:
    """A copy of the repository, with or without its compiled modules."""

    def __init__(self, root: Path, directory: Path, *, compiled: bool) -> None:
        self.root = directory
        self._held: int | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        shutil.copytree(root, directory, ignore=_LEFT_OUT, symlinks=True)
        for source in () if compiled else _sources(directory):
            for extension in source.glob("*/*/*.so"):
                extension.unlink()
        self._environment = os.environ | {
            # Our packages are installed in place, elsewhere; the paths of the copy come first.
            "PYTHONPATH": os.pathsep.join([*map(str, _sources(directory)), str(_PLUGIN)]),
            "CI": "true",  # properties are then tried with the same examples in each run
            "PYTHONPYCACHEPREFIX": "",
        }

    def baseline(self, tests: Sequence[Path]) -> tuple[Run, Recording]:
        """Run tests without a mutant, and record which of them runs which lines; again if one fails on a busy machine.

        It also compiles all modules.
        """
        recorded = self.root / "recording.json"
        sources = os.pathsep.join(map(str, _sources(self.root)))
        environment = self._environment | {"MUTATION_RECORD": str(recorded), "MUTATION_SOURCES": sources}
        for _ in range(_BASELINE_TRIES):
            run = self._run(["--timeout=0", *map(str, tests)], timeout=1800.0, environment=environment)
            if run.verdict is Verdict.SURVIVED:
                return run, selection.read(recorded)
        return run, Recording({}, {})

    def run(self, mutant: Mutant, recording: Recording, *, confirmed: bool) -> Run:
        """Run the tests that concern a mutant.

        ``confirmed``: the test that fails has to fail a second time, and to pass without the mutant; otherwise the
        others decide.
        """
        tests = recording.tests(self.root, mutant.path, mutant.line)
        while True:
            run = self._run_mutant(mutant, tests, recording)
            if not confirmed or run.verdict is not Verdict.KILLED:
                return run
            fails_again = self._run_mutant(mutant, [run.test], recording).verdict is Verdict.KILLED
            if fails_again and self._run([run.test], 600.0, self._readonly).verdict is Verdict.SURVIVED:
                return run
            tests = [test for test in tests if test != run.test]
            if not tests:
                return Run(Verdict.SURVIVED, run.seconds, output=run.output)

    @property
    def _readonly(self) -> dict[str, str]:
        return self._environment | {"PYTHONDONTWRITEBYTECODE": "1"}

    def _run_mutant(self, mutant: Mutant, tests: Sequence[str], recording: Recording) -> Run:
        chosen = self.root / "selection.json"
        chosen.write_text(json.dumps(tests))
        environment = self._readonly | {"MUTATION_SELECTION": str(chosen)}
        seconds = [recording.seconds[test] for test in tests]
        of_test = TEST_TIMEOUT + 5 * max(seconds)
        timeout = MIN_TIMEOUT + of_test + 5 * sum(seconds)
        path = self.root / mutant.path
        before, status = path.read_bytes(), path.stat()
        try:
            path.write_text(mutant.code)
            # Python finds compiled code by the time of the source: the mutant's is new, its compiled code is not kept.
            os.utime(path, (status.st_atime, status.st_mtime + 10))
            return self._run([f"--timeout={of_test:.0f}", *selection.files(tests)], timeout, environment)
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _run(self, arguments: Sequence[str], timeout: float, environment: dict[str, str]) -> Run:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=line", "-p", "no:cacheprovider"]
        command += ["-p", "mutation_plugin", *arguments]
        begun = time.monotonic()
        # The guard ends what the tests have started, also if we are killed: then nothing holds the pipe open.
        watched, held = os.pipe()
        with self._lock:
            self._held = held
        if self._stopped.is_set():
            self._end()
        guarded = [sys.executable, str(_GUARD), str(watched), *command]
        try:
            with subprocess.Popen(
                guarded, cwd=self.root, env=environment, text=True, errors="replace", start_new_session=True,
                pass_fds=(watched,), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            ) as process:  # fmt: skip
                os.close(watched)
                timer = threading.Timer(timeout, self._end)
                timer.start()
                output, _ = process.communicate()
                timer.cancel()
                timer.join()  # or it might end the next run
        finally:
            self._end()
        seconds = time.monotonic() - begun
        if self._stopped.is_set():
            raise Stopped
        return _judge(process.returncode, output, seconds)

    def stop(self) -> None:
        """End the tests that run, and let all further ones raise Stopped; from any thread."""
        self._stopped.set()
        self._end()

    def _end(self) -> None:
        with self._lock:
            if self._held is not None:
                os.close(self._held)
                self._held = None


def _judge(status: int, output: str, seconds: float) -> Run:
    failed = _FAILED_TEST.search(output)
    if status == STOPPED:
        return Run(Verdict.TIMEOUT, seconds, output=output)
    if status == 0:
        return Run(Verdict.SURVIVED, seconds, output=output)
    if failed and status == 1:
        return Run(Verdict.KILLED, seconds, failed[1], output)
    return Run(Verdict.INVALID, seconds, output=output)
