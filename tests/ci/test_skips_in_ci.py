"""In CI a skipped test fails unless its reason permits it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="no nats-server here")
def test_by_mark():
    pass

def test_by_call():
    pytest.skip("no nats-server here")

@pytest.mark.skip(reason="allowed: needs another system")
def test_allowed():
    pass

@pytest.mark.xfail(reason="known", strict=True)
def test_expected_to_fail():
    assert False
"""
MODULE = """
import pytest

pytest.skip("no nats-server here", allow_module_level=True)
"""


def outcomes(directory: Path, ci: str) -> tuple[int, dict[str, int]]:
    """Run pytest on the directory; return its status and how many tests ended in each way."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(directory), str(directory)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "CI": ci},
        cwd=directory,
    )
    counts = re.findall(r"(\d+) (passed|failed|skipped|xfailed|error)", done.stdout.splitlines()[-1])
    return done.returncode, {outcome: int(number) for number, outcome in counts}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_functions.py").write_text(TESTS)
    return tmp_path


def test_in_ci_skips_fail_unless_they_are_allowed(directory):
    assert outcomes(directory, "true") == (1, {"passed": 1, "failed": 1, "error": 1, "skipped": 1, "xfailed": 1})


def test_elsewhere_skips_are_skips(directory):
    assert outcomes(directory, "") == (0, {"passed": 1, "skipped": 3, "xfailed": 1})


def test_in_ci_a_module_cannot_skip_itself(tmp_path):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_module.py").write_text(MODULE)
    status, counts = outcomes(tmp_path, "true")
    assert (status, counts) == (2, {"error": 1})
