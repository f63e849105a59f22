"""Supervision of child processes: restart with back-off, and failure of the system if a program keeps exiting.

Children end with this process, even on SIGKILL: Linux sends them SIGKILL when the thread that started them, here the
main thread, ends (``prctl(PR_SET_PDEATHSIG)``). On other systems they survive a SIGKILL of this process. Each child
has its own session: Ctrl-C reaches only this process, which stops the children in order.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deviceshare.model import Backoff
from deviceshare_bus.wire.tasks import end

from deviceshare_cli.errors import CommandError

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """A process to supervise; its output is appended to the file ``log``."""

    name: str
    command: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RestartPolicy:
    """Delay before a program is restarted, and the limit of restarts. Durations in seconds."""

    backoff: Backoff = Backoff(0.2, 5.0)  # noqa: RUF009 - immutable
    healthy: float = 10.0
    """A run of at least this length resets the back-off and the count of early exits."""
    early_deaths: int = 5
    """The supervisor fails after this number of consecutive shorter runs."""


class ProgramFailed(CommandError):
    """A program keeps exiting; the text has its exit status, the details are the end of its log."""


class Supervisor:
    """Starts, restarts and stops programs. ``report`` gets one line for each exit of a program."""

    def __init__(self, report: Callable[[str], None], policy: RestartPolicy | None = None) -> None:
        self._report = report
        self._policy = policy or RestartPolicy()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._failed.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running programs."""
        return {name: process.pid for name, process in self._processes.items() if process.returncode is None}

    async def start(self, program: Program) -> None:
        """Start a program and restart it when it exits."""
        process = await self._spawn(program)
        self._keepers[program.name] = asyncio.create_task(self._keep(program, process))

    def restart(self, name: str) -> None:
        """Send a program SIGTERM; it is restarted when it has ended."""
        process = self._processes.get(name)
        if process is not None and process.returncode is None:
            process.terminate()

    async def failed(self) -> None:
        """Wait until a program keeps exiting, then raise ProgramFailed."""
        await asyncio.shield(self._failed)

    async def stop(self, names: Sequence[str] | None = None, patience: float = 5.0) -> None:
        """Stop programs (all by default): SIGTERM, and SIGKILL after ``patience`` seconds."""
        chosen = [name for name in (list(self._keepers) if names is None else names) if name in self._keepers]
        keepers = [self._keepers.pop(name) for name in chosen]
        await end(*keepers)
        processes = [self._processes.pop(name) for name in chosen if name in self._processes]
        await asyncio.gather(*(_end(process, patience) for process in processes))

    async def _keep(self, program: Program, process: asyncio.subprocess.Process) -> None:
        loop = asyncio.get_running_loop()
        policy = self._policy
        restarts, early = 0, 0
        while True:
            started = loop.time()
            status = await process.wait()
            if loop.time() - started >= policy.healthy:
                restarts, early = 0, 0
            else:
                early += 1
            if early >= policy.early_deaths:
                if not self._failed.done():
                    self._failed.set_exception(
                        ProgramFailed(
                            f"{program.name} {exit_reason(status)}, the {_ordinal(early)} time "
                            f"within {policy.healthy:g} s of its start; the end of its log:",
                            tail(program.log),
                        )
                    )
                return
            delay = policy.backoff.delay(restarts)
            restarts += 1
            self._report(f"{program.name} {exit_reason(status)}, restarting in {delay:g} s")
            await asyncio.sleep(delay)
            process = await self._spawn(program)

    async def _spawn(self, program: Program) -> asyncio.subprocess.Process:
        with program.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *program.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **program.environment},
                start_new_session=True,
                preexec_fn=_end_with(os.getpid()),
            )
        self._processes[program.name] = process
        return process


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def exit_reason(status: int) -> str:
    """Return an exit status as the predicate of a sentence."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _ordinal(number: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")


async def _end(process: asyncio.subprocess.Process, patience: float) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(patience):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _end_with(parent: int) -> Callable[[], None] | None:
    """Return the function that a child runs before its program, to end with its parent."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # resolved before the fork: the child does as little as possible

    def in_child() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the call
            os._exit(1)

    return in_child
