"""``deviceshare lab study trace`` on a synthetic trace, and on the published one where it is available."""

import csv
import gzip
import json
import os
from pathlib import Path

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cli.main import app
from deviceshare_cli.simulate.options import parse_names, parse_seeds
from deviceshare_lab.studies.trace.arrivals import Arrivals, draw, read_order
from deviceshare_lab.studies.trace.product import AllocatorPlacer
from deviceshare_lab.studies.trace.reading import NODES, read_trace
from deviceshare_lab.studies.trace.run import reported, run
from deviceshare_lab.studies.trace.runs import Run
from deviceshare_lab.traces import Trace, TraceNode, TracePod
from support.simulated import simulated
from support.synthetic_trace import write_trace
from support.trace_objects import placed
from typer.testing import CliRunner

PODS = "openb_pod_list_default.csv"
PUBLISHED = os.environ.get("DEVICESHARE_TRACE", "")
NAMES = {
    "BestFit": "bestfit",
    "DotProd": "dotprod",
    "GpuPacking": "gpupacking",
    "GpuClustering": "gpuclustering",
    "FGD": "fgd",
}


def simulate(*arguments: object):
    return CliRunner().invoke(app, ["lab", "study", "trace", *map(str, arguments)])


def test_json_has_a_run_for_each_workload_policy_and_seed(tmp_path):
    write_trace(tmp_path)
    result = simulate(tmp_path, "--seeds", "42..43", "--policy", "fgd,random", "--jobs", 1, "--json")
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    assert [(each["workload"], each["policy"], each["seed"]) for each in runs] == [
        ("default", policy, seed) for policy in ("fgd", "random") for seed in (42, 43)
    ]
    for each in runs:
        assert list(each) == ["workload", "policy", "seed", "alloc_pct", "failed", "pods_per_second"]
        assert list(each["alloc_pct"]) == ["100", "110", "120", "130"]
        assert 50 < each["alloc_pct"]["100"] <= each["alloc_pct"]["130"] <= 100
        assert each["failed"] > 0


def test_two_processes_give_the_results_of_one(tmp_path):
    write_trace(tmp_path)
    results = []
    for jobs in (1, 2):
        report = simulate(tmp_path, "--policy", "all", "--jobs", jobs, "--json").stdout
        results.append([{**each, "pods_per_second": 0} for each in json.loads(report)["runs"]])
    assert results[0] == results[1]


def test_tables_and_plots_name_workloads_and_policies(tmp_path):
    pytest.importorskip("matplotlib")
    write_trace(tmp_path)
    result = simulate(tmp_path, "--policy", "fgd,bestfit", "--jobs", 1, "--plot", tmp_path / "plots")
    assert "AT 130%" in result.stdout
    assert "8 CARDS" in result.stdout
    assert "bestfit" in result.stdout
    assert "bestfit" in (tmp_path / "plots" / "trace-default.svg").read_text()


def test_arrivals_request_the_load_and_begin_with_every_pod_once(tmp_path):
    trace = read_trace(write_trace(tmp_path), "default")
    arrivals = draw(trace, 1.3, 7)
    requested = sum(trace.pods[at].milli for at in arrivals.pods)
    assert 1.25 * trace.milli < requested <= 1.3 * trace.milli + 8000
    fewer = draw(trace, 0.5, 7)
    assert sum(trace.pods[at].milli for at in fewer.pods) <= 0.5 * trace.milli
    assert sorted(arrivals.ranks) == list(range(len(trace.nodes)))
    assert draw(trace, 1.3, 7) == arrivals
    assert draw(trace, 1.3, 8) != arrivals


def test_recorded_arrivals_are_lines_of_the_trace_until_the_load_is_reached(tmp_path):
    trace = read_trace(write_trace(tmp_path), "default")
    arrivals = draw(trace, 1.3, 7)
    (tmp_path / "openb_pod_list_default_7.txt").write_text(
        f"{' '.join(map(str, arrivals.pods))}\n{' '.join(map(str, arrivals.ranks))}\n"
    )
    assert read_order(tmp_path, trace, 1.3, 7) == arrivals
    fewer = read_order(tmp_path, trace, 0.7, 7).pods
    assert fewer == arrivals.pods[: len(fewer)]
    assert sum(trace.pods[at].milli for at in fewer) == pytest.approx(0.7 * trace.milli, rel=0.1)
    drawn, recorded = (
        json.loads(simulate(tmp_path, "--seeds", 7, "--policy", "fgd", "--json", *more).stdout)["runs"][0]
        for more in ((), ("--orders", tmp_path))
    )
    assert drawn["alloc_pct"] == recorded["alloc_pct"]


def test_a_packed_workload_without_models_is_read(tmp_path):
    write_trace(tmp_path)
    lines = (tmp_path / PODS).read_text().splitlines()
    short = "\n".join(",".join(line.split(",")[:5]) for line in lines)
    (tmp_path / PODS).unlink()
    (tmp_path / f"{PODS}.gz").write_bytes(gzip.compress(short.encode()))
    trace = read_trace(tmp_path, "default")
    assert len(trace.pods) == len(lines) - 1
    assert not any(pod.models for pod in trace.pods)


@pytest.mark.parametrize(
    ("file", "line", "text", "message"),
    [
        (
            PODS,
            3,
            "pod-x,abc,1,1,500,,,,,,",
            "openb_pod_list_default.csv:3: cpu_milli: 'abc': must be a whole number, 0 or",
        ),
        (PODS, 3, "pod-x,-5,1,1,500,,,,,,", ":3: cpu_milli: '-5': must be a whole number, 0 or more"),
        (PODS, 3, "pod-x,1,1,65,500,,,,,,", ":3: num_gpu: '65': must be a whole number, 0 to 64"),
        (PODS, 3, "pod-x,1,1,1,0,,,,,,", ":3: gpu_milli: '0': must be a whole number, 1 or more"),
        (PODS, 3, "pod-x,1,1,1,500,H100,,,,,", ":3: gpu_spec: 'H100': must be models of the nodes, joined by |: "),
        (PODS, 3, "pod-x,1,1,1,500,,,,soon,,", ":3: creation_time: 'soon': must be a whole number"),
        (PODS, 3, "pod-x,1,1", ":3: 3 values: must be 11, as in line 1"),
        (PODS, 3, ",1,1,1,500,,,,,,", ":3: name: '': must be a text"),
        (PODS, 3, "pod-0000,1,1,1,500,,,,,,", "2 lines have the name 'pod-0000': names must be unique"),
        (PODS, 1, "name,cpu_milli,memory_mib,num_gpu,milli,a,b,c,d,e,f", ":1: no column gpu_milli: the columns must"),
        (NODES, 2, "node-x,1,1,0,T4", "gpu_node.csv:2: gpu: '0': must be a whole number, 1 to 64"),
    ],
)
def test_an_error_names_file_line_column_and_value(tmp_path, file, line, text, message):
    write_trace(tmp_path)
    lines = (tmp_path / file).read_text().splitlines()
    lines[line - 1] = text
    (tmp_path / file).write_text("\n".join(lines))
    with pytest.raises(CommandError) as error:
        read_trace(tmp_path, "default")
    assert message in str(error.value)


def test_a_damaged_file_is_named(tmp_path):
    write_trace(tmp_path)
    packed = gzip.compress((tmp_path / PODS).read_bytes())
    (tmp_path / PODS).unlink()
    for content in (packed[:-20], b"no gzip", packed[:40] + b"x" * 40 + packed[80:], gzip.compress(b"name,\xff")):
        (tmp_path / f"{PODS}.gz").write_bytes(content)
        with pytest.raises(CommandError, match=r"openb_pod_list_default\.csv\.gz: "):
            read_trace(tmp_path, "default")


def test_policies_of_the_product_use_its_allocator():
    nodes = (TraceNode("a", 8000, 1000, 1, "T4"), TraceNode("b", 64_000, 1000, 2, "A10"))
    pods = (
        TracePod("half", 1000, 10, 1, 500),
        TracePod("t4", 1000, 10, 1, 600, "T4|P4"),
        TracePod("both", 1000, 10, 2, 1000),
        TracePod("cpu", 60_000, 10, 0, 0),
        TracePod("memory", 1000, 980, 0, 0),
    )
    trace = Trace("made", nodes, pods)
    packed = AllocatorPlacer(Run(trace, (0, 1), 1), "binpack")
    # Two shares fill the only T4, on node a; the third one leaves node b without two free cards.
    assert [packed.place(at) for at in (0, 1, 0, 0, 2, 3, 3)] == [True, False, True, True, False, True, False]
    assert [packed.place(at) for at in (4, 4, 4)] == [True, True, False]
    spread = AllocatorPlacer(Run(trace, (1, 0), 1), "spread")
    assert [spread.place(at) for at in (0, 1, 4, 4, 4)] == [True, True, True, True, False]


def test_errors_of_orders_name_line_and_number(tmp_path):
    trace = read_trace(write_trace(tmp_path, nodes=2, pods=3), "default")
    file = tmp_path / "openb_pod_list_default_1.txt"
    for text, message in (
        ("0 1 2\n", "_1.txt: 1 lines: must be 2"),
        ("0 9\n0 1\n", "_1.txt:1: number 2: '9': must be a whole number from 0 to 2"),
        ("0\n0 0\n", "_1.txt:2: 2 ranks of nodes: must be each number from 0 to 1 once"),
    ):
        file.write_text(text)
        with pytest.raises(CommandError) as error:
            read_order(tmp_path, trace, 1.3, 1)
        assert message in str(error.value)


def test_errors_of_options_say_what_would_be_right(tmp_path):
    write_trace(tmp_path)
    for arguments, message in (
        (("--workload", "big"), "--workload: 'big': must be one of default, or all"),
        (("--policy", "best"), "--policy: 'best': must be one of"),
        (("--seeds", "5..1"), "--seeds: '5..1': must be a whole number or a range"),
        (("--load", "0"), "--load: 0.0: must be 0.01 to 10"),
        (("--orders", tmp_path, "--jobs", 1), "openb_pod_list_default_42.txt: No such file"),
    ):
        with pytest.raises(CommandError, match=message):
            simulate(tmp_path, *arguments).exception and _raise(simulate(tmp_path, *arguments).exception)
    with pytest.raises(CommandError, match="no file openb_pod_list_WORKLOAD"):
        _raise(simulate(tmp_path.parent).exception)


def _raise(error: BaseException) -> None:
    raise error


def test_lists_of_seeds_and_names():
    assert parse_seeds("42..44,50") == (42, 43, 44, 50)
    assert parse_names("b, a", ("a", "b"), "--x") == ("b", "a")
    assert parse_names("all", ("a", "b"), "--x") == ("a", "b")
    assert reported(1.3) == [100, 110, 120, 130]
    assert reported(0.8) == [80]
    assert reported(1.25) == [100, 110, 120, 125]


def test_a_percentage_without_arrivals_has_the_value_before():
    """A few large pods: one arrival is many percent."""
    nodes = tuple(TraceNode(f"n{at}", 8000, 4, 8, "T4") for at in range(2))
    pods = tuple(TracePod(f"p{at}", 1, 1, 8, 1000) for at in range(2))
    trace = Trace("made", nodes, pods)
    arrivals = Arrivals((0, 1, 0), (0, 1))
    found = run(trace, arrivals, 1.3, "bestfit", 1)
    assert found.allocated == {100: 100.0, 110: 100.0, 120: 100.0, 130: 100.0}


@pytest.mark.skipif(not PUBLISHED, reason="allowed: DEVICESHARE_TRACE names a directory with the published trace")
@pytest.mark.timeout(600)
def test_published_values_are_reproduced():
    """The directory also has ``fgd_expected.csv`` with the published values, and ``orders/``."""
    directory = Path(PUBLISHED)
    with (directory / "fgd_expected.csv").open() as file:
        expected = [row for row in csv.DictReader(file) if row["metric"] == "alloc_pct"]
    for row in expected:
        workload, policy = row["workload"].removeprefix("openb_pod_list_"), row["policy"].partition("-")[2]
        if policy not in NAMES or workload not in ("default", "gpuspec33", "multigpu50"):
            continue
        trace = read_trace(directory, workload)
        for seed in (42, 43):
            arrivals = read_order(directory / "orders", trace, 1.3, seed)
            found = run(trace, arrivals, 1.3, NAMES[policy], seed)
            assert found.allocated[130] == pytest.approx(float(row[f"seed{seed}_130"]), abs=0.02), (workload, policy)
    for workload in ("default", "gpuspec33", "multigpu50"):
        trace = read_trace(directory, workload)
        arrivals = read_order(directory / "orders", trace, 1.3, 42)
        # The scheduler makes the same placements as the simulator.
        expected = [row for row, _ in simulated(trace, arrivals.ranks, arrivals.pods)]
        assert [row for row, _ in placed(trace, arrivals.ranks, arrivals.pods, by_annotation=False)] == expected
