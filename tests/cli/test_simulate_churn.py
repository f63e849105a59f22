"""``deviceshare lab study trace --churn``: compared with a plain simulation, second by second, for every policy."""

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cli.main import app
from deviceshare_lab.studies.trace import churn
from deviceshare_lab.studies.trace.churn import MEASURED, WARM_UP, Churn, plan_arrivals, run_churn
from deviceshare_lab.studies.trace.meter import Capacity, Meter, Waits
from deviceshare_lab.studies.trace.policies import POLICIES
from deviceshare_lab.studies.trace.reading import read_trace
from deviceshare_lab.studies.trace.start_times import run_start_times
from deviceshare_lab.traces import CARD, Schedule, Trace, TraceNode, TracePod, cycle_seconds, schedule, with_times
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plain_churn import PlainChurn, plain_arrivals, random_recorded
from support.synthetic_trace import write_trace
from typer.testing import CliRunner

PODS = "openb_pod_list_default.csv"
PUBLISHED = os.environ.get("DEVICESHARE_TRACE", "")
TRACES = st.builds(random_recorded, st.integers(0, 10_000), nodes=st.integers(0, 3), pods=st.integers(5, 40))
LOADS = st.sampled_from((0.5, 0.95, 1.5))


def simulate(*arguments: object):
    return CliRunner().invoke(app, ["lab", "study", "trace", *map(str, arguments)])


@pytest.mark.parametrize("policy", POLICIES)
@given(trace=TRACES, load=LOADS, seed=st.integers(0, 100))
@settings(max_examples=8, deadline=None)
def test_a_run_is_that_of_a_plain_simulation(policy, trace, load, seed):
    if cycle_seconds(trace, load) == 0:
        return
    planned = plan_arrivals(trace, load, seed)
    arrivals = list(zip(*(part.tolist() for part in (planned.schedule.times, planned.schedule.pods)), strict=True))
    arrivals = [(at, pod, left) for (at, pod), left in zip(arrivals, planned.schedule.seconds.tolist(), strict=True)]
    past = planned.schedule.past.tolist()
    expected = PlainChurn(trace, list(planned.ranks), arrivals, past, planned.until, policy, seed)
    run = Churn(trace, planned, policy, seed)
    run.run()
    assert run.placed == [arrival for arrival, _ in expected.started]
    assert sorted(each for queue in run.waiting.queues for each in queue) == expected.waiting
    free = [trace.milli - used for used in expected.used]
    sums = zip(expected.used, expected.demand, free, strict=True)
    seconds = [(used, min(left, demand), left if demand else 0) for used, demand, left in sums]
    for at, sample in enumerate(run.meter.samples):
        part = seconds[at * planned.sample : (at + 1) * planned.sample]
        assert sample == [sum(each[column] for each in part) for column in range(3)]
    waited = [(arrivals[arrival][0], now - arrivals[arrival][0]) for arrival, now in expected.started]
    waited += [(arrivals[arrival][0], planned.until - arrivals[arrival][0]) for arrival in expected.waiting]
    measured = [seconds for began, seconds in waited if began >= planned.warm]
    found = run.waits.all()
    assert found.pods == len(measured)
    assert found.mean == pytest.approx(sum(measured) / max(len(measured), 1))


@pytest.mark.parametrize("policy", POLICIES)
@given(trace=TRACES, seed=st.integers(0, 100))
@settings(max_examples=5, deadline=None)
def test_capacity_is_never_exceeded_and_returns(policy, trace, seed):
    if cycle_seconds(trace, 1.5) == 0:
        return
    planned = plan_arrivals(trace, 1.5, seed)
    run = Churn(trace, planned, policy, seed)
    nodes = run.nodes
    before = [np.array(each) for each in (nodes.cpu, nodes.memory, nodes.free, nodes.total, nodes.whole)]
    start = run._start

    def checked(arrival: int, now: int) -> None:
        start(arrival, now)
        assert min(np.min(nodes.cpu), np.min(nodes.memory), np.min(nodes.total)) >= 0
        free = np.asarray(nodes.free)
        real = np.arange(free.shape[1]) < np.asarray(nodes.cards)[:, np.newaxis]
        assert np.all((free[real] >= 0) & (free[real] <= CARD))
        assert run.meter.used == trace.milli - int(np.sum(free[real]))

    run._start = checked
    run.run()
    run.finish()
    assert run.waiting.count == 0, "every pod fits on an empty cluster"
    assert sorted(run.placed) == list(range(len(planned.schedule.pods))), "each arrival is placed once"
    after = [np.array(each) for each in (nodes.cpu, nodes.memory, nodes.free, nodes.total, nodes.whole)]
    assert all(np.array_equal(*each) for each in zip(before, after, strict=True))
    assert not np.any(nodes.pods)
    assert not np.any(nodes.kinds)
    assert run.meter.used == run.meter.demand == 0


@given(trace=TRACES, load=LOADS, seed=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_arrivals_are_those_of_all_copies_and_request_the_load(trace, load, seed):
    cycle = cycle_seconds(trace, load)
    if not cycle:
        return
    since, until = -round(3 * cycle), round(40 * cycle)
    found = schedule(trace, cycle, since, until, random.Random(seed).randrange)
    expected, past = plain_arrivals(trace, cycle, since, until, random.Random(seed))
    assert found.past.tolist() == past
    columns = zip(found.times.tolist(), found.pods.tolist(), found.seconds.tolist(), strict=True)
    assert list(columns) == expected
    requested = sum(trace.pods[pod].milli * min(left, until - at) for at, pod, left in expected)
    assert requested / until / trace.milli == pytest.approx(load, rel=0.15)


def test_the_past_has_four_cycles_of_pods_that_ended():
    pods = tuple(TracePod(f"p{at}", 1, 1, 1, 1000, "", 0, 1) for at in range(1000))
    trace = Trace("made", (TraceNode("a", 8000, 4, 2, "T4"),), pods)
    assert len(plan_arrivals(trace, 0.5, 1).schedule.past) == 4000


def test_pods_that_fit_on_no_node_are_not_counted_in_the_past():
    pods = (TracePod("one", 4000, 1, 1, 1000, "", 0, 5), TracePod("none", 9000, 1, 1, 1000, "", 0, 5))
    trace = Trace("made", (TraceNode("a", 8000, 4, 2, "T4"),), pods)
    arrivals = Schedule(*(np.array(each) for each in ([0], [0], [9])), 10.0, np.array([1] * 40))
    run = Churn(trace, churn.ArrivalPlan(arrivals, (0,), sample=1), "fragmentation", 1)
    assert list(run._placer._fragmentation.typical.cpu) == [4000], "that of the pods that are expected at first"


@pytest.mark.parametrize(("before", "row"), [(0, 0), (1, 1)])
def test_a_policy_that_learns_has_seen_the_past(before, row):
    """A pod for one card takes the first node, but not if pods for the two cards of this node arrived before."""
    pods = (TracePod("one", 4000, 1, 1, 1000, "", 0, 5), TracePod("two", 8000, 1, 2, 1000, "", 0, 5))
    trace = Trace("made", (TraceNode("a", 8000, 4, 2, "T4"), TraceNode("b", 4000, 4, 1, "T4")), pods)
    arrivals = Schedule(np.array([0]), np.array([0]), np.array([9]), 10.0, np.full(40, before))
    run = Churn(trace, churn.ArrivalPlan(arrivals, (0, 1), sample=1), "fragmentation", 1)
    run.run()
    assert run.nodes.row == row


def test_small_pods_pass_a_large_one_that_waits_until_another_ends():
    pods = (
        TracePod("one", 1, 1, 1, 1000, "", 0, 60),
        TracePod("both", 1, 1, 2, 1000, "", 10, 40),
        TracePod("half", 1, 1, 1, 500, "", 20, 30),
        TracePod("other", 1, 1, 3, 1000, "", 20, 30),
    )
    trace = Trace("made", (TraceNode("n", 8000, 8000, 2, "T4"),), pods)
    arrivals = Schedule(np.arange(4), np.array([0, 10, 20, 20]), np.array([60, 30, 10, 10]), 10.0, np.arange(0))
    run = Churn(trace, churn.ArrivalPlan(arrivals, (0,), sample=10), "bestfit", 1)
    run.run()
    assert run.placed == [0, 2, 1]
    assert run.impossible == 1, "no node has three cards"
    # One card is free while the pod for two waits; half a card while the share runs.
    assert [sample[1] / 10 for sample in run.meter.samples][:8] == [0, 1000, 500, 1000, 1000, 1000, 0, 0]
    assert [sample[0] / 10 for sample in run.meter.samples][:10] == [*[1000] * 2, 1500, *[1000] * 3, *[2000] * 3, 0]


def test_unusable_is_what_waits_or_what_is_free_whichever_is_less():
    meter = Meter(10_000, 10, 40)
    meter.used, meter.demand = 9_000, 8_000
    meter.advance(15)
    meter.used, meter.demand = 4_000, 500
    meter.advance(30)
    meter.demand = 0
    meter.advance(1_000)
    assert meter.total(0) == pytest.approx(
        Capacity(100 * (15 * 0.9 + 25 * 0.4) / 40, 100 * (15 * 0.1 + 15 * 0.05) / 40, 100 * (15 * 0.1 + 15 * 0.6) / 40)
    )
    assert meter.total(3) == (40, 0, 0)


def test_waiting_times_and_fairness():
    waits = Waits()
    assert waits.fairness() == (1, 1)
    for seconds in range(1, 101):
        waits.add(1.0, seconds)
    for _ in range(100):
        waits.add(8.0, 0)
    assert waits.by_kind()[1.0] == (100, 50.5, 50, 99)
    assert waits.all().mean == 25.25
    assert waits.fairness() == (2, 0.5)
    more = Waits()
    more.extend(waits)
    assert more.by_kind() == waits.by_kind()


def test_pods_without_times_get_those_of_their_name_or_of_pods_with_as_many_cards():
    recorded = Trace(
        "default",
        (),
        (
            TracePod("a", 1, 1, 1, 1000, "", 5, 9),
            TracePod("b", 1, 1, 8, 1000, "", 10, 90),
            TracePod("c", 1, 1, 8, 1000, "", 20, 30),
            TracePod("d", 1, 1, 1, 1000),
        ),
    )
    pods = [("a", 8), ("x", 8), ("y", 8), ("z", 8), ("own", 1), ("e", 3)]
    trace = Trace("other", (), tuple(TracePod(name, 1, 1, cards, 1000) for name, cards in pods))
    trace = trace._replace(pods=(*trace.pods, TracePod("b", 1, 1, 1, 1000, "", 1, 2)))
    found = [(pod.created, pod.deleted) for pod in with_times(trace, recorded).pods]
    assert found == [(5, 9), (10, 90), (20, 30), (10, 90), (5, 9), (5, 9), (1, 2)]
    with pytest.raises(ValueError, match="no pod has times"):
        with_times(recorded, trace._replace(pods=()))


def test_json_has_capacity_waits_and_fairness_of_each_run(tmp_path):
    write_trace(tmp_path)
    arguments = (tmp_path, "--churn", "--seeds", "42..43", "--policy", "fgd,spread", "--json")
    result = simulate(*arguments, "--jobs", 1)
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    assert [(each["policy"], each["seed"]) for each in runs] == [
        ("fgd", 42),
        ("fgd", 43),
        ("spread", 42),
        ("spread", 43),
    ]
    for each in runs:
        assert 50 < each["allocated_pct"] < 100
        assert 0 <= each["unusable_pct"] <= each["free_while_waiting_pct"] <= 100 - each["allocated_pct"] + 0.01
        assert (
            sum(wait["pods"] for kind, wait in each["wait_seconds"].items() if kind != "all")
            == (each["wait_seconds"]["all"]["pods"])
        )
        assert set(each["wait_seconds"]) == {"all", "0", "0.5", "1", "2", "8"}
        assert each["fairness"]["worst_to_mean"] >= 1 >= each["fairness"]["jain"] >= 0.2
        del each["pods_per_second"]
    again = json.loads(simulate(*arguments, "--jobs", 2).stdout)["runs"]
    assert [{**each, "pods_per_second": 0} for each in again] == [{**each, "pods_per_second": 0} for each in runs]


def test_tables_and_plots_name_policies_and_classes(tmp_path):
    pytest.importorskip("matplotlib")
    write_trace(tmp_path)
    result = simulate(tmp_path, "--churn", "--policy", "fgd,bestfit", "--jobs", 1, "--plot", tmp_path / "plots")
    for text in ("UNUSABLE", "WORST/MEAN", "8 CARDS", "NO CARD", "bestfit"):
        assert text in result.stdout
    assert "bestfit" in (tmp_path / "plots" / "churn-default.svg").read_text()


def test_a_workload_without_times_uses_those_of_the_workload_default(tmp_path):
    write_trace(tmp_path)
    lines = (tmp_path / PODS).read_text().splitlines()
    short = "\n".join(",".join(line.split(",")[:5]) for line in lines)
    (tmp_path / PODS.replace("default", "more")).write_text(short)
    found = {}
    for workload in ("default", "more"):
        result = simulate(
            tmp_path, "--churn", "--workload", workload, "--policy", "bestfit", "--jobs", 1, "--json", "--load", "0.3"
        )
        found[workload] = json.loads(result.stdout)["runs"][0]["arrived"]
    assert found["more"] == found["default"]
    alone = tmp_path / "alone"
    alone.mkdir()
    write_trace(alone)
    (alone / PODS).unlink()
    (alone / PODS.replace("default", "more")).write_text(short)
    with pytest.raises(CommandError, match="workload more: pods have no creation_time and deletion_time: must be"):
        _raise(simulate(alone, "--churn", "--workload", "more", "--jobs", 1).exception)


def test_errors_say_what_would_be_right(tmp_path):
    write_trace(tmp_path)
    with pytest.raises(CommandError, match="--orders: not possible with --churn"):
        _raise(simulate(tmp_path, "--churn", "--orders", tmp_path).exception)
    with pytest.raises(CommandError, match=r"--load: 0\.0: must be 0.01 to 10"):
        _raise(simulate(tmp_path, "--churn", "--load", 0).exception)
    trace = read_trace(tmp_path, "default")
    cpu = tuple(pod._replace(cards=0, amount=0) for pod in trace.pods)
    with pytest.raises(CommandError, match="workload default: no pod requests cards"):
        plan_arrivals(trace._replace(pods=cpu), 0.95, 1)
    many = (*cpu, TracePod("card", 1, 1, 1, 1, "", 0, 1))
    with pytest.raises(CommandError, match=r"--load: 0.95: takes [0-9,]+ pods of [0-9,]+ copies of workload default"):
        plan_arrivals(trace._replace(pods=many), 0.95, 1)
    lines = (tmp_path / PODS).read_text().splitlines()
    lines[2] = "pod-x,1,1,1,500,,,,100,99,100"
    (tmp_path / PODS).write_text("\n".join(lines))
    with pytest.raises(CommandError, match=r":3: deletion_time: '99': must be creation_time \(100\) or later"):
        read_trace(tmp_path, "default")


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.skipif(not PUBLISHED, reason="allowed: DEVICESHARE_TRACE names a directory with the published trace")
@pytest.mark.timeout(600)
def test_the_published_trace_is_played_at_its_load():
    trace = read_trace(Path(PUBLISHED), "default")
    planned = plan_arrivals(trace, 0.95, 42)
    result = run_churn(trace, planned, "bestfit", 42)
    assert result.capacity.allocated == pytest.approx(95, abs=0.5), "next to no pod waits"
    assert result.impossible == 0
    assert len(planned.schedule.pods) == pytest.approx((WARM_UP + MEASURED) * len(trace.pods), rel=0.1)


def test_ranges_in_which_pods_start_are_counted(tmp_path):
    write_trace(tmp_path, nodes=4, pods=60)
    options = (tmp_path, "--start-times", "--policy", "bestfit", "--load", 1.0, "--jobs", 1)
    done = simulate(*options, "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["asked"] > run["unanswered"] + run["open"]
    assert 0.5 <= run["right"] <= 1.0
    assert run["ratio"] is None or run["ratio"] >= 1.0
    text = simulate(*options).stdout
    assert text.splitlines()[1].split()[:3] == ["WORKLOAD", "POLICY", "SEED"]
    assert f"{run['right']:.1%}" in text


@pytest.mark.skipif(not PUBLISHED, reason="allowed: DEVICESHARE_TRACE names a directory with the published trace")
@pytest.mark.timeout(600)
def test_four_of_five_ranges_are_right_on_the_published_trace():
    trace = read_trace(Path(PUBLISHED), "default")
    result = run_start_times(trace, plan_arrivals(trace, 0.95, 42), "binpack", 42)
    assert 0.75 <= result.right <= 0.85
    assert result.unanswered + result.open < result.asked / 10
