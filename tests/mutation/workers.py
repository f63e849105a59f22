"""Run the tests of mutants on copies of the repository; the checkout is never written to."""

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

from mutation.guard import STOPPED
from mutation.mutants import Mutant

_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "node_modules")
_GUARD = Path(__file__).with_name("guard.py")
_FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - |$)", re.MULTILINE)


_BASELINE_TRIES = 3


class Verdict(StrEnum):
    """The verdict on a mutant."""

    KILLED = "killed"
    """A test failed."""
    SURVIVED = "survived"
    TIMEOUT = "timeout"
    """The tests did not end; not counted as killed."""
    INVALID = "invalid"
    """No test failed, but the tests could not run, since a module cannot be imported; not counted at all."""


@dataclass(frozen=True)
class Run:
    """One run of tests."""

    verdict: Verdict
    seconds: float
    test: str = ""
    """The first test that failed."""
    output: str = ""


class Stopped(Exception):
    """The measurement is to end."""


class Copy:
    """A copy of the repository, with or without its compiled kernels."""

    def __init__(self, root: Path, directory: Path, *, compiled: bool) -> None:
        self.root = directory
        self._held: int | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        shutil.copytree(root, directory, ignore=_LEFT_OUT, symlinks=True)
        for extension in () if compiled else directory.glob("libs/deviceshare/src/deviceshare/kernels/*.so"):
            extension.unlink()
        self._environment = os.environ | {
            # Our packages are installed in place, elsewhere; the paths of the copy come first.
            "PYTHONPATH": os.pathsep.join(str(path) for path in sorted(directory.glob("*/*/src"))),
            "CI": "true",  # properties are then tried with the same examples in each run
            "PYTHONPYCACHEPREFIX": "",
        }

    def baseline(self, tests: Sequence[Path]) -> Run:
        """Run tests without a mutant, which also compiles all modules; again if one fails on a busy machine."""
        for _ in range(_BASELINE_TRIES):
            run = self._run(tests, timeout=1200.0, environment=self._environment)
            if run.verdict is Verdict.SURVIVED:
                break
        return run

    def run(self, mutant: Mutant, tests: Sequence[Path], timeout: float, *, confirmed: bool) -> Run:
        """Run tests with a mutant; ``timeout`` in seconds.

        ``confirmed``: the test that fails has to fail a second time, and to pass without the mutant; otherwise the
        others decide.
        """
        unreliable: list[str] = []
        while True:
            run = self._run_mutant(mutant, tests, timeout, unreliable)
            if not confirmed or run.verdict is not Verdict.KILLED:
                return run
            fails_again = self._run_mutant(mutant, [Path(run.test)], timeout).verdict is Verdict.KILLED
            if fails_again and self._run([Path(run.test)], timeout, self._readonly).verdict is Verdict.SURVIVED:
                return run
            unreliable.append(run.test)

    @property
    def _readonly(self) -> dict[str, str]:
        return self._environment | {"PYTHONDONTWRITEBYTECODE": "1"}

    def _run_mutant(self, mutant: Mutant, tests: Sequence[Path], timeout: float, without: Sequence[str] = ()) -> Run:
        path = self.root / mutant.path
        before, status = path.read_bytes(), path.stat()
        try:
            path.write_text(mutant.code)
            # Python finds compiled code by the time of the source: the mutant's is new, its compiled code is not kept.
            os.utime(path, (status.st_atime, status.st_mtime + 10))
            return self._run(tests, timeout, self._readonly, without)
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _run(
        self, tests: Sequence[Path], timeout: float, environment: dict[str, str], without: Sequence[str] = ()
    ) -> Run:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=line", "-p", "no:cacheprovider"]
        command += ["--timeout=0", *(f"--deselect={test}" for test in without), *map(str, tests)]
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
