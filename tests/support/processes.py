"""The state of processes, for tests."""

import os
import time
from collections.abc import Iterable
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether a process runs; a process that has ended and is not reaped yet does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_until_dead(pids: Iterable[int], seconds: float = 60.0) -> None:
    """Wait until none of the processes runs."""
    until = time.monotonic() + seconds
    while living := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < until, f"still alive: {living}"
        time.sleep(0.02)
