"""docs/policies.md and docs/fairness.md have a row for each policy that is registered."""

import re
from pathlib import Path

import pytest
from deviceshare.policies import POLICIES, QUEUE_POLICIES

DOCS = Path(__file__).parents[2] / "docs"


def names_in_column(page: str, heading: str, column: int) -> set[str]:
    """Return the names in a column of the tables of a section."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## )", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert section is not None
    rows = [row.split("|") for row in section[1].splitlines() if row.startswith("|")]
    return {name for row in rows for name in re.findall(r"`([a-z-]+)`", row[column + 1])}


@pytest.mark.parametrize("policy", POLICIES)
def test_each_card_policy_has_a_row(policy):
    assert policy in names_in_column("policies.md", "Select a policy", 0)


@pytest.mark.parametrize("policy", QUEUE_POLICIES)
def test_each_queue_policy_has_a_row(policy):
    assert policy in names_in_column("fairness.md", "The rules", 1)
