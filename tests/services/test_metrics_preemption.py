"""Metrics of pods that go for others: ours, Volcano's and kube-scheduler's."""

from deviceshare.model import Eviction, NodeLedger
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Step
from deviceshare_metrics.core.tallies import MAX_SERIES
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from support.metrics import exposed, read

OWNED = {"queue": "research", "owner_kind": "Job", "owner_name": "team/train"}


def scrape(core, accept="", parser=parse):
    found = {}
    for family in parser(exposed(core, accept)):
        for sample in family.samples:
            found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def value(found, name, **labels):
    return found.get((name, frozenset(labels.items())))


def counted(service, into=None, steps=(), **counters):
    event = Events(service=service, instance="x", at=1.0, steps=steps, counters=counters)
    return (
        read((subjects.event(service), event), into=into)
        if into is not None
        else read((subjects.event(service), event))
    )


def eviction(**fields):
    return Eviction(
        uid="v", namespace="team", name="v", claim="c", preemptor="team/p", action="preempt", queue="research",
        owner=("Job", "team/train"), **fields,
    )  # fmt: skip


def test_everything_is_counted_from_zero():
    found = scrape(read())
    for action in ("preempt", "reclaim"):
        none = {"queue": "", "owner_kind": "", "owner_name": ""}
        assert value(found, "deviceshare_preemption_victims_total", action=action, **none) == 0
        assert value(found, "volcano_eviction_transactions_total", action=action) == 0
    for reason in ("budget", "forbidden"):
        assert value(found, "deviceshare_preemption_blocked_total", reason=reason) == 0
    for name in (
        "deviceshare_preemption_wasted_victims_total",
        "deviceshare_preemption_attempts_total",
        "scheduler_preemption_attempts_total",
        "scheduler_preemption_victims_count",
        "volcano_total_preemption_attempts",
        "volcano_pod_preemption_victims",
        "deviceshare_preemption_waiting_seconds_count",
    ):
        assert value(found, name) == 0, name


def test_evicted_pods_are_counted_by_queue_and_owner_and_exist_before():
    core = read((subjects.ledger("n1"), NodeLedger(node="n1", evictions=(eviction(),))))
    found = scrape(core)
    assert value(found, "deviceshare_preemption_victims_total", action="preempt", **OWNED) == 0
    assert value(found, "volcano_pod_preemption_victims") == 1
    counted("binder", into=core, **{"preemption_victims:preempt\nresearch\nJob\nteam/train": 2})
    read((subjects.ledger("n1"), NodeLedger(node="n1")), into=core)
    for accept, parser in (("", parse), ("application/openmetrics-text; version=1.0.0", parse_openmetrics)):
        found = scrape(core, accept, parser)
        assert value(found, "deviceshare_preemption_victims_total", action="preempt", **OWNED) == 2
        assert value(found, "volcano_pod_preemption_victims") == 0
        assert not [name for name, _ in found if "research" in name], "no counter of its own"


def test_very_many_owners_are_added_up():
    names = {f"preemption_victims:preempt\nq\nJob\nteam/{number}": 1 for number in range(MAX_SERIES + 10)}
    core = counted("binder", **names, **{"preemption_blocked:budget": 1})
    found = scrape(core)
    rest = {"queue": "other", "owner_kind": "other", "owner_name": "other"}
    assert value(found, "deviceshare_preemption_victims_total", action="preempt", **rest) == 10
    assert value(found, "deviceshare_preemption_blocked_total", reason="budget") == 1


def test_decisions_and_attempts_have_the_names_of_volcano_and_kube_scheduler():
    core = counted("placement", preemption_attempts=5, preemption_wasted_victims=1, **{
        "preemptions:preempt": 3, "preemptions:reclaim": 1, "preemption_victims_chosen:1": 2,
        "preemption_victims_chosen:4": 1, "preemption_victims_chosen:+Inf": 1, "preemption_victims_chosen:total": 105,
    })  # fmt: skip
    found = scrape(core)
    for name in ("volcano_total_preemption_attempts", "scheduler_preemption_attempts_total"):
        assert value(found, name) == 5
    assert value(found, "deviceshare_preemption_wasted_victims_total") == 1
    assert value(found, "volcano_eviction_transactions_total", action="preempt") == 3
    assert value(found, "volcano_eviction_transactions_total", action="reclaim") == 1
    buckets = [value(found, "scheduler_preemption_victims_bucket", le=le) for le in ("1", "2", "4", "64", "+Inf")]
    assert buckets == [2, 2, 3, 3, 4]
    assert value(found, "scheduler_preemption_victims_sum") == 105
    assert value(found, "scheduler_preemption_victims_count") == 4


def test_how_long_nominated_pods_wait_is_measured():
    steps = tuple(Step("u", "team/u", name, at) for name, at in (("seen", 1.0), ("nominated", 10.0), ("bound", 50.0)))
    other = tuple(Step("w", "team/w", name, at) for name, at in (("seen", 1.0), ("bound", 50.0)))
    found = scrape(counted("binder", steps=(*steps, *other)))
    assert value(found, "deviceshare_preemption_waiting_seconds_count") == 1
    assert value(found, "deviceshare_preemption_waiting_seconds_sum") == 40.0
