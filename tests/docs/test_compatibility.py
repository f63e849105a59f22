"""docs/compatibility.md lists all deviations, the known defects of Volcano, and the tests of our behaviour."""

import re
from pathlib import Path

import pytest
from deviceshare_lab.conformance.cases import read_file
from deviceshare_lab.conformance.deviations import DEVIATIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
TESTS = "\n".join(file.read_text() for file in (ROOT / "tests" / "library").glob("*.py"))


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the rows of the table under a heading."""
    part = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = [each for each in part if each.startswith(f"{heading}\n")]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_each_deviation_has_a_complete_row() -> None:
    found = rows("Deliberate differences")
    assert [row[0].strip("`") for row in found] == [deviation.name for deviation in DEVIATIONS]
    assert all(len(row) == 4 and all(row) for row in found)


def test_each_defect_that_cases_name_has_a_row() -> None:
    files = [read_file(path) for path in sorted((ROOT / "tests" / "data" / "golden").glob("*.jsonl.gz"))]
    named = {code for file in files for _, case in file.cases for code in case.quirks}
    assert len(named) >= 15
    codes = {row[0].strip("`") for row in rows("Known defects")}
    assert named <= codes
    assert {deviation.code for deviation in DEVIATIONS if deviation.code} <= codes


@pytest.mark.parametrize("row", rows("Known defects"), ids=lambda row: row[0].strip("`"))
def test_each_defect_has_a_test_of_our_behaviour(row: list[str]) -> None:
    code, volcano, ours, test = row
    assert f"def {test.strip('`')}(" in TESTS
    if not ours:
        (deviation,) = [each for each in DEVIATIONS if each.code == code.strip("`")]
        assert volcano == f"see `{deviation.name}`"
