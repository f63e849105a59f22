"""The spans of a pod's steps: one trace per pod, that everybody derives from its uid."""

from types import SimpleNamespace

import pytest
from deviceshare_bus import tracing
from deviceshare_bus.tracing import Tracing, root_span_id, trace_id
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

UID = "4bf92f35-77b3-4da6-a3ce-929d0e0e4736"


def test_the_trace_of_a_pod_is_its_uid() -> None:
    assert f"{trace_id(UID):032x}" == UID.replace("-", "")
    assert trace_id("00000000-0000-0000-0000-000000000000") == 1, "0 is no trace"


@given(st.text(max_size=40))
def test_every_uid_has_valid_ids(uid) -> None:
    assert 0 < trace_id(uid) < 2**128
    assert 0 < root_span_id(uid) < 2**64
    assert (trace_id(uid), root_span_id(uid)) == (trace_id(uid), root_span_id(uid))


@pytest.fixture
def exporter(monkeypatch):
    """Give an exporter that is installed under two names."""
    exporter = InMemorySpanExporter()
    point = SimpleNamespace(load=lambda: lambda: exporter)
    installed = {"console": [point], "otlp_proto_http": [point]}
    monkeypatch.setattr(tracing, "entry_points", lambda group, name: installed.get(name, []))
    return exporter


@pytest.mark.parametrize(
    ("environment", "enabled"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": " none , console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "unheard"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_spans_are_exported_where_the_environment_says_so(exporter, environment, enabled) -> None:
    found = Tracing("binder", "1", environment)
    assert found.enabled is enabled
    found.step(UID, "binder bound", 1.0, 2.5, {"k8s.pod.name": "default/a"})
    found.close()
    spans = exporter.get_finished_spans()
    assert len(spans) == enabled
    for span in spans:
        assert (span.name, span.start_time, span.end_time) == ("binder bound", 1_000_000_000, 2_500_000_000)
        assert (span.context.trace_id, span.parent.span_id) == (trace_id(UID), root_span_id(UID))
        assert dict(span.attributes) == {
            "messaging.system": "nats",
            "k8s.pod.uid": UID,
            "k8s.pod.name": "default/a",
        }
        assert span.resource.attributes["service.name"] == "deviceshare-binder"
