"""The simulation finds bugs that are put into the product on purpose: here all that it finds within seconds."""

import pytest
from deviceshare_lab.chaos.simulation import play
from support import seeded_bugs

SLOW = ("ignore_roll_back", "retry_without_read_back")
FAST = [bug.__name__ for bug in seeded_bugs.BUGS if bug.__name__ not in SLOW]


@pytest.mark.parametrize("name", FAST)
def test_a_seeded_bug_is_found(name):
    bug = getattr(seeded_bugs, name)
    found = seeded_bugs.find(bug, 60.0)
    assert found.violation is not None, f"not found in {found.histories} histories"
    without = play(seeded_bugs.BUGS[bug](f"{name}.{found.histories - 1}"))
    assert without.violation is None, "the same history without the bug"


def test_a_late_binding_breaks_no_rule_without_the_bug():
    for number in range(3):
        assert play(seeded_bugs.requests_of_a_lost_node(f"late_binding.{number}")).violation is None
