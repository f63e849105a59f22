"""The order of jobs is fair in the simulated scenes, small ones, and the command reports them."""

import json
import xml.etree.ElementTree as ET
from functools import cache

import pytest
from deviceshare.conf import default_conf
from deviceshare.model import QueueFact
from deviceshare_cli.main import app
from deviceshare_lab.studies import fairness
from deviceshare_lab.studies.fairness import dominant_shares, starvation, weights
from deviceshare_lab.studies.pipeline import Costs, Layout, simulate
from deviceshare_lab.studies.virtual_cluster import Arrival, Simulation
from support.builders import ask, container, node
from typer.testing import CliRunner


def have_their_deserved_shares(numbers):
    shares = (("one", 100 / 7), ("two", 200 / 7), ("four", 400 / 7))
    return all(numbers[f"{name}_has_percent"] == pytest.approx(deserved, rel=0.02) for name, deserved in shares)


def starts_with_the_guard(numbers):
    """Return whether the gang waits for the guard's five minutes, and at most the longest run of a small pod."""
    waited = (numbers["gang_waited_seconds_with_guard"], numbers["gang_waited_seconds_without_guard"])
    return 300.0 <= waited[0] <= 300.0 + 900.0 and waited[1] == -1.0


@cache
def small_scenes():
    return weights(2, nodes=8, hours=1.0), dominant_shares(), starvation(2, nodes=8)


def test_queues_get_their_deserved_shares_within_two_percent():
    scene, _, _ = small_scenes()
    assert have_their_deserved_shares(scene.numbers)
    (one, _, four) = scene.plot.curves
    assert one.points[9][1] > 95, "the first queue starts with the whole cluster"
    assert four.points[9][1] == 0
    assert scene.holds


def test_jobs_have_equal_dominant_shares_only_with_drf():
    _, scene, _ = small_scenes()
    cpus, cards = (curve.points[60:] for curve in scene.plot.curves[:2])
    assert max(abs(one - other) for (_, one), (_, other) in zip(cpus, cards, strict=True)) <= 2.0
    # Pods of 4 CPUs and of 1 CPU share 640 CPUs so that both jobs have equal dominant shares.
    assert cpus[-1][1] == pytest.approx(100 * 8 / 9, abs=2.0)
    assert scene.numbers["cards_has_percent_without"] > 90, "without drf the earlier job has all cards"
    assert scene.numbers["cpus_has_percent_without"] < 10


def test_a_large_gang_starts_among_small_pods_only_with_the_guard():
    _, _, scene = small_scenes()
    assert starts_with_the_guard(scene.numbers)
    assert scene.holds


def test_the_command_reports_all_claims_and_writes_the_plots(tmp_path, monkeypatch):
    monkeypatch.setattr(fairness, "scenes", lambda seed: iter(small_scenes()))
    result = CliRunner().invoke(app, ["lab", "study", "fairness", "--json", "--plots", str(tmp_path)])
    report = json.loads(result.stdout)
    assert {name: scene["holds"] for name, scene in report.items()} == dict.fromkeys(
        ("weights", "drf", "starvation"), True
    )
    assert result.exit_code == 0
    assert have_their_deserved_shares(report["weights"])
    assert starts_with_the_guard(report["starvation"])
    for name in report:
        root = ET.parse(tmp_path / f"fairness-{name}.svg").getroot()
        assert root.tag.endswith("svg")


def test_more_replicas_pay_only_as_long_as_none_reads_more_than_it_decides():
    rates = {count: simulate(Layout(1000, count, count), Costs(), 3000).pods_per_second for count in (1, 2, 16)}
    assert rates[2] > rates[1] * 1.05
    assert rates[16] < rates[2]


def test_processes_of_one_host_share_its_cores():
    costs = Costs()
    alone, shared = (simulate(Layout(1000, 3, 2, cores=cores), costs, 3000) for cores in (0, 2))
    assert shared.cpu_ms_per_pod == pytest.approx(alone.cpu_ms_per_pod, rel=0.02)
    assert shared.pods_per_second == pytest.approx(2000 / shared.cpu_ms_per_pod, rel=0.05), "both cores are busy"


def test_the_api_server_and_replicated_streams_limit_the_rate():
    limited = simulate(Layout(1000), Costs(requests_per_second=300.0), 3000)
    assert limited.pods_per_second == pytest.approx(300.0, rel=0.05)
    assert limited.bottleneck == "API server"
    one, three = (simulate(Layout(1000, 1, 2, replicated), Costs(bus=400.0), 3000) for replicated in (False, True))
    assert three.pods_per_second < one.pods_per_second
    assert three.cpu_ms_per_pod > one.cpu_ms_per_pod


def report(placement: int, pods_per_second: float, seconds: float) -> bytes:
    names = ["placement"] if placement == 1 else [f"placement-{number + 1}" for number in range(placement)]
    others = ["binder", "metrics", "inventory", "bench", "nats-server (bus)", "nats-server (cluster)"]
    return json.dumps(
        {
            "nodes": 1000,
            "bound": 1000,
            "cpus": 2,
            "pods_per_second": pods_per_second,
            "cpu_seconds": dict.fromkeys([*names, *others], seconds),
        }
    ).encode()


def test_costs_are_taken_from_a_measured_run_and_compared_with_others(tmp_path):
    (tmp_path / "1.json").write_bytes(report(1, 1000.0, 0.2))
    (tmp_path / "3.json").write_bytes(report(3, 900.0, 0.2))
    measured = [part for name in "13" for part in ("--measured", str(tmp_path / f"{name}.json"))]
    shown = CliRunner().invoke(app, ["lab", "study", "scaling", *measured, "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["costs"]["inventory"] == pytest.approx(200.0)
    assert found["compared"][0]["errors"] == pytest.approx([0.0, 0.0], abs=0.01), "the run that it is calibrated by"
    assert found["compared"][1]["simulated"][1] > found["compared"][0]["simulated"][1]
    assert [need["nodes"] for need in found["needs"]] == [1000, 5000, 20_000, 100_000]


def test_scaling_prints_a_table_and_writes_plots(tmp_path):
    shown = CliRunner().invoke(app, ["lab", "study", "scaling", "--plots", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "100,000" in shown.stdout
    for name in ("scaling-rate", "scaling-cpu"):
        ET.parse(tmp_path / f"{name}.svg")


def test_a_report_without_the_services_is_an_error(tmp_path):
    (tmp_path / "x.json").write_text('{"bound": 1, "cpu_seconds": {}}')
    shown = CliRunner().invoke(app, ["lab", "study", "scaling", "--measured", str(tmp_path / "x.json")])
    assert shown.exit_code != 0


def test_pods_that_one_round_cannot_decide_start_at_the_same_time():
    count = 1500
    cluster = Simulation([node("a", cpu=count, pods=count)], [QueueFact(name="default")], default_conf())
    for number in range(count):
        cluster.add(0.0, Arrival(f"p{number}", "default", ask(container(cpu=1)), seconds=50.0))
    (sample,) = cluster.run(until=0.0, every=1.0)
    assert sample.by_queue["default"]["cpu"] == count
