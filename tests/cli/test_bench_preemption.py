"""`deviceshare lab bench preemption`: a group gets victims, and one of the lowest priority none."""

import json

import pytest
from deviceshare_cli.main import app
from typer.testing import CliRunner


@pytest.mark.parametrize("family", ["hami-core", "mig", "vnpu-hami"])
def test_pods_go_for_all_groups_but_that_of_the_lowest_priority_and_where_budgets_allow_too_few(family):
    options = ["--nodes", "20", "--decisions", "2", "--family", family]
    done = CliRunner().invoke(app, ["lab", "bench", "preemption", *options, "--json"])
    assert not done.exception
    groups = json.loads(done.output)["groups"]
    assert {name: bool(each["victims"]) for name, each in groups.items()} == {
        "one card": True,
        "eight cards": True,
        "gang of 64": True,
        "no pod may be evicted": False,
        "budget allows none": False,
        "budget allows one": False,
    }
    assert groups["one card"]["victims"] == 1
    assert groups["eight cards"]["victims"] <= 8
    assert 32 <= groups["gang of 64"]["victims"] <= 64
    assert all(0 < each["milliseconds_p50"] <= each["milliseconds_max"] for each in groups.values())
    shown = CliRunner().invoke(app, ["lab", "bench", "preemption", *options]).output
    assert "gang of 64" in shown
