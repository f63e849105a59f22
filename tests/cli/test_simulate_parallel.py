"""Runs of a simulation on several cores: workers that are killed, and workers of a command that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_lab.studies.parallel import run_all

SLEEPING = """
import time
from deviceshare_lab.studies.parallel import run_all
if __name__ == "__main__":
    run_all(time.sleep, [120, 120], 2)
"""


def test_results_are_in_the_order_of_the_tasks():
    assert run_all(abs, [-1, 2, -3], 2) == run_all(abs, [-1, 2, -3], 1) == [1, 2, 3]


def test_a_killed_worker_is_an_error_of_one_line():
    with pytest.raises(CommandError, match="a worker process was killed, maybe for want of memory: --jobs 1 needs"):
        run_all(os._exit, [1, 1], 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command(tmp_path, number):
    script = tmp_path / "sleeping.py"
    script.write_text(SLEEPING)
    with subprocess.Popen([sys.executable, script], start_new_session=True, stderr=subprocess.DEVNULL) as command:
        wait_until(lambda: len(members(command.pid)) >= 3)
        time.sleep(1.0)
        os.kill(command.pid, number)
        command.wait()
        wait_until(lambda: not members(command.pid))


def members(session: int) -> list[int]:
    """Return the processes of a session, but for those that ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def wait_until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
