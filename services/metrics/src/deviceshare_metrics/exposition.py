"""Prometheus: a snapshot and the tallies as metric families.

Series are created from the snapshot for each scrape, so that those of deleted objects disappear at once. Cards
(:mod:`.card_metrics`) are shown twice: under Volcano's own six names, for existing dashboards, and in base units with
plain labels.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import chain
from typing import TypeVar

from deviceshare.model import DEVICE_PROBLEMS
from deviceshare_bus.messages.codec import ATTEMPTS, COMPARED_PODS, RECONCILED
from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Exemplar

from deviceshare_metrics.api import CLAIM_STATES, NODE_STATES, POD_STATES, RESOURCE_CLAIM_STATES, Device
from deviceshare_metrics.card_metrics import Detail, card_gauges
from deviceshare_metrics.core import Snapshot, Tallies
from deviceshare_metrics.core.states import OTHER, node_state
from deviceshare_metrics.core.usage import overcommitted
from deviceshare_metrics.many_series import Encode, Gauge, encoded, last_line
from deviceshare_metrics.preemption_metrics import PREEMPTION_PREFIXES, preemption

_Labelled = TypeVar("_Labelled", GaugeMetricFamily, CounterMetricFamily)
_OWN_COUNTERS = frozenset({"steps", "undecodable_messages"})
"""Counted by the core from the messages themselves; a service's counter of that name would be a duplicate."""
_FROM_ZERO = {"facts_refused": "inventory", "outcomes_refused": "binder"}
"""Counters that exist before the first event, since an alert looks at their increase, and the service of each."""


def expose(
    snapshot: Snapshot, tallies: Tallies, accept: str, more: Iterable[Metric] = (), detail: Detail = "card"
) -> tuple[Iterator[bytes], str]:
    """Return the text in parts and its content type, in the newest format that ``accept`` (a request's header) allows.

    The parts are computed one by one: all of them take a second for tens of thousands of cards. ``tallies`` must not
    change meanwhile; ``more`` follows at the end.
    """
    encode, content_type = choose_encoder(accept)
    return _encoded(encode, card_gauges(snapshot, detail), chain(_metrics(snapshot, tallies), more)), content_type


def _encoded(encode: Encode, cards: Iterable[Gauge], metrics: Iterable[Metric]) -> Iterator[bytes]:
    for gauge in cards:
        yield from gauge.encoded(encode)
    for metric in metrics:
        yield encoded(encode, metric)
    yield last_line(encode)


def _metrics(snapshot: Snapshot, tallies: Tallies) -> Iterator[Metric]:
    yield _overcommitted(snapshot.registered)
    yield from _counts(snapshot)
    yield from _tallied(tallies)
    yield InfoMetricFamily(
        "deviceshare_build", "The running version.", value={"version": version("deviceshare-metrics")}
    )
    yield from ProcessCollector(registry=None).collect()


def _overcommitted(devices: Iterable[Device]) -> Metric:
    counts = Counter(device.node for device in devices if overcommitted(device))
    family = GaugeMetricFamily(
        "deviceshare_cards_overcommitted", "Cards of the node of which more is allocated than exists.", labels=("node",)
    )
    return _with_samples(family, (((node,), count) for node, count in sorted(counts.items())))


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
            if state == OTHER:
                continue  # such a pod has no queue
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
    text = "Claimed pods whose PersistentVolumeClaims are bound before them."
    yield GaugeMetricFamily("deviceshare_pods_binding_volumes", text, value=snapshot.binding_volumes)
    states = Counter(snapshot.resource_claims)
    yield _by_state("resourceclaims", "ResourceClaims.", RESOURCE_CLAIM_STATES, states)
    devices, allocated, classes = Counter[str](), Counter[str](), Counter(dict.fromkeys(snapshot.device_classes, 0))
    for each in snapshot.drivers:
        devices[each.driver] += each.devices
        allocated[each.driver] += each.allocated
        classes.update(each.classes)
    for name, text, label, numbers in (
        ("driver_devices", "Devices that the driver publishes in ResourceSlices.", "driver", devices),
        ("driver_devices_allocated", "Devices of the driver that ResourceClaims have.", "driver", allocated),
        ("deviceclass_devices_allocated", "Devices that ResourceClaims have by the class.", "device_class", classes),
    ):
        family = GaugeMetricFamily(f"deviceshare_{name}", text, labels=(label,))
        yield _with_samples(family, (((key,), number) for key, number in sorted(numbers.items())))


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
    yield from preemption(tallies)
    compared = CounterMetricFamily(
        "deviceshare_dry_run_compared_pods",
        "Pods by what another scheduler did with them, compared with the decision (--dry-run).",
        labels=("result",),
    )
    found = sorted(tallies.labelled(COMPARED_PODS).items())
    yield _with_samples(compared, (((result,), count) for result, count in found))
    by_name = {name: Counter({service: 0}) for name, service in _FROM_ZERO.items()}
    for (service, name), count in tallies.counters.items():
        if name.startswith((ATTEMPTS, COMPARED_PODS, *PREEMPTION_PREFIXES)):
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
