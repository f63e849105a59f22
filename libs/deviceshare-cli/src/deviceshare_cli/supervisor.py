"""Keeping child processes alive: what dies is started again, what cannot live ends the whole, and nothing outlives us.

Children die with this process, even where it is killed with SIGKILL: Linux sends them SIGKILL when the thread that
started them ends (``prctl(PR_SET_PDEATHSIG)``), which here is the main thread. Other systems have no such call; there
a SIGKILL of this process leaves them behind. Each child has a session of its own, so that Ctrl-C reaches only us and
they are ended in order.
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
from deviceshare_bus.tasks import end

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """A process to keep alive; everything that it prints is appended to the file ``log``."""

    name: str
    command: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RestartPolicy:
    """How long to wait before a program is started again, and when to give up. Seconds."""

    backoff: Backoff = Backoff(0.2, 5.0)  # noqa: RUF009 - immutable
    healthy: float = 10.0
    """A life of this length makes the past forgotten."""
    early_deaths: int = 5
    """So many shorter lives in a row are enough."""


class CannotLive(Exception):
    """A program dies again and again; the text says how, and shows the end of its log."""


class Supervisor:
    """Starts programs, starts them again, ends them. ``say`` gets one line whenever a program has died."""

    def __init__(self, say: Callable[[str], None], policy: RestartPolicy | None = None) -> None:
        self._say = say
        self._policy = policy or RestartPolicy()
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._failed.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def pids(self) -> dict[str, int]:
        """The programs that live now and their process ids."""
        return {name: process.pid for name, process in self._processes.items() if process.returncode is None}

    async def start(self, program: Program) -> None:
        """Start a program and keep it alive from now on."""
        process = await self._spawn(program)
        self._keepers[program.name] = asyncio.create_task(self._keep(program, process))

    async def failed(self) -> None:
        """Wait for ever; raises CannotLive as soon as a program cannot be kept alive."""
        await asyncio.shield(self._failed)

    async def stop(self, names: Sequence[str] | None = None, patience: float = 5.0) -> None:
        """End programs (all by default): SIGTERM, then SIGKILL where that was not enough after ``patience`` seconds."""
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
                        CannotLive(
                            f"{program.name} {how_it_ended(status)}, the {_ordinal(early)} time "
                            f"within {policy.healthy:g} s of its start; the end of its log:\n{tail(program.log)}"
                        )
                    )
                return
            delay = policy.backoff.delay(restarts)
            restarts += 1
            self._say(f"{program.name} {how_it_ended(status)}, starting it again in {delay:g} s")
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
                preexec_fn=_dying_with(os.getpid()),
            )
        self._processes[program.name] = process
        return process


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def how_it_ended(status: int) -> str:
    """Return what an exit status means, as part of a sentence."""
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


def _dying_with(parent: int) -> Callable[[], None] | None:
    """Return what a child runs before its program so that it dies with its parent."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up here: a child of a fork should do as little as it can

    def in_child() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before the call
            os._exit(1)

    return in_child
