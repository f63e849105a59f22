"""Run a command and end everything that it started, also what left its session.

``python guard.py FD COMMAND...``: FD is the read end of a pipe whose write end the caller holds open. When the command
has ended, or the pipe is closed because the caller wants to stop or was killed, all descendants are killed. The exit
status is that of the command, or 124 if it was stopped.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

STOPPED = 124
_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.05


def main(descriptor: int, command: list[str]) -> int:
    """Run the command; return its status, or STOPPED."""
    if sys.platform == "linux":  # Descendants whose parents have ended become our children.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(command, start_new_session=True)
    try:
        while process.poll() is None:
            if select.select([descriptor], [], [], _POLL_SECONDS)[0]:
                return STOPPED
        return process.returncode if process.returncode >= 0 else 128 - process.returncode
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the latter on macOS, if all are zombies
        os.killpg(process.pid, signal.SIGKILL)
    # Each process that dies leaves its children to us: until there are none.
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> list[int]:
    children = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = entry.read_text().partition(" (")
            if int(rest.rpartition(") ")[2].split()[1]) == os.getpid():
                children.append(int(pid))
    return children


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
