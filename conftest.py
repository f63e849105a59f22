"""What holds for every run of the tests.

Where ``CI`` is true a skipped test is a failed one: CI has all that the tests need, so nothing may go unseen. A skip
whose reason begins with ``allowed:`` stays a skip, for what one machine cannot have (another operating system).

Kernels that are older than their source are not tested: they are not what stands there.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

STRICT = os.environ.get("CI", "").lower() in ("1", "true")
ALLOWED = "allowed:"
KERNELS = Path(__file__).parent / "libs" / "deviceshare" / "src" / "deviceshare" / "kernels"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the repository's tests."""
    parser.addoption(
        "--rewrite-histories", action="store_true", help="write the output of the core into tests/placement/histories"
    )


def pytest_sessionstart() -> None:
    """Look at the kernels first."""
    for compiled in KERNELS.glob("*.so"):
        for source in KERNELS.glob(compiled.name.partition(".")[0] + ".p*"):
            if source.stat().st_mtime > compiled.stat().st_mtime:
                pytest.exit(f"{source} is newer than what was compiled of it: make setup", returncode=4)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Look at each test."""
    return _judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Look at each module: it may skip all of its tests at once."""
    return _judged((yield))


def _judged(report: Report) -> Report:
    if not STRICT or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return report
    where = report.longrepr
    reason = where[2].removeprefix("Skipped: ") if isinstance(where, tuple) else str(where)
    if not reason.startswith(ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"skipped, which in CI is a failure: {reason}"
    return report
