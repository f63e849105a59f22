"""Random histories with all faults that the product survives: no rule is broken."""

import os

import pytest
from deviceshare_cli.chaos.simulation import draw, play

HISTORIES = int(os.environ.get("DEVICESHARE_CHAOS_HISTORIES", "8"))
GROUP = 2


@pytest.mark.parametrize("group", range(HISTORIES // GROUP))
def test_no_rule_is_broken(group):
    for number in range(group * GROUP, (group + 1) * GROUP):
        played = play(draw(f"1.{number}"))
        assert played.violation is None, f"deviceshare chaos --simulated --seed 1.{number}: {played.violation}"
