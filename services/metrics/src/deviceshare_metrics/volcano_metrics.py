"""Volcano's metrics of its scheduler, queues and jobs, for existing dashboards: only those whose meaning is the same.

Names, labels, units: volcano-sh/volcano pkg/scheduler/metrics (metrics.go, queue.go, job.go). CPU is in millicores,
memory in bytes, other resources in thousandths. The names follow none of Prometheus's conventions; those in
:mod:`.exposition` do.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from deviceshare.model import GroupKey
from deviceshare.queueing import Queues
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from deviceshare_metrics.card_metrics import Detail
from deviceshare_metrics.core import Tallies
from deviceshare_metrics.preemption_metrics import volcano_preemption
from deviceshare_metrics.totals import Totals

_CPU, _MEMORY = "cpu", "memory"
_PLAIN = {_CPU: "milli_cpu", _MEMORY: "memory_bytes"}
_SCALAR = 1000
"""Volcano counts resources other than CPU and memory in thousandths (api.Resource.ScalarResources)."""
_QUEUE = ("queue_name",)


def volcano(totals: Totals, accounts: Queues, tallies: Tallies, detail: Detail = "card") -> Iterator[Metric]:
    """Yield Volcano's metrics, those of jobs at the detail of cards only."""
    yield from _attempts(tallies)
    yield from volcano_preemption(totals, tallies)
    text = "Number of jobs could not be scheduled."
    yield GaugeMetricFamily("volcano_unschedule_job_count", text, value=len(totals.pending))
    if detail == "card":
        yield from _jobs(totals, accounts)
    queues = {name: accounts.account(name) for name in sorted(accounts.names)}
    for what, text, amounts in (
        ("allocated", "Allocated", {name: queue.allocated for name, queue in queues.items()}),
        ("request", "Requested", {name: queue.requested for name, queue in queues.items()}),
        ("deserved", "Deserved", {name: queue.deserved for name, queue in queues.items()}),
        ("capacity", "Capability", {name: queue.fact.capability for name, queue in queues.items()}),
        ("real_capacity", "Bounds", {name: queue.bound for name, queue in queues.items()}),
    ):
        yield from _resources(what, text, amounts)
    share = GaugeMetricFamily("volcano_queue_share", "Share for one queue.", labels=_QUEUE)
    weight = GaugeMetricFamily("volcano_queue_weight", "Weight for one queue.", labels=_QUEUE)
    overused = GaugeMetricFamily("volcano_queue_overused", "If one queue is overused.", labels=_QUEUE)
    for name, queue in queues.items():
        fractions = [queue.allocated[each] / amount for each, amount in queue.deserved.items() if amount]
        share.add_metric((name,), max(fractions, default=0.0))
        weight.add_metric((name,), queue.fact.weight)
        overused.add_metric((name,), float(bool(fractions) and min(fractions) >= 1.0))
    yield from (share, weight, overused)


def _attempts(tallies: Tallies) -> Iterator[Metric]:
    family = CounterMetricFamily(
        "volcano_schedule_attempts",
        "Number of attempts to schedule pods, by the result: 'unschedulable' means a pod could not be scheduled, "
        "'error' that its claim was refused.",
        labels=("result",),
    )
    for result, count in sorted(tallies.attempts.items()):
        family.add_metric((result,), count)
    yield family
    waits = tallies.seen_to_bound
    yield HistogramMetricFamily(
        "volcano_task_scheduling_latency_milliseconds",
        "Task scheduling latency in milliseconds (task create to task bound to a node).",
        buckets=[
            (bound if bound == "+Inf" else str(float(bound) * 1000), count) for bound, count in waits.cumulative()
        ],
        sum_value=waits.sum * 1000,
    )


def _jobs(totals: Totals, accounts: Queues) -> Iterator[Metric]:
    """Yield the metrics of PodGroups; pods without one are no jobs here, though each has a group of its own."""
    groups = sorted(totals.jobs)
    by_name: Counter[str] = Counter()
    for group in groups:
        if count := totals.pending[group]:
            by_name[_job(group)[1]] += count
    tasks = GaugeMetricFamily(
        "volcano_unschedule_task_count", "Number of tasks could not be scheduled.", labels=("job_id",)
    )
    for name, count in sorted(by_name.items()):
        tasks.add_metric((name,), count)
    yield tasks
    share = GaugeMetricFamily("volcano_job_share", "Share for one job.", labels=("job_ns", "job_id"))
    for group in groups:
        share.add_metric(_job(group), accounts.dominant_share(GroupKey(group)))
    yield share


def _job(group: str) -> tuple[str, str]:
    """Return the namespace and the name of a group."""
    namespace, _, name = group.partition("/")
    return namespace, name


def _resources(what: str, text: str, amounts: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    for resource, suffix in _PLAIN.items():
        family = GaugeMetricFamily(f"volcano_queue_{what}_{suffix}", f"{text} {resource} for one queue.", labels=_QUEUE)
        for queue, of_queue in amounts.items():
            if what not in ("capacity", "real_capacity") or resource in of_queue:
                family.add_metric((queue,), float(of_queue.get(resource, 0)))
        yield family
    family = GaugeMetricFamily(
        f"volcano_queue_{what}_scalar_resources",
        f"{text} scalar resources for one queue.",
        labels=(*_QUEUE, "resource"),
    )
    for queue, of_queue in amounts.items():
        for resource, amount in sorted(of_queue.items()):
            if resource not in _PLAIN:
                family.add_metric((queue, resource), float(amount) * _SCALAR)
    yield family
