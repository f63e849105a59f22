"""Tracing: a span for each step in the life of a pod, and one trace per pod.

The trace id is derived from the pod's uid: it can be found with ``kubectl get pod -o yaml``, and messages with the
steps of many pods need no headers. Without ``OTEL_TRACES_EXPORTER`` and ``OTEL_EXPORTER_OTLP_ENDPOINT`` nothing is
exported, and a step costs one comparison.
"""

import hashlib
import logging
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from uuid import UUID

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

log = logging.getLogger("deviceshare.tracing")


def trace_id(uid: str) -> int:
    """Return the 128-bit trace id of a pod: its uid, or a hash of it if the uid is not a UUID."""
    try:
        return UUID(uid).int or 1
    except ValueError:
        return int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=16).digest()) or 1


def root_span_id(uid: str) -> int:
    """Return the id of the parent span of all steps of a pod."""
    return int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=8).digest()) or 1


class Tracing:
    """The tracer of one service."""

    def __init__(self, service: str, instance: str, environment: Mapping[str, str] = os.environ) -> None:
        self._provider: TracerProvider | None = None
        names = environment.get("OTEL_TRACES_EXPORTER", "")
        if not names and (
            environment.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        ):
            names = "otlp_proto_http"
        names = names.replace("otlp_proto_http", "otlp").replace("otlp", "otlp_proto_http")
        for name in filter(None, (part.strip() for part in names.split(","))):
            if name == "none" or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
                continue
            found = entry_points(group="opentelemetry_traces_exporter", name=name)
            if not found:
                log.warning("OTEL_TRACES_EXPORTER: no exporter named %r is installed, traces do not go there", name)
                continue
            if self._provider is None:
                resource = Resource.create({SERVICE_NAME: f"deviceshare-{service}", SERVICE_INSTANCE_ID: instance})
                self._provider = TracerProvider(resource=resource)
            self._provider.add_span_processor(BatchSpanProcessor(next(iter(found)).load()()))
        self._tracer = self._provider.get_tracer("deviceshare") if self._provider else None

    @property
    def enabled(self) -> bool:
        """Whether spans are exported."""
        return self._tracer is not None

    def step(self, uid: str, name: str, start: float, end: float, attributes: Mapping[str, str | int | float]) -> None:
        """Record one step of a pod as a span from ``start`` to ``end`` (unix seconds)."""
        if self._tracer is None:
            return
        parent = SpanContext(
            trace_id(uid), root_span_id(uid), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
        )
        context = set_span_in_context(NonRecordingSpan(parent))
        span = self._tracer.start_span(
            name,
            context=context,
            start_time=int(start * 1e9),
            attributes={"messaging.system": "nats", "k8s.pod.uid": uid, **attributes},
            kind=trace.SpanKind.INTERNAL,
        )
        span.end(end_time=int(end * 1e9))

    def close(self) -> None:
        """Export the remaining spans."""
        if self._provider is not None:
            self._provider.shutdown()
