"""A receiver of traces by both OTLP protocols, built on the official protobufs."""

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)


class Span(NamedTuple):
    """A received span; ids are hex digits, times are nanoseconds."""

    trace: str
    id: str
    parent: str
    service: str
    instance: str
    name: str
    kind: int
    start: int
    end: int
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]

    @property
    def length(self) -> int:
        return self.end - self.start


class Receiver:
    """Receives by HTTP (``http``) and gRPC (``grpc``, both URLs) until the end of the context."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.receive(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: Any) -> None:
                pass

        class Servicer(TraceServiceServicer):  # type: ignore[misc]
            def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:  # noqa: N802
                receiver.receive(request)
                return ExportTraceServiceResponse()

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self._grpc = grpc.server(ThreadPoolExecutor(4))
        add_TraceServiceServicer_to_server(Servicer(), self._grpc)
        port = self._grpc.add_insecure_port("127.0.0.1:0")
        self._grpc.start()
        self.http = f"http://127.0.0.1:{self._http.server_port}"
        self.grpc = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *error: object) -> None:
        self._grpc.stop(None).wait()
        self._http.shutdown()
        self._http.server_close()

    def receive(self, request: ExportTraceServiceRequest) -> None:
        """Keep the spans of a request."""
        found = []
        for of_resource in request.resource_spans:
            resource = _attributes(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                found += [
                    Span(
                        span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
                        resource["service.name"], resource["service.instance.id"], span.name, span.kind,
                        span.start_time_unix_nano, span.end_time_unix_nano, _attributes(span.attributes),
                        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    )
                    for span in of_scope.spans
                ]  # fmt: skip
        with self._lock:
            self.spans += found

    def of_pods(self) -> dict[str, list[Span]]:
        """Return the spans of each pod by uid, ordered by time; the others, of rounds, are under ''."""
        found: defaultdict[str, list[Span]] = defaultdict(list)
        with self._lock:
            for span in sorted(self.spans, key=lambda span: (span.start, -span.length)):
                found[span.attributes.get("k8s.pod.uid", "")].append(span)
        return found


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
