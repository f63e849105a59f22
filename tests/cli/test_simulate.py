"""The order of jobs is fair in the simulated scenes."""

import json
import xml.etree.ElementTree as ET

import pytest
from deviceshare_cli.main import app
from deviceshare_cli.simulate.fairness import dominant_shares, starvation, weights
from typer.testing import CliRunner


@pytest.mark.parametrize("seed", [1, 2])
def test_queues_get_their_deserved_shares_within_two_percent(seed):
    scene = weights(seed, nodes=8, hours=2.0)
    for name, deserved in (("one", 100 / 7), ("two", 200 / 7), ("four", 400 / 7)):
        assert scene.numbers[f"{name}_has_percent"] == pytest.approx(deserved, rel=0.02)
    (one, _, four) = scene.plot.curves
    assert one.points[15][1] > 95, "the first queue starts with the whole cluster"
    assert four.points[15][1] == 0
    assert scene.holds


def test_jobs_have_equal_dominant_shares_only_with_drf():
    scene = dominant_shares()
    cpus, cards = (curve.points[60:] for curve in scene.plot.curves[:2])
    assert max(abs(one - other) for (_, one), (_, other) in zip(cpus, cards, strict=True)) <= 2.0
    # Pods of 4 CPUs and of 1 CPU share 640 CPUs so that both jobs have equal dominant shares.
    assert cpus[-1][1] == pytest.approx(100 * 8 / 9, abs=2.0)
    assert scene.numbers["cards_has_percent_without"] > 90, "without drf the earlier job has all cards"
    assert scene.numbers["cpus_has_percent_without"] < 10


@pytest.mark.parametrize("seed", [1, 2])
def test_a_large_gang_starts_among_small_pods_only_with_the_guard(seed):
    scene = starvation(seed, nodes=8)
    # The guard's five minutes, and the longest run of a small pod.
    assert 300.0 <= scene.numbers["gang_waited_seconds_with_guard"] <= 300.0 + 900.0
    assert scene.numbers["gang_waited_seconds_without_guard"] == -1.0
    assert scene.holds


def test_the_command_reports_all_claims_and_writes_the_plots(tmp_path):
    result = CliRunner().invoke(app, ["simulate", "fairness", "--json", "--plots", str(tmp_path)])
    report = json.loads(result.stdout)
    assert {name: scene["holds"] for name, scene in report.items()} == dict.fromkeys(
        ("weights", "drf", "starvation"), True
    )
    assert result.exit_code == 0
    for name in report:
        root = ET.parse(tmp_path / f"fairness-{name}.svg").getroot()
        assert root.tag.endswith("svg")
