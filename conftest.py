"""Where ``CI`` is true a skipped test is a failed one: CI has all that the tests need, so nothing may go unseen.

A skip whose reason begins with ``allowed:`` stays a skip, for what one machine cannot have (another operating system).
"""

import os
from collections.abc import Generator
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

STRICT = os.environ.get("CI", "").lower() in ("1", "true")
ALLOWED = "allowed:"


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
