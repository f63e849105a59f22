"""Metrics of pods that go for others: ours, and those of kube-scheduler and Volcano for existing dashboards.

Sources: Kubernetes pkg/scheduler/metrics (metrics.go), Volcano pkg/scheduler/metrics (metrics.go).
"""

from collections.abc import Iterator
from itertools import accumulate

from deviceshare_bus.messages.codec import (
    BLOCKED_EVICTIONS,
    CHOSEN_BOUNDS,
    CHOSEN_VICTIMS,
    PREEMPTION_ATTEMPTS,
    PREEMPTIONS,
    TOTAL,
    WASTED_VICTIMS,
    VictimLabels,
)
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, UnknownMetricFamily

from deviceshare_metrics.core import Tallies
from deviceshare_metrics.totals import Totals

PREEMPTION_PREFIXES = (BLOCKED_EVICTIONS, PREEMPTIONS, CHOSEN_VICTIMS, PREEMPTION_ATTEMPTS, WASTED_VICTIMS)
"""With these the names of the services' counters begin that are shown here."""
_ACTIONS = ("preempt", "reclaim")


def preemption(tallies: Tallies) -> Iterator[Metric]:
    """Yield our metrics, and kube-scheduler's; the counters exist before the first pod goes."""
    victims = CounterMetricFamily(
        "deviceshare_preemption_victims", "Pods that were evicted for others.", labels=VictimLabels._fields
    )
    for labels in sorted({*map(VictimLabels, _ACTIONS), *tallies.victims}):
        victims.add_metric(labels, tallies.victims[labels])
    yield victims
    blocked = tallies.labelled(BLOCKED_EVICTIONS)
    text = "Pods that had to go and could not be evicted."
    family = CounterMetricFamily("deviceshare_preemption_blocked", text, labels=("reason",))
    for reason in sorted({"budget", "forbidden", *blocked}):
        family.add_metric((reason,), blocked[reason])
    yield family
    text = "Pods that were evicted for nominations that were withdrawn."
    yield CounterMetricFamily("deviceshare_preemption_wasted_victims", text, value=_total(tallies, WASTED_VICTIMS))
    text = "Time from the nomination of a pod until it was bound."
    waits = tallies.nominated_to_bound
    yield HistogramMetricFamily(
        "deviceshare_preemption_waiting_seconds", text, buckets=waits.cumulative(), sum_value=waits.sum
    )
    text = "Groups for which it was looked whether pods may go."
    yield CounterMetricFamily("deviceshare_preemption_attempts", text, value=_total(tallies, PREEMPTION_ATTEMPTS))
    text = "Total preemption attempts in the cluster till now."
    yield CounterMetricFamily("scheduler_preemption_attempts", text, value=_total(tallies, PREEMPTION_ATTEMPTS))
    chosen = tallies.labelled(CHOSEN_VICTIMS)
    bounds = [*map(str, CHOSEN_BOUNDS), "+Inf"]
    yield HistogramMetricFamily(
        "scheduler_preemption_victims",
        "Number of selected preemption victims.",
        buckets=list(zip(bounds, map(float, accumulate(chosen[bound] for bound in bounds)), strict=True)),
        sum_value=chosen[TOTAL],
    )


def volcano_preemption(totals: Totals, tallies: Tallies) -> Iterator[Metric]:
    """Yield Volcano's metrics."""
    text = "Number of selected preemption victims: pods that have to go now."
    yield GaugeMetricFamily("volcano_pod_preemption_victims", text, value=totals.going)
    # A counter whose name does not end in _total, as Volcano's: prometheus_client would append it.
    text = "Total preemption attempts in the cluster till now."
    yield UnknownMetricFamily("volcano_total_preemption_attempts", text, value=_total(tallies, PREEMPTION_ATTEMPTS))
    decided = tallies.labelled(PREEMPTIONS)
    text = "Decisions by which pods are evicted."
    family = CounterMetricFamily("volcano_eviction_transactions", text, labels=("action",))
    for action in sorted({*_ACTIONS, *decided}):
        family.add_metric((action,), decided[action])
    yield family


def _total(tallies: Tallies, name: str) -> int:
    """Return a counter of all services."""
    return tallies.labelled(name)[""]
