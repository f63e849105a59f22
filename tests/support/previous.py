"""The build of an earlier commit, from the history of this repository: its packages, run by this environment."""

import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMIT = os.environ.get("DEVICESHARE_PREVIOUS", "af1d8fc8e12dcbcde3d1c0993cff6fb20433009d")
"""The last commit before the bus had users; a release replaces it by its tag."""


def unpack(directory: Path, commit: str = COMMIT) -> str:
    """Unpack the packages of a commit, and return the ``PYTHONPATH`` by which they are found before the installed ones.

    Skips the test where the history is not there, as in an archive of the sources.
    """
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "libs", "services"], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"allowed: commit {commit} is not in the history of this checkout: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return os.pathsep.join(str(path) for path in sorted(directory.glob("*/*/src")))
