"""Traces: one for each pod, from the moment placement sees it until it is bound.

All ids follow from the pod's uid (:func:`deviceshare.model.trace_ids`), so that the processes that export the spans of
one trace need not exchange them, and decide alike whether the pod is sampled. Exporters, sampler and queues are
opentelemetry-sdk's and are set by its variables. Without ``OTEL_TRACES_EXPORTER`` and ``OTEL_EXPORTER_OTLP_ENDPOINT``
nothing is exported, and a pod costs one comparison.
"""

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import entry_points, version
from itertools import accumulate, pairwise
from typing import Any

from deviceshare.model import PHASES, trace_ids, trace_number
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags

from deviceshare_bus.cores.core import RecordBatch, RecordTrace
from deviceshare_bus.messages.subjects import Stream

log = logging.getLogger("deviceshare.tracing")

ROOT, BATCH = "schedule pod", "decide pods"
"""The names of the root span of a pod, and of the span of a round of decisions."""
QUEUE_SIZE = 32_768
"""Spans that may wait for export unless ``OTEL_BSP_MAX_QUEUE_SIZE`` sets another number: a round places many pods."""
MAX_LINKS = 128
"""Links of a round to its pods, at most: the limit of opentelemetry-sdk."""
CLOSE_SECONDS, ABORT_SECONDS = 3.0, 0.5
"""Seconds in which the remaining spans are exported at the end, and then those until the exporter has stopped."""
GRPC, HTTP = "grpc", "http/protobuf"
_EXPORTERS = {GRPC: "otlp_proto_grpc", HTTP: "otlp_proto_http"}
_SYSTEM = {"messaging.system": "nats", "messaging.destination.name": str(Stream.LEDGER)}
_KINDS = {"claiming": SpanKind.CONSUMER, "binding": SpanKind.CLIENT}
_ATTRIBUTES: dict[str, dict[str, str]] = {"claiming": {**_SYSTEM, "messaging.operation.type": "process"}}
"""Kinds and attributes of the phases that are not internal."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("deviceshare", version("deviceshare-bus"))


class Tracing:
    """The traces of one process. Without ``service`` none is exported.

    Args:
        service: the name of the service.
        instance: the name of the process.
        environment: the variables that choose the exporters; all others are read by opentelemetry-sdk itself.
    """

    def __init__(self, service: str = "", instance: str = "", environment: Mapping[str, str] = os.environ) -> None:
        self._processors: list[BatchSpanProcessor] = []
        for name in _exporters(environment) if service else ():
            if (exporter := _load(name)) is not None:
                size = None if environment.get("OTEL_BSP_MAX_QUEUE_SIZE") else QUEUE_SIZE
                self._processors.append(BatchSpanProcessor(exporter, max_queue_size=size))
        self.enabled = bool(self._processors)
        """Whether spans are exported."""
        if not self.enabled:
            return
        provider = TracerProvider(
            resource=Resource.create({SERVICE_NAME: f"deviceshare-{service}", SERVICE_INSTANCE_ID: instance}),
            shutdown_on_exit=False,
        )
        self._sampler, self._resource = provider.sampler, provider.resource

    def sampled(self, uid: str) -> bool:
        """Return whether a pod's trace is exported. All processes with the same variables give the same answer."""
        return (
            self.enabled
            and self._sampler.should_sample(None, trace_number(uid), ROOT).decision is Decision.RECORD_AND_SAMPLE
        )

    def record(self, pod: RecordTrace) -> None:
        """Export the phases of a pod, and its root span."""
        if not self.sampled(pod.uid):
            return
        ids = trace_ids(pod.uid)
        attributes = {
            "k8s.namespace.name": pod.namespace,
            "k8s.pod.name": pod.name,
            "k8s.pod.uid": pod.uid,
            "k8s.node.name": pod.node,
            "deviceshare.queue": pod.queue,
            "deviceshare.result": pod.result,
            "deviceshare.reason": pod.reason,
        }
        attributes = {name: value for name, value in attributes.items() if value}
        # Whole nanoseconds, so that the phases sum exactly to the root.
        times = list(accumulate((int(at * 1e9) for at in pod.times), max))
        root = SpanContext(ids.trace, ids.root, is_remote=True, trace_flags=_SAMPLED)
        phases = zip(PHASES, ids.phases, pairwise(times), strict=False)
        for phase, span, (start, end) in list(phases)[pod.first :]:
            self._export(
                ReadableSpan(
                    phase,
                    SpanContext(ids.trace, span, is_remote=False, trace_flags=_SAMPLED),
                    root,
                    self._resource,
                    {**attributes, **_ATTRIBUTES.get(phase, {})},
                    links=[Link(_batch(pod.decided_by, pod.times[1]))] if phase in ("deciding", "claiming") else (),
                    kind=_KINDS.get(phase, SpanKind.INTERNAL),
                    start_time=start,
                    end_time=end,
                    instrumentation_scope=_SCOPE,
                )
            )
        if pod.root:
            self._export(
                ReadableSpan(
                    ROOT,
                    SpanContext(ids.trace, ids.root, is_remote=False, trace_flags=_SAMPLED),
                    None,
                    self._resource,
                    attributes,
                    start_time=times[0],
                    end_time=times[-1],
                    instrumentation_scope=_SCOPE,
                )
            )

    def batch(self, batch: RecordBatch, now: float) -> None:
        """Export the span of a round, until ``now`` (unix seconds), if a pod of it is sampled."""
        if not self.enabled:
            return
        sampled = [trace_ids(uid) for uid in batch.uids if self.sampled(uid)][:MAX_LINKS]
        if not sampled:
            return
        deciding = PHASES.index("deciding")
        links = [
            Link(SpanContext(ids.trace, ids.phases[deciding], is_remote=False, trace_flags=_SAMPLED)) for ids in sampled
        ]
        self._export(
            ReadableSpan(
                BATCH,
                _batch(batch.decided_by, batch.at),
                None,
                self._resource,
                {
                    **_SYSTEM,
                    "messaging.operation.type": "send",
                    "messaging.batch.message_count": batch.messages,
                    "deviceshare.pods": len(batch.uids),
                },
                links=links,
                kind=SpanKind.PRODUCER,
                start_time=int(batch.at * 1e9),
                end_time=int(max(now, batch.at) * 1e9),
                instrumentation_scope=_SCOPE,
            )
        )

    def _export(self, span: ReadableSpan) -> None:
        """Give a span to the exporters. Made from its parts: a tracer would take ten times as long for the same."""
        for processor in self._processors:
            processor.on_end(span)

    def close(self) -> None:
        """Export the remaining spans in :data:`CLOSE_SECONDS`; then stop the exporter and drop the rest."""
        if not _run([processor.shutdown for processor in self._processors], CLOSE_SECONDS):
            log.warning("not all traces could be exported")
            _run([processor.span_exporter.shutdown for processor in self._processors], ABORT_SECONDS)


def _batch(decided_by: str, at: float) -> SpanContext:
    """Return the context of the span of a round: every process derives it from a claim."""
    digest = blake2b(f"{decided_by}/{at!r}".encode(), digest_size=24).digest()
    trace, span = int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1
    return SpanContext(trace, span, is_remote=True, trace_flags=_SAMPLED)


def _exporters(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the exporters that the standard variables choose."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return []
    names = environment.get("OTEL_TRACES_EXPORTER", "")
    endpoints = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    if not names and any(environment.get(each) for each in endpoints):
        names = "otlp"
    found = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name == "otlp":
            protocols = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
            protocol = next((environment[each] for each in protocols if environment.get(each)), HTTP)
            if protocol not in _EXPORTERS:
                log.warning("OTEL_EXPORTER_OTLP_PROTOCOL: %r is not supported, %s is used", protocol, HTTP)
            name = _EXPORTERS.get(protocol, _EXPORTERS[HTTP])
        if name != "none":
            found.append(name)
    return found


def _load(name: str) -> Any:
    """Return an installed exporter, None if there is none of this name or its variables are invalid."""
    found = entry_points(group="opentelemetry_traces_exporter", name=name)
    if not found:
        log.warning("OTEL_TRACES_EXPORTER: no exporter named %r is installed, traces do not go there", name)
        return None
    try:
        return next(iter(found)).load()()
    except Exception as error:  # whatever an exporter raises for its variables
        log.warning("traces are not exported: exporter %s: %r", name, error)
        return None


def _run(calls: Sequence[Any], seconds: float) -> bool:
    """Run calls that may block in threads of their own; return whether all ended within this time."""
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


NO_TRACING = Tracing()
"""Exports nothing."""
