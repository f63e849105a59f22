"""The spans of pods, as a receiver of OTLP gets them."""

import random
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from uuid import UUID

import pytest
from deviceshare.model import PHASES, trace_id, trace_ids
from deviceshare_bus.cores.core import RecordBatch, RecordTrace
from deviceshare_bus.runtime import tracing
from deviceshare_bus.runtime.tracing import BATCH, ROOT, Tracing
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.otlp import Receiver

UID = "4bf92f35-77b3-4da6-a3ce-929d0e0e4736"
TIMES = (100.0, 103.5, 103.75, 104.0, 106.0, 107.25)
BOUND = RecordTrace(
    UID, "default", "a", TIMES, first=2, root=True, node="n1", queue="research", result="bound", decided_by="p"
)  # fmt: skip
DECIDED = RecordTrace(UID, "default", "a", TIMES[:3], reason="no card is free", decided_by="p")


@given(st.text(max_size=40))
def test_every_uid_has_ids(uid) -> None:
    ids = trace_ids(uid)
    assert 0 < ids.trace < 2**128
    assert all(0 < span < 2**64 for span in (ids.root, *ids.phases))
    assert len({ids.root, *ids.phases}) == 1 + len(PHASES)
    assert trace_id(uid) == f"{ids.trace:032x}"


@pytest.fixture
def exporter(monkeypatch):
    """Give an exporter that is installed under three names."""
    exporter = InMemorySpanExporter()
    exporter.loaded = []

    def point(name):
        return SimpleNamespace(load=lambda: lambda: exporter.loaded.append(name) or exporter)

    installed = {name: [point(name)] for name in ("console", "otlp_proto_http", "otlp_proto_grpc")}
    installed["broken"] = [SimpleNamespace(load=lambda: lambda: int("x"))]
    monkeypatch.setattr(tracing, "entry_points", lambda group, name: installed.get(name, []))
    return exporter


@pytest.mark.parametrize(
    ("environment", "loaded"),
    [
        ({}, []),
        ({"OTEL_TRACES_EXPORTER": "console"}, ["console"]),
        ({"OTEL_TRACES_EXPORTER": " none , console"}, ["console"]),
        ({"OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["otlp_proto_grpc"]),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ["otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, ["otlp_proto_http"]),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            },
            ["otlp_proto_grpc"],
        ),
        ({"OTEL_TRACES_EXPORTER": "otlp,console"}, ["otlp_proto_http", "console"]),
        ({"OTEL_TRACES_EXPORTER": "unheard"}, []),
        ({"OTEL_TRACES_EXPORTER": "broken"}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, ["otlp_proto_http"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, ["otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, []),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "True"}, []),
    ],
)
def test_the_environment_chooses_the_exporters(exporter, environment, loaded) -> None:
    found = Tracing("binder", "1", environment)
    assert (found.enabled, exporter.loaded) == (bool(loaded), loaded)
    found.record(BOUND)
    found.batch(RecordBatch("p", TIMES[1], (UID,), 1), TIMES[2])
    found.close()
    # The second exporter is the first one: it gets the spans again, unless it has ended before.
    assert len({id(span) for span in exporter.get_finished_spans()}) == 5 * bool(loaded)


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_two_services_export_one_trace(monkeypatch, protocol) -> None:
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.grpc if protocol == "grpc" else receiver.http)
        placement, binder = Tracing("placement", "p"), Tracing("binder", "b")
        binder.record(BOUND)
        placement.record(DECIDED)
        placement.batch(RecordBatch("p", TIMES[1], (UID, "other"), 3), TIMES[2])
        placement.close()
        binder.close()
    pods = receiver.of_pods()
    root, *phases = pods[UID]
    ids = trace_ids(UID)
    assert (root.name, root.trace, root.id, root.parent) == (ROOT, trace_id(UID), f"{ids.root:016x}", "")
    assert [span.name for span in phases] == list(PHASES)
    assert {(span.trace, span.parent) for span in phases} == {(root.trace, root.id)}
    assert [span.service for span in phases] == ["deviceshare-placement"] * 2 + ["deviceshare-binder"] * 3
    assert [span.length / 1e9 for span in phases] == [3.5, 0.25, 0.25, 2.0, 1.25]
    assert root.length == sum(span.length for span in phases) == 7.25e9
    assert root.attributes == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "a",
        "k8s.pod.uid": UID,
        "k8s.node.name": "n1",
        "deviceshare.queue": "research",
        "deviceshare.result": "bound",
    }
    assert phases[0].attributes["deviceshare.reason"] == "no card is free"
    assert (
        phases[2].attributes.items()
        >= {
            "messaging.system": "nats",
            "messaging.destination.name": "LEDGER",
            "messaging.operation.type": "process",
        }.items()
    )
    # The round is a trace of its own; links connect it to its pods in both directions.
    (batch,) = pods[""]
    assert (batch.name, batch.parent, batch.attributes["messaging.batch.message_count"]) == (BATCH, "", 3)
    assert batch.trace != root.trace
    assert batch.links[0] == (phases[1].trace, phases[1].id)
    assert phases[1].links == phases[2].links == ((batch.trace, batch.id),)


def test_clocks_that_differ_give_no_negative_durations(exporter) -> None:
    found = Tracing("binder", "1", {"OTEL_TRACES_EXPORTER": "console"})
    found.record(RecordTrace(UID, "default", "a", (100.0, 103.0, 102.0, 90.0, 91.0, 104.0), root=True))
    found.close()
    *phases, root = exporter.get_finished_spans()
    assert [span.end_time - span.start_time for span in phases] == [3_000_000_000, 0, 0, 0, 1_000_000_000]
    assert (root.start_time, root.end_time) == (100_000_000_000, 104_000_000_000)


@pytest.mark.parametrize("sampler", ["traceidratio", "parentbased_traceidratio"])
@pytest.mark.parametrize("ratio", [0.1, 0.4, 0.75])
def test_the_ratio_is_the_share_of_pods_in_every_process(exporter, monkeypatch, sampler, ratio) -> None:
    """The fixed bits of random UUIDs (version and variant) made the share 0 or 1 when they were the trace id."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", str(ratio))
    one, other = (Tracing(name, "1", {"OTEL_TRACES_EXPORTER": "console"}) for name in ("placement", "binder"))
    chance = random.Random(1)
    pods = [str(UUID(int=chance.getrandbits(128), version=4)) for _ in range(10_000)]
    sampled = [one.sampled(uid) for uid in pods]
    assert sampled == [other.sampled(uid) for uid in pods]
    assert abs(sum(sampled) / len(pods) - ratio) < 0.02
    one.close()
    other.close()


def test_a_pod_is_exported_whole_or_not_at_all(exporter, monkeypatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.1")
    found = Tracing("binder", "1", {"OTEL_TRACES_EXPORTER": "console"})
    uids = [str(UUID(int=n, version=4)) for n in range(300)]
    for uid in uids:
        found.record(RecordTrace(uid, "default", uid, TIMES, root=True, decided_by="p"))
        found.batch(RecordBatch(uid, 1.0, (uid,), 1), 2.0)
    found.close()
    spans = exporter.get_finished_spans()
    sampled = [uid for uid in uids if found.sampled(uid)]
    assert 15 <= len(sampled) <= 45
    assert len(spans) == len(sampled) * (1 + len(PHASES) + 1)


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("listens", [False, True])
def test_a_dead_collector_does_not_delay_the_end(protocol, listens) -> None:
    """Whether its port is closed, or it accepts connections and never answers."""
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        if listens:
            dead.listen()
        script = (
            "import time\n"
            "from deviceshare_bus.cores.core import RecordTrace\n"
            "from deviceshare_bus.runtime.tracing import Tracing\n"
            "found = Tracing('binder', '1')\n"
            "for n in range(2000): found.record(RecordTrace(str(n), 'default', 'a', (1.0, 2.0, 3.0), root=True))\n"
            "time.sleep(0.5)\n"
            "print('closing', flush=True)\n"
            "found.close()\n"
        )
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{dead.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        }
        with subprocess.Popen(
            [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"closing\n"
            began = time.monotonic()
            assert process.wait(30) == 0
            assert time.monotonic() - began < 9.0, "below the time limit of one export"
