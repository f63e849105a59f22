"""Says what is searched with, and how much was tried."""

import pytest
from fuzz.searching import EXAMPLES, SECONDS, SEED

tried: dict[str, int] = {}


@pytest.fixture
def tell() -> dict[str, int]:
    """Give where to enter how many inputs were tried, by search."""
    return tried


def pytest_report_header() -> str:
    """Say with what a search can be repeated."""
    length = f"{SECONDS:g} s in all" if SECONDS else f"{EXAMPLES} inputs each"
    return f"fuzz: {length}, FUZZ_SEED={SEED}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many inputs were tried where the time decided."""
    for name, count in tried.items():
        terminalreporter.write_line(f"{count:>8} inputs  {name}")
