"""Report the settings of the searches and the number of inputs tried."""

import pytest
from fuzz.searching import EXAMPLES, SECONDS, SEED

tried: dict[str, int] = {}


@pytest.fixture
def report() -> dict[str, int]:
    """Return the number of inputs tried, by search, for tests to fill in."""
    return tried


def pytest_report_header() -> str:
    """Return the settings with which a search can be repeated."""
    length = f"{SECONDS:g} s in all" if SECONDS else f"{EXAMPLES} inputs each"
    return f"fuzz: {length}, FUZZ_SEED={SEED}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the number of inputs of searches that were limited by time."""
    for name, count in tried.items():
        terminalreporter.write_line(f"{count:>8} inputs  {name}")
