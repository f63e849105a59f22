"""Prometheus's promtool: ``PROMTOOL``, else the one that ``make promtool`` built, else that of ``PATH``."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BUILT = Path(__file__).parents[2] / ".cache" / "promtool" / "promtool"


def promtool(*arguments: str, text: str = "", directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool, or skip the test if there is none and none is expected."""
    named = os.environ.get("PROMTOOL")
    found = named or (str(BUILT) if BUILT.exists() else shutil.which("promtool"))
    if found is None:
        pytest.skip("allowed: there is no promtool (make promtool)")
    return subprocess.run([found, *arguments], input=text, cwd=directory, capture_output=True, text=True)


def lint(text: str) -> list[str]:
    """Return what ``promtool check metrics`` objects to, except to names and labels that are Volcano's."""
    checked = promtool("check", "metrics", text=text)
    assert checked.returncode in (0, 3), checked.stderr
    return [line for line in (checked.stdout + checked.stderr).splitlines() if not line.startswith("volcano_")]
