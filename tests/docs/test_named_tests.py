"""The tests that the pages name exist, and each row of the failure table names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FILES = {path.name for path in (ROOT / "tests").rglob("*.py")}
NAMED = re.compile(r"`((?:tests/[\w/]*|test_\w+)(?:\.py)?)`")


def failures() -> list[str]:
    """Return the rows of the failure table."""
    text = (ROOT / "docs" / "architecture.md").read_text().partition("\n## Failures\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 10
    return rows[2:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_test_exists(page: Path) -> None:
    for name in NAMED.findall(page.read_text()):
        if "/" in name:
            assert (ROOT / name).exists(), name
        elif name.endswith(".py"):
            assert name in FILES, name


@pytest.mark.parametrize("row", failures(), ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_failure_names_its_test(row: str) -> None:
    assert any(name.endswith(".py") for name in NAMED.findall(row)), row
