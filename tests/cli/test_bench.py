"""`deviceshare lab bench bus`: measurements and their report."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from deviceshare.objects import decode_node, decode_pod
from deviceshare_bus.messages.codec import Events, Step
from deviceshare_lab.bench.bus import workload
from deviceshare_lab.bench.bus.command import as_text, report
from deviceshare_lab.bench.bus.floor import doubles
from deviceshare_lab.bench.bus.measure import Load, Run
from deviceshare_lab.bench.bus.pods import schedule
from deviceshare_lab.bench.bus.stages import Arrivals, Moments, add_steps, judgement, quantile
from deviceshare_lab.bench.bus.traffic import StreamMeter, Traffic
from hypothesis import given
from hypothesis import strategies as st
from nats.js.api import StreamState

TRAFFIC = {
    "CLUSTER": Traffic(20, 4000, 10),
    "LEDGER": Traffic(4, 4000, 2),
    "OUTCOME": Traffic(5, 5000, 2),
    "EXPLAIN": Traffic(10, 6000, 10),
    "EVENT": Traffic(3, 3000, 3),
    "OBJECTS": Traffic(30, 24000, 20),
}
RUN = Run(
    bound=10,
    pending=0,
    seconds=2.0,
    created_in=1.0,
    moments=tuple(
        Moments(100.0, 100.0 + number / 40, 100.0 + number / 20, 100.0 + number / 10) for number in range(1, 11)
    ),
    cpu_seconds={"placement": 1.0, "nats-server (cluster)": 0.3, "bench": 0.2},
    load_before=0.5,
    load_after=1.5,
    traffic=TRAFFIC,
    events={"inventory": 1, "placement": 2},
    readers={"placement": ("CLUSTER", "LEDGER", "OUTCOME"), "metrics": ("CLUSTER", "EXPLAIN")},
    claims={"placement-1": 6, "placement-2": 4},
    conflicts={"placement-1": 0, "placement-2": 1},
)


def state(last: int, messages: int, size: int) -> StreamState:
    return StreamState(messages=messages, bytes=size, first_seq=1, last_seq=last, consumer_count=0)


def test_the_mean_size_is_that_of_the_new_messages() -> None:
    # The stream has 100 large messages. 50 small messages are published, then overwritten once.
    meter = StreamMeter(state(100, 100, 100_000))
    meter.take(state(150, 150, 100_000 + 50 * 200))
    assert meter.total(state(200, 150, 100_000 + 50 * 300)) == Traffic(100, 50 * 200 + 50 * 300, 50)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 5000))
def test_traffic_does_not_depend_on_the_number_of_samples(steps: list[int], size: int) -> None:
    meter = StreamMeter(state(7, 0, 0))
    last = 0
    for step in steps:
        last += step
        meter.take(state(7 + last, last, last * size))
    assert meter.total(state(7 + last, last, last * size)) == Traffic(last, last * size, last)


def test_the_doubles_publish_and_read_the_messages_of_the_run() -> None:
    work = {double.name: double for double in doubles(RUN, 10, "nats://bus", "nats://objects")}
    published: dict[str, int] = {}
    for double in work.values():
        for one in double.publish:
            published[one.prefix] = published.get(one.prefix, 0) + one.messages
            assert one.subjects <= max(1, one.messages)
    assert published == {
        "cluster.pod": 20, "ledger.0": 4, "outcome.0": 5, "explain": 10, "event": 3, "object.Pod.bench": 30,
    }  # fmt: skip
    assert [(one.stream, one.messages) for one in work["placement"].read] == [
        ("CLUSTER", 20), ("LEDGER", 4), ("OUTCOME", 5),
    ]  # fmt: skip
    assert ("EVENT", 3) in [(one.stream, one.messages) for one in work["metrics"].read]
    assert [one.messages for one in work["bench"].publish] == [10]
    assert [one.count for one in work["binder"].gets] == [10]


def test_rates_and_quantiles() -> None:
    shown = report(RUN, Load(5, 8, 10), 0.5)
    assert (shown["pods_per_second"], shown["floor_pods_per_second"], shown["ratio"]) == (5.0, 20.0, 0.25)
    assert (shown["latency_p50_seconds"], shown["latency_p99_seconds"]) == (0.5, 1.0)
    assert shown["since_creation_seconds"]["claimed"] == {"p50": 0.25, "p99": 0.5, "p99.9": 0.5}
    assert shown["stage_seconds"]["bound"] == {"p50": 0.25, "p99": 0.5, "p99.9": 0.5}
    assert shown["cpu_milliseconds_per_pod"] == {
        "placement": 100.0, "nats-server (cluster)": 30.0, "bench": 20.0,
        "product": 100.0, "simulator": 50.0, "total": 150.0,
    }  # fmt: skip
    assert (shown["rate"], shown["not_kept_up"]) == (None, "")
    assert "250.0/500.0/500.0 ms after the creation" in as_text(shown)
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.99) == 3.0


def test_pods_are_due_at_equal_intervals() -> None:
    assert schedule(10.0, 4, 2.0) == [10.0, 10.5, 11.0, 11.5]


def test_the_first_step_of_each_name_counts() -> None:
    pods = {"a": Moments(1.0)}
    steps = (
        Step("u", "bench/a", "seen", 2.0),
        Step("u", "bench/a", "claimed", 3.0),
        Step("u", "bench/a", "claimed", 5.0),
        Step("v", "bench/other", "seen", 1.0),
    )
    add_steps(pods, [Events(service="s", instance="i", at=0.0, steps=steps)])
    assert pods["a"] == Moments(1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("still_open", "late", "expected"),
    [
        (50, 0.2, ""),
        (51, 0.2, "the system did not keep up with 100 pods/s: it bound 60 pods/s, and 51 pods, 0.5 s of arrivals"),
        (101, 0.2, "the system did not keep up with 100 pods/s: it bound 60 pods/s, and 101 pods, 1.0 s of arrivals"),
        (0, 0.3, "the benchmark did not keep up with 100 pods/s: it created pods up to 0.30 s late"),
    ],
)
def test_whether_the_system_kept_up(still_open: int, late: float, expected: str) -> None:
    moments = tuple(Moments(number / 100, bound=number / 100 + 0.04) for number in range(1000))
    found = judgement(Arrivals(100.0, still_open, late), moments, 60.0)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    shown = report(
        msgspec.structs.replace(RUN, moments=moments, arrivals=Arrivals(100.0, still_open, late)),
        Load(5, 8, 1000, 100.0),
        None,
    )
    assert bool(shown["not_kept_up"]) == bool(expected)
    assert (shown["rate"], shown["open_after_last_creation"]) == (100.0, still_open)


def test_of_a_long_run_less_than_a_second_of_arrivals_may_be_open() -> None:
    moments = [Moments(number / 100, bound=number / 100 + 0.04) for number in range(3000)]
    assert judgement(Arrivals(100.0, 100, 0.0), moments, 99.0) == ""
    assert judgement(Arrivals(100.0, 101, 0.0), moments, 99.0).startswith("the system did not keep up")


@pytest.mark.parametrize(
    ("second", "last", "kept_up"),
    [(0.1, 0.19, True), (0.1, 0.21, False), (0.02, 0.049, True), (0.02, 0.051, False)],
)
def test_latencies_that_grow_are_those_of_a_system_that_does_not_keep_up(
    second: float, last: float, kept_up: bool
) -> None:
    # The first fifth includes the warm-up, and pods need not be in the order of their creation.
    latencies = [9.0] * 200 + [second] * 200 + [1.0] * 400 + [last] * 200
    moments = [Moments(number / 100, bound=number / 100 + latency) for number, latency in enumerate(latencies)]
    found = judgement(Arrivals(100.0, 0, 0.0), [*moments[::-1], Moments(20.0)], 99.0)
    assert bool(found) is not kept_up
    if not kept_up:
        assert f"from {second * 1000:.0f} ms of the second fifth of the pods to {last * 1000:.0f} ms" in found


@pytest.mark.system
def test_few_arrivals_are_refused() -> None:
    command = [
        str(Path(sys.executable).parent / "deviceshare"),
        "lab",
        "bench",
        "bus",
        "--pods",
        "999",
        "--rate",
        "100",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=350)
    assert done.returncode == 2
    assert "at 100 pods/s expected at least 1000 pods, 10 s" in done.stderr


def test_the_families_decode_the_generated_objects() -> None:
    (node,) = workload.nodes(1, 8)
    fact = decode_node(json.dumps(node | {"metadata": node["metadata"] | {"uid": "n"}}).encode())
    assert not fact.problems
    assert [card.memory for card in fact.cards] == [32768] * 8
    for pod in workload.pods(len(workload.SIZES)):
        ask = decode_pod(json.dumps(pod | {"metadata": pod["metadata"] | {"uid": "p"}}).encode())
        assert not ask.problems


@pytest.mark.system
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICESHARE_RUN_DIR", str(tmp_path))
    command = [
        str(Path(sys.executable).parent / "deviceshare"),
        "lab",
        "bench",
        "bus",
        "--nodes",
        "3",
        "--pods",
        "30",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=350)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["bound"] == 30
    for key in ("pods_per_second", "latency_p50_seconds", "latency_p99_seconds", "floor_pods_per_second", "ratio"):
        assert shown[key] > 0, key
    assert shown["streams"]["OBJECTS"]["messages"] >= 60
    assert set(shown["cpu_seconds"]) >= {"inventory", "placement", "binder", "metrics", "bench"}


@pytest.mark.system
def test_a_small_run_at_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICESHARE_RUN_DIR", str(tmp_path))
    command = [str(Path(sys.executable).parent / "deviceshare"), "lab", "bench", "bus", "--nodes", "3", "--pods", "40"]
    done = subprocess.run([*command, "--rate", "4", "--json"], capture_output=True, text=True, timeout=350)
    shown = json.loads(done.stdout)
    assert (done.returncode, done.stderr.strip()) == (int(bool(shown["not_kept_up"])), shown["not_kept_up"])
    assert shown["bound"] == 40
    assert shown["creation_seconds"] > 9.7, "created on schedule"
    for quantiles in (*shown["since_creation_seconds"].values(), *shown["stage_seconds"].values()):
        assert list(quantiles) == ["p50", "p99", "p99.9"]
        assert all(0 <= seconds < 60 for seconds in quantiles.values())
    assert shown["floor_seconds"] is None
