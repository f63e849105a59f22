"""Random histories with all faults: no rule is broken."""

import os

import pytest
from deviceshare_cli.chaos.command import Options, simulated
from deviceshare_cli.chaos.faults import FAULTS
from deviceshare_cli.chaos.simulation import draw

HISTORIES = int(os.environ.get("DEVICESHARE_CHAOS_HISTORIES", "1500"))


@pytest.mark.timeout(1800)
def test_no_rule_is_broken(capsys):
    status = simulated("1", 0.0, HISTORIES, Options({}, None), os.cpu_count() or 1)
    said = capsys.readouterr().out
    assert status == 0, said
    assert said.splitlines()[-1].endswith(" 0 violations")


def test_every_history_has_a_fault():
    for number in range(200):
        scenario = draw(f"1.{number}")
        assert any(step.action.lstrip("+") in FAULTS for step in scenario.steps)
