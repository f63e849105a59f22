"""The metrics that every service exports about itself on ``/metrics``: readiness, streams, writes, event loop, process.

What is in the cluster and the ledger is exported by the metrics service alone. All names here begin with
``deviceshare_service_``, ``deviceshare_bus_`` or ``process_``, and have the label ``service``, except the last.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import NamedTuple, Protocol

from nats.errors import Error as NatsError
from prometheus_client import CollectorRegistry, GCCollector, Histogram, Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder

from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.publisher import Publisher
from deviceshare_bus.web.metric_formats import Families, accepted_format
from deviceshare_bus.wire.connection import Connection

LAG_INTERVAL = 0.25
"""Seconds between two measurements of the event loop's lag."""
ANSWER = 2.0
"""Seconds for nats-server's answer about streams; without one a scrape has the other metrics."""
LAGS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bounds of lags in seconds."""
ROUNDS = tuple(5.0 * 2**n for n in range(15))
"""Bounds of Volcano's scheduling latencies in milliseconds (pkg/scheduler/metrics/metrics.go)."""
Labels = tuple[str, ...]


class Streams(NamedTuple):
    """What nats-server says of the streams: the last sequence, bytes and limit of each, and its storage and limit.

    A limit is 0 if there is none.
    """

    last: Mapping[str, int]
    bytes: Mapping[str, int]
    limits: Mapping[str, int]
    storage: int
    storage_limit: int


class Running(Protocol):
    """What is measured of a running service, its :class:`.service.Context`."""

    @property
    def connection(self) -> Connection:
        """The connection to nats-server."""

    @property
    def publisher(self) -> Publisher:
        """The writer."""

    @property
    def followers(self) -> Mapping[str, Follower]:
        """The readers, by stream."""

    @property
    def ready(self) -> bool:
        """Whether the service can do its work right now."""

    @property
    def open_work(self) -> Callable[[], int]:
        """Returns how many decisions, writes or bindings are under way."""


class ServiceMetrics:
    """The metrics of one process.

    Args:
        service: the service's name, the label ``service``.
        instance: the process's name.
        storage_limit: bytes that nats-server may store, 0 for the limit of its account, if that has one.
    """

    def __init__(self, service: str, instance: str, storage_limit: int = 0) -> None:
        self._service = service
        self._instance = instance
        self._storage_limit = storage_limit
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._lag = Histogram(
            "deviceshare_service_event_loop_lag_seconds",
            "How late the event loop ran a timer.",
            ("service",),
            registry=self._registry,
            buckets=LAGS,
        ).labels(service)
        self._rounds: tuple[Histogram, Histogram] | None = None
        self.counts: Counter[str] = Counter()
        """What the service has counted since its start."""
        self.quarantined: Counter[str] = Counter()
        """Invalid messages since the start of the process, by stream."""
        self.reconnects = 0
        self.signing: bool | None = None
        """Whether device annotations are signed; None for a service without keys."""

    def reconnected(self) -> None:
        """Count a reconnect."""
        self.reconnects += 1

    async def measure_lag(self) -> None:
        """Measure the lag of the event loop without end."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_INTERVAL
            await asyncio.sleep(LAG_INTERVAL)
            self._lag.observe(max(0.0, loop.time() - due))

    def observe_round(self, seconds: float) -> None:
        """Observe a round of decisions: from its begin until its ledgers were sent."""
        if self._rounds is None:
            names = "volcano_e2e_scheduling_latency_milliseconds", "volcano_action_scheduling_latency_milliseconds"
            e2e = Histogram(names[0], "Duration of a scheduling cycle.", registry=self._registry, buckets=ROUNDS)
            text = "Duration of the actions of a scheduling cycle."
            action = Histogram(names[1], text, ("action",), registry=self._registry, buckets=ROUNDS)
            self._rounds = e2e, action.labels("allocate")
        for histogram in self._rounds:
            histogram.observe(seconds * 1000)

    async def expose(self, context: Running | None, accept: str) -> tuple[bytes, str]:
        """Return all metrics and their content type, in the format that ``accept`` (a request's header) allows."""
        streams = await read_streams(context.connection) if context is not None else None
        encode, content_type = choose_encoder(accepted_format(accept))
        families = [*self.own(context, streams), *self._registry.collect()]
        return encode(Families(families)), content_type

    async def own_families(self, context: Running) -> list[Metric]:
        """Return the metrics for an exposition that has those of its process already."""
        streams = await read_streams(context.connection)
        of_process = ("process_", "python_")
        registered = [metric for metric in self._registry.collect() if not metric.name.startswith(of_process)]
        return [*self.own(context, streams), *registered]

    def own(self, context: Running | None, streams: Streams | None) -> Iterator[Metric]:
        """Yield the families that are computed at a scrape; ``context`` is None before the bus was reached."""
        yield InfoMetricFamily(
            "deviceshare_service",
            "The running service.",
            value={"service": self._service, "instance_name": self._instance, "version": version("deviceshare-bus")},
        )
        ready = context is not None and context.ready
        yield self._gauge("service_ready", "1 if the service can do its work (/readyz).", [((), ready)])
        connected = context is not None and context.connection.connected
        yield self._gauge("bus_connected", "1 if the service is connected to the bus.", [((), connected)])
        yield self._counter("bus_reconnects", "Reconnects to the bus.", [((), self.reconnects)])
        quarantined = [((stream,), count) for stream, count in self.quarantined.items()]
        yield self._counter("bus_quarantined_messages", "Invalid messages put in quarantine.", quarantined, "stream")
        counts = [((name,), count) for name, count in self.counts.items()]
        yield self._counter("service_counts", "What the service has counted, by name.", counts, "name")
        if self.signing is not None:
            text = "1 if device annotations are signed."
            yield self._gauge("service_signing_enabled", text, [((), self.signing)])
        if context is None:
            return
        if ends := [((name,), end) for name, end in context.connection.certificate_ends().items()]:
            text = "When a certificate of the bus ends."
            yield self._gauge("bus_certificate_expiry_timestamp_seconds", text, ends, "certificate")
        yield self._gauge("service_open_work", "Open decisions, writes and requests.", [((), context.open_work())])
        results = [((stream, result), count) for (stream, result), count in context.publisher.results.items()]
        yield self._counter("bus_writes", "Writes to a stream by result.", results, "stream", "result")
        stalls = [((stream,), follower.stalls) for stream, follower in context.followers.items()]
        yield self._counter("bus_stalls", "How often the reader held back delivery.", stalls, "stream")
        if streams is not None:
            yield from self._of_streams(context, streams)

    def _of_streams(self, context: Running, streams: Streams) -> Iterator[Metric]:
        lags = [
            ((stream,), max(0, streams.last[stream] - follower.position))
            for stream, follower in context.followers.items()
            if stream in streams.last
        ]
        yield self._gauge("bus_lag_messages", "Sequences of the stream that were not processed yet.", lags, "stream")
        of_streams = [((stream,), size) for stream, size in streams.bytes.items()]
        yield self._gauge("bus_stream_bytes", "Bytes stored of the stream.", of_streams, "stream")
        limits = [((stream,), limit) for stream, limit in streams.limits.items() if limit]
        yield self._gauge("bus_stream_limit_bytes", "Bytes that the stream may have.", limits, "stream")
        yield self._gauge("bus_storage_bytes", "Bytes stored by nats-server.", [((), streams.storage)])
        if limit := self._storage_limit or streams.storage_limit:
            yield self._gauge("bus_storage_limit_bytes", "Bytes that nats-server may store.", [((), limit)])

    def _gauge(self, name: str, text: str, samples: Iterable[tuple[Labels, float]], *labels: str) -> Metric:
        family = GaugeMetricFamily(f"deviceshare_{name}", text, labels=("service", *labels))
        for values, value in samples:
            family.add_metric((self._service, *values), float(value))
        return family

    def _counter(self, name: str, text: str, samples: Iterable[tuple[Labels, float]], *labels: str) -> Metric:
        family = CounterMetricFamily(f"deviceshare_{name}", text, labels=("service", *labels))
        for values, value in samples:
            family.add_metric((self._service, *values), float(value))
        return family


async def read_streams(connection: Connection) -> Streams | None:
    """Return the state of the streams, None if nats-server does not answer."""
    if not connection.connected:
        return None
    try:
        async with asyncio.timeout(ANSWER):
            account = await connection.jetstream.account_info()
            found = await connection.jetstream.streams_info()
    except (TimeoutError, NatsError, OSError):
        return None
    named = [(info.config.name or "", info) for info in found]
    return Streams(
        last={name: info.state.last_seq for name, info in named},
        bytes={name: info.state.bytes for name, info in named},
        limits={name: max(0, info.config.max_bytes or 0) for name, info in named},
        storage=account.storage,
        storage_limit=max(0, account.limits.max_storage),
    )
