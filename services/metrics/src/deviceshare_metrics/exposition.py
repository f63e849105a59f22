"""Prometheus: a snapshot and the tallies as metric families.

Series are created from the snapshot at each scrape, so that those of deleted objects disappear at once. Cards are shown
twice: under Volcano's own six names, for existing dashboards, and in base units with plain labels.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import chain
from typing import TypeVar

from deviceshare.formats import vgpu
from deviceshare.model import DEVICE_PROBLEMS
from deviceshare_bus.messages import ATTEMPTS, RECONCILED
from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from deviceshare_metrics.api import CLAIM_STATES, NODE_STATES, POD_STATES, Device
from deviceshare_metrics.core import Snapshot, Tallies
from deviceshare_metrics.core.states import OTHER, node_state

MIB = 1024 * 1024
_VGPU_MODES = frozenset({vgpu.HAMI_CORE, vgpu.MIG, vgpu.MPS})
_END = b"# EOF\n"
"""The last line of the OpenMetrics format."""
_Labelled = TypeVar("_Labelled", GaugeMetricFamily, CounterMetricFamily)
_CARD = ("node", "device", "type", "mode")
_OWN_COUNTERS = frozenset({"steps", "undecodable_messages"})
"""Counted by the core from the messages themselves; a service's counter of that name would be a duplicate."""


def expose(
    snapshot: Snapshot, tallies: Tallies, accept: str, more: Iterable[Metric] = ()
) -> tuple[Iterator[bytes], str]:
    """Return the text in parts and its content type, in the newest format that ``accept`` (a request's header) allows.

    The parts are computed one by one: each takes less than a second for tens of thousands of cards, all of them
    seconds. ``tallies`` must not change meanwhile; ``more`` follows at the end.
    """
    encode, content_type = choose_encoder(accept)
    return _encoded(encode, chain(_metrics(snapshot, tallies), more)), content_type


def _encoded(encode: Callable[[Collector], bytes], metrics: Iterable[Metric]) -> Iterator[bytes]:
    for metric in metrics:
        yield encode(_Metrics(metric)).removesuffix(_END)
    yield encode(_Metrics())


class _Metrics(Collector):
    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _metrics(snapshot: Snapshot, tallies: Tallies) -> Iterator[Metric]:
    yield from _volcano(snapshot)
    yield from _cards(snapshot)
    yield _overcommitted(snapshot.devices)
    yield _containers(snapshot)
    yield from _counts(snapshot)
    yield from _tallied(tallies)
    yield InfoMetricFamily(
        "deviceshare_build", "The running version.", value={"version": version("deviceshare-metrics")}
    )
    yield from ProcessCollector(registry=None).collect()


def _volcano(snapshot: Snapshot) -> Iterator[Metric]:
    """Volcano's metrics of its vGPU cards, unit MiB.

    Names, labels and meaning: volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/metrics.go.
    """
    cards = [device for device in snapshot.devices if device.mode in _VGPU_MODES]
    places = [(device.id, device.node) for device in cards]
    labels = ["devID", "NodeName"]
    for name, text, values in (
        ("shared_number", "Number of vGPU pods that share this card.", [len(card.pods) for card in cards]),
        ("allocated_memory", "vGPU memory allocated on this card, in MiB.", [card.memory_used for card in cards]),
        ("allocated_cores", "Percent of this card's cores that is allocated.", [card.cores_used for card in cards]),
        ("memory_limit", "Memory of this card, in MiB.", [card.memory_total for card in cards]),
    ):
        samples = zip(places, values, strict=True)
        yield _with_samples(GaugeMetricFamily(f"volcano_vgpu_device_{name}", text, labels=labels), samples)

    known = set(places)
    memory: Counter[tuple[str, str, str]] = Counter()
    cores: Counter[tuple[str, str, str]] = Counter()
    for share in snapshot.pod_shares:
        if (share.card, share.node) in known:
            # Without the namespace, as in Volcano: pods of one name are one series.
            key = (share.card, share.node, share.pod)
            memory[key] += share.memory
            cores[key] += share.cores
    for name, text, amounts in (
        ("memory", "vGPU memory allocated to a pod on this card, in MiB.", memory),
        ("core", "Percent of this card's cores that is allocated to a pod.", cores),
    ):
        name = f"volcano_vgpu_device_{name}_allocation_for_a_certain_pod"
        yield _with_samples(GaugeMetricFamily(name, text, labels=[*labels, "podName"]), amounts.items())


def _cards(snapshot: Snapshot) -> Iterator[Metric]:
    devices = snapshot.devices
    labels = [(device.node, device.id, device.type, device.mode) for device in devices]
    for name, text, values in (
        ("memory_bytes", "Memory of the card.", [device.memory_total * MIB for device in devices]),
        ("memory_allocated_bytes", "Memory allocated on the card.", [device.memory_used * MIB for device in devices]),
        ("cores", "Compute of the card: percent, or AI cores.", [device.cores_total for device in devices]),
        ("cores_allocated_ratio", "Share of the card's compute that is allocated.", [*map(_cores_ratio, devices)]),
        ("slots", "Number of shares that the card can be divided into.", [device.slots_total for device in devices]),
        ("slots_allocated", "Number of shares that are allocated.", [device.slots_used for device in devices]),
        ("pods", "Number of pods that have a share of the card.", [len(device.pods) for device in devices]),
        ("healthy", "1 if the device plugin reports the card as healthy.", [device.healthy for device in devices]),
    ):
        samples = zip(labels, map(float, values), strict=True)
        yield _with_samples(GaugeMetricFamily(f"deviceshare_card_{name}", text, labels=_CARD), samples)


def _overcommitted(devices: Iterable[Device]) -> Metric:
    counts = Counter(
        device.node
        for device in devices
        if device.memory_used > device.memory_total
        or device.cores_used > device.cores_total
        or device.slots_used > device.slots_total
    )
    family = GaugeMetricFamily(
        "deviceshare_cards_overcommitted", "Cards of the node of which more is allocated than exists.", labels=("node",)
    )
    return _with_samples(family, (((node,), count) for node, count in sorted(counts.items())))


def _cores_ratio(device: Device) -> float:
    return device.cores_used / device.cores_total if device.cores_total else 0.0


def _containers(snapshot: Snapshot) -> Metric:
    memory: Counter[tuple[str, str, str, str, str]] = Counter()
    for share in snapshot.shares:
        memory[share.namespace, share.pod, share.container, share.node, share.card] += share.memory
    family = GaugeMetricFamily(
        "deviceshare_container_memory_bytes",
        "Device memory allocated to the container.",
        labels=("namespace", "pod", "container", "node", "device"),
    )
    return _with_samples(family, ((key, amount * MIB) for key, amount in memory.items()))


def _counts(snapshot: Snapshot) -> Iterator[Metric]:
    yield _by_state("pods", "Pods.", POD_STATES, Counter(pod.state for pod in snapshot.pods))
    yield _by_state("claims", "Claims in the ledger.", CLAIM_STATES, Counter(claim.state for claim in snapshot.claims))
    yield _by_state("nodes", "Nodes.", NODE_STATES, Counter(map(node_state, snapshot.nodes)))
    family = GaugeMetricFamily(
        "deviceshare_device_problems",
        "Cards and nodes that bound pods lost, unhealthy cards of pods, and bound pods without devices.",
        labels=("problem",),
    )
    kinds = ((kind, snapshot.device_problems.get(kind, 0)) for kind in DEVICE_PROBLEMS)
    yield _with_samples(family, (((kind.replace(" ", "_"),), number) for kind, number in kinds))
    text = "Gangs with pending pods and fewer placed pods than minMember."
    yield GaugeMetricFamily("deviceshare_gangs_pending", text, value=snapshot.gangs_pending)
    family = GaugeMetricFamily("deviceshare_queue_pods", "Pods of the queue.", labels=("queue", "state"))
    counts = Counter((pod.queue, pod.state) for pod in snapshot.pods if pod.state != OTHER)
    for queue in sorted({*snapshot.queues, *(queue for queue, _ in counts)}):
        for state in POD_STATES:
            family.add_metric((queue, state.lower()), counts[queue, state])
    yield family
    text = "Pending pods that wait for this reason; a pod counts for each of its reasons."
    family = GaugeMetricFamily("deviceshare_unschedulable_pods", text, labels=("reason",))
    yield _with_samples(family, (((code,), count) for code, count in sorted(snapshot.unschedulable.items())))
    text = "When the oldest pending pod of the queue was created, in unix seconds."
    family = GaugeMetricFamily("deviceshare_queue_oldest_pending_timestamp_seconds", text, labels=("queue",))
    yield _with_samples(family, (((queue,), at) for queue, at in sorted(snapshot.oldest_pending.items())))
    text = "When the oldest open claim was decided, in unix seconds; missing if no claim is open."
    family = GaugeMetricFamily("deviceshare_claims_oldest_open_timestamp_seconds", text)
    opened = [claim.decided_at for claim in snapshot.claims if claim.state in ("open", "withdrawing")]
    yield _with_samples(family, [((), min(opened))] if opened else [])
    text = "Claims with the outcome bound whose pod is not bound in the cluster."
    yield GaugeMetricFamily("deviceshare_claims_unconfirmed", text, value=snapshot.unconfirmed)


def _by_state(name: str, text: str, states: Iterable[str], counts: Counter[str]) -> Metric:
    family = GaugeMetricFamily(f"deviceshare_{name}", text, labels=("state",))
    return _with_samples(family, (((state.lower(),), counts[state]) for state in states))


def _tallied(tallies: Tallies) -> Iterator[Metric]:
    steps = CounterMetricFamily("deviceshare_steps", "Steps in the life of pods.", labels=("service", "step"))
    yield _with_samples(steps, tallies.steps.items())
    undecodable = CounterMetricFamily(
        "deviceshare_undecodable_messages",
        "Messages that could not be decoded and were put in quarantine.",
        labels=("stream",),
    )
    yield _with_samples(undecodable, (((stream,), count) for stream, count in tallies.undecodable.items()))
    attempts = CounterMetricFamily("deviceshare_schedule_attempts", "Attempts to place pods.", labels=("result",))
    yield _with_samples(attempts, (((result,), count) for result, count in sorted(tallies.attempts.items())))
    waits = tallies.seen_to_bound
    yield HistogramMetricFamily(
        "deviceshare_pod_seen_to_bound_seconds",
        "Time from the moment a pod was first seen until it was bound.",
        buckets=[
            (bound, count, Exemplar({"trace_id": found[0]}, *found[1:])) if found is not None else (bound, count)
            for (bound, count), found in zip(waits.cumulative(), waits.exemplars, strict=True)
        ],
        sum_value=waits.sum,
    )
    reconciled = CounterMetricFamily(
        "deviceshare_reconciled",
        "Differences from the cluster that were found and repaired.",
        labels=("service", "what"),
    )
    by_name: dict[str, Counter[str]] = {}
    for (service, name), count in tallies.counters.items():
        if name.startswith(ATTEMPTS):
            continue
        if name.startswith(RECONCILED):
            reconciled.add_metric((service, name.removeprefix(RECONCILED)), count)
            continue
        clean = re.sub(r"[^a-zA-Z0-9_]", "_", name).removesuffix("_total")
        if clean not in _OWN_COUNTERS:
            by_name.setdefault(clean, Counter())[service] += count
    yield reconciled
    for name, services in sorted(by_name.items()):
        family = CounterMetricFamily(f"deviceshare_{name}", f"Counted by the services: {name}.", labels=("service",))
        yield _with_samples(family, (((service,), count) for service, count in services.items()))


def _with_samples(family: _Labelled, samples: Iterable[tuple[Sequence[str], float]]) -> _Labelled:
    """Add samples, each with the values of its labels."""
    for values, value in samples:
        family.add_metric(values, value)
    return family
