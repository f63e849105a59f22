"""Removal of a system's files after its process was killed."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

# Reads until the writing end of the pipe, which only `up` has, is closed: by `up`, or by its death. The other processes
# are killed with `up` (supervisor.py), and may write for a moment longer.
_SCRIPT = """
read -r _
sleep 1
rm -rf -- "$1" || { sleep 2; rm -rf -- "$1"; }
rm -f -- "$2/run-$3.json"
grep -q "\\"pid\\": $3," "$2/run.json" 2>/dev/null && rm -f -- "$2/run.json"
"""


@asynccontextmanager
async def removed_after_death(directory: Path, run_directory: Path) -> AsyncIterator[None]:
    """Remove the directory, and the run files of this process, if this process is killed within the context."""
    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", _SCRIPT, "sh", str(directory), str(run_directory), str(os.getpid()),
            stdin=reading, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(reading)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(writing)
