"""Rules of every test run.

If ``CI`` is true, a skipped test fails: CI has everything that the tests need. A skip whose reason begins with
``allowed:`` stays a skip, for requirements that one machine cannot meet (another operating system).

The run ends at once if a compiled module is older than its source.

A shell that starts a run in the background ignores SIGINT for it; tests that send SIGINT need it as in the foreground.
"""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

STRICT = os.environ.get("CI", "").lower() in ("1", "true")
ALLOWED = "allowed:"
ROOT = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the repository's tests."""
    parser.addoption(
        "--rewrite-histories", action="store_true", help="write the output of the core into tests/placement/histories"
    )


def pytest_sessionstart() -> None:
    """Check the age of the compiled modules, and take SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for compiled in (*ROOT.glob("libs/*/src/*/*/*.so"), *ROOT.glob("lab/src/*/*/*.so")):
        for source in compiled.parent.glob(compiled.name.partition(".")[0] + ".p*"):
            if source.stat().st_mtime > compiled.stat().st_mtime:
                pytest.exit(f"{source} is newer than its compiled module: make setup", returncode=4)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Check the report of each test."""
    return _judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Check the report of each module, which may skip all of its tests."""
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
