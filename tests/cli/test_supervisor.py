"""Supervised programs are restarted, give up after several early exits, and end with their parent."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from deviceshare.model import Backoff
from deviceshare_cli.supervisor import Program, ProgramFailed, RestartPolicy, Supervisor
from support.processes import is_alive
from support.waiting import until


@asynccontextmanager
async def supervising(reported: list[str], policy: RestartPolicy | None = None) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(reported.append, policy)
    try:
        yield supervisor
    finally:
        await supervisor.stop()


async def test_a_killed_program_is_restarted_and_reported(tmp_path: Path) -> None:
    reported: list[str] = []
    async with supervising(reported, RestartPolicy(Backoff(0.01, 5.0))) as supervisor:
        await supervisor.start(Program("sleeper", ("sleep", "60"), tmp_path / "log"))
        first = supervisor.pids["sleeper"]
        os.kill(first, signal.SIGKILL)
        await until(lambda: supervisor.pids.get("sleeper", first) != first)
        assert reported == ["sleeper was killed by SIGKILL, restarting in 0.01 s"]
        second = supervisor.pids["sleeper"]
    assert not is_alive(second)


async def test_a_program_that_keeps_exiting_is_a_failure_with_its_log(tmp_path: Path) -> None:
    reported: list[str] = []
    command = (sys.executable, "-S", "-c", "import sys; print('no such option'); sys.exit(3)")
    async with supervising(reported, RestartPolicy(Backoff(0.01, 0.02), early_deaths=3)) as supervisor:
        await supervisor.start(Program("broken", command, tmp_path / "log"))
        async with asyncio.timeout(60):
            with pytest.raises(ProgramFailed, match="broken ended with status 3, the 3rd time ") as error:
                await supervisor.failed()
    assert "no such option" in error.value.details
    assert reported == [
        "broken ended with status 3, restarting in 0.01 s",
        "broken ended with status 3, restarting in 0.02 s",
    ]


async def test_a_healthy_run_resets_the_back_off(tmp_path: Path) -> None:
    reported: list[str] = []
    policy = RestartPolicy(Backoff(0.01, 1.0), healthy=0.0, early_deaths=2)
    async with supervising(reported, policy) as supervisor:
        await supervisor.start(Program("brief", ("true",), tmp_path / "log"))
        await until(lambda: len(reported) >= 4)
    assert set(reported) == {"brief ended with status 0, restarting in 0.01 s"}


async def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    supervisor = Supervisor(print)
    await supervisor.start(Program("stubborn", command, log))
    await until(lambda: log.exists() and "ready" in log.read_text())
    pid = supervisor.pids["stubborn"]
    began = time.monotonic()
    await supervisor.stop(patience=0.2)
    assert 0.2 <= time.monotonic() - began < 60
    assert not is_alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
async def test_programs_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = f"""
import asyncio
from pathlib import Path
from deviceshare.model import Backoff
from deviceshare_cli.supervisor import Program, Supervisor

async def main():
    supervisor = Supervisor(print)
    await supervisor.start(Program("sleeper", ("sleep", "60"), Path({str(tmp_path / "log")!r})))
    print(supervisor.pids["sleeper"], flush=True)
    await supervisor.failed()

asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    await parent.wait()
    await until(lambda: not is_alive(child))
