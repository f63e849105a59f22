"""Prometheus: the state and the tallies as metric families.

Series are created from the state for each scrape, so that those of deleted objects disappear at once. Cards
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
from msgspec.structs import replace
from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Exemplar

from deviceshare_metrics.api import CLAIM_STATES, NODE_STATES, POD_STATES, RESOURCE_CLAIM_STATES
from deviceshare_metrics.card_metrics import Detail, cluster_gauges, node_gauges
from deviceshare_metrics.core import StateStore, Tallies, build_snapshot
from deviceshare_metrics.core.accounts import queue_accounts
from deviceshare_metrics.core.fragmented_pods import FragmentedPods
from deviceshare_metrics.core.parts import parts
from deviceshare_metrics.core.states import OTHER
from deviceshare_metrics.core.usage import Cards
from deviceshare_metrics.many_series import Encode, encoded, last_line
from deviceshare_metrics.preemption_metrics import PREEMPTION_PREFIXES, preemption
from deviceshare_metrics.sections import Piece
from deviceshare_metrics.totals import Totals
from deviceshare_metrics.volcano_metrics import volcano

_Labelled = TypeVar("_Labelled", GaugeMetricFamily, CounterMetricFamily)
_OWN_COUNTERS = frozenset({"steps", "undecodable_messages"})
"""Counted by the core from the messages themselves; a service's counter of that name would be a duplicate."""
_FROM_ZERO = {"facts_refused": "inventory", "outcomes_refused": "binder"}
"""Counters that exist before the first event, since an alert looks at their increase, and the service of each."""


def expose(
    store: StateStore, tallies: Tallies, accept: str, own: Iterable[Metric] = (), detail: Detail = "card"
) -> tuple[Iterator[Piece], str]:
    """Return the text in pieces and its content type, in the newest format that ``accept`` (a request's header) allows.

    The pieces are computed one by one, from parts of the store: the snapshot of a large cluster takes hundreds of
    megabytes. ``store`` and ``tallies`` must not change meanwhile; ``own`` follows at the end.
    """
    encode, content_type = choose_encoder(accept)
    return _pieces(encode, store, tallies, own, detail), content_type


def _pieces(
    encode: Encode, store: StateStore, tallies: Tallies, own: Iterable[Metric], detail: Detail
) -> Iterator[Piece]:
    totals = Totals()
    yield from _of_nodes(encode, store, totals, detail)
    store = replace(store, histories={})  # frees the copy
    for gauge in cluster_gauges(totals):
        for text in gauge.encoded(encode):
            yield Piece("", text)
    accounts = queue_accounts(store)
    for metric in chain(_metrics(store, totals, tallies), volcano(totals, accounts, tallies, detail), own):
        yield Piece("", encoded(encode, metric))
    yield Piece("", last_line(encode))


def _of_nodes(encode: Encode, store: StateStore, totals: Totals, detail: Detail) -> Iterator[Piece]:
    """Yield the gauges of nodes and of what is on them, a section for each gauge, and count all parts in ``totals``."""
    begun = set[str]()
    fragmented = FragmentedPods(store, Cards(store))
    for part in parts(store):
        snapshot = build_snapshot(part, fragmented)
        totals.add(snapshot)
        for gauge in node_gauges(snapshot, detail):
            head, *series = gauge.encoded(encode)
            for text in series if gauge.name in begun else (head, *series):
                yield Piece(gauge.name, text)
            begun.add(gauge.name)


def _metrics(store: StateStore, totals: Totals, tallies: Tallies) -> Iterator[Metric]:
    text = "Cards of the node of which more is allocated than exists."
    family = GaugeMetricFamily("deviceshare_cards_overcommitted", text, labels=("node",))
    yield _with_samples(family, (((node,), count) for node, count in sorted(totals.overcommitted.items())))
    yield from _counts(store, totals)
    yield from _tallied(tallies)
    yield InfoMetricFamily(
        "deviceshare_build", "The running version.", value={"version": version("deviceshare-metrics")}
    )
    yield from ProcessCollector(registry=None).collect()


def _counts(store: StateStore, totals: Totals) -> Iterator[Metric]:
    yield _by_state("pods", "Pods.", POD_STATES, totals.pods)
    yield _by_state("claims", "Claims in the ledger.", CLAIM_STATES, totals.claims)
    yield _by_state("nodes", "Nodes.", NODE_STATES, totals.nodes)
    family = GaugeMetricFamily(
        "deviceshare_device_problems",
        "Cards and nodes that bound pods lost, unhealthy cards of pods, and bound pods without devices.",
        labels=("problem",),
    )
    kinds = ((kind, totals.device_problems[kind]) for kind in DEVICE_PROBLEMS)
    yield _with_samples(family, (((kind.replace(" ", "_"),), number) for kind, number in kinds))
    text = "Gangs with pending pods and fewer placed pods than minMember."
    yield GaugeMetricFamily("deviceshare_gangs_pending", text, value=totals.gangs_pending(store.groups.values()))
    family = GaugeMetricFamily("deviceshare_queue_pods", "Pods of the queue.", labels=("queue", "state"))
    for queue in sorted({*totals.queues, *(queue for queue, _ in totals.queue_pods)}):
        for state in POD_STATES:
            if state == OTHER:
                continue  # such a pod has no queue
            family.add_metric((queue, state.lower()), totals.queue_pods[queue, state])
    yield family
    text = "Pending pods that wait for this reason; a pod counts for each of its reasons."
    family = GaugeMetricFamily("deviceshare_unschedulable_pods", text, labels=("reason",))
    yield _with_samples(family, (((code,), count) for code, count in sorted(totals.unschedulable.items())))
    text = "When the oldest pending pod of the queue was created, in unix seconds."
    family = GaugeMetricFamily("deviceshare_queue_oldest_pending_timestamp_seconds", text, labels=("queue",))
    yield _with_samples(family, (((queue,), at) for queue, at in sorted(totals.oldest_pending.items())))
    text = "When the oldest open claim was decided, in unix seconds; missing if no claim is open."
    family = GaugeMetricFamily("deviceshare_claims_oldest_open_timestamp_seconds", text)
    yield _with_samples(family, [((), at) for at in totals.oldest_open])
    text = "Claims with the outcome bound whose pod is not bound in the cluster."
    yield GaugeMetricFamily("deviceshare_claims_unconfirmed", text, value=totals.unconfirmed)
    text = "Claimed pods whose PersistentVolumeClaims are bound before them."
    yield GaugeMetricFamily("deviceshare_pods_binding_volumes", text, value=totals.binding_volumes)
    yield _by_state("resourceclaims", "ResourceClaims.", RESOURCE_CLAIM_STATES, totals.resource_claims)
    devices, allocated, classes = Counter[str](), Counter[str](), Counter(dict.fromkeys(totals.device_classes, 0))
    for each in totals.drivers:
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
