"""Metrics of Volcano's scheduler, and what is shown of waiting pods and of claims."""

import pytest
from deviceshare.model import (
    BOUND,
    PENDING,
    Claim,
    ContainerRequest,
    Explanation,
    GroupKey,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    Outcome,
    PodFact,
    PodGroupFact,
    PodRequest,
    QueueFact,
    Refusal,
    trace_id,
)
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import ATTEMPTS, Events, Step
from prometheus_client.parser import text_string_to_metric_families as parse
from support.metrics import exposed, read, started

NODE = NodeFact(name="n1", allocatable={"cpu": 8000, "memory": 1 << 34, "pods": 100, "nvidia.com/gpu": 8})


def ask(cpu, gpus):
    requests = {"cpu": cpu, "nvidia.com/gpu": gpus}
    return PodRequest(containers=(ContainerRequest("main", tuple(requests.items())),))


def pod(name, cpu=1000, gpus=1, group="team/job", **more):
    return subjects.fact("pod", name), PodFact(
        uid=name, namespace="team", name=name, scheduler="volcano", group=GroupKey(group), ask=ask(cpu, gpus), **more
    )


def explained(uid, *codes):
    refusals = tuple(Refusal(code=code, text=code, nodes=1) for code in codes)
    return subjects.explain(uid), Explanation(
        uid=uid, namespace="team", name=uid, at=1.0, decision=PENDING, message="no room", refusals=refusals
    )


def cluster():
    return read(
        (subjects.fact("node", "n1"), NODE),
        (
            subjects.fact("queue", "research"),
            QueueFact(name="research", weight=3, capability={"cpu": 4000}, state="Open"),
        ),
        (subjects.fact("podgroup", "team.job"), PodGroupFact(key=GroupKey("team/job"), queue="research", min_member=1)),
        pod("bound", node="n1"),
        pod("claimed"),
        pod("late", created=50.0),
        pod("early", created=40.0),
        (
            subjects.ledger("n1"),
            NodeLedger(
                node="n1",
                claims=(
                    Claim(id="c1", uid="bound", namespace="team", name="bound", decided_at=10.0),
                    Claim(id="c2", uid="claimed", namespace="team", name="claimed", decided_at=20.0),
                    Claim(id="c3", uid="late2", namespace="team", name="late2", decided_at=30.0),
                ),
            ),
        ),
        (subjects.outcome("n1"), NodeOutcomes(node="n1", outcomes=(Outcome("c1", "bound", BOUND),))),
        explained("late", "CardInsufficientMemory", "NodeUnfitPod"),
        explained("early", "CardInsufficientMemory"),
    )


def samples(core):
    found = {}
    for family in parse(exposed(core)):
        for sample in family.samples:
            found[sample.name, *sorted(sample.labels.values())] = sample.value
    return found


def test_queues_and_jobs():
    found = samples(cluster())
    assert found["volcano_queue_allocated_milli_cpu", "research"] == 2000
    assert found["volcano_queue_request_milli_cpu", "research"] == 4000
    assert found["volcano_queue_allocated_scalar_resources", "nvidia.com/gpu", "research"] == 2000
    assert found["volcano_queue_capacity_milli_cpu", "research"] == 4000
    assert ("volcano_queue_capacity_memory_bytes", "research") not in found
    assert found["volcano_queue_weight", "research"] == 3
    share = max(2000 / found["volcano_queue_deserved_milli_cpu", "research"],
                2000 / found["volcano_queue_deserved_scalar_resources", "nvidia.com/gpu", "research"])  # fmt: skip
    assert found["volcano_queue_share", "research"] == pytest.approx(share)
    assert found["volcano_queue_overused", "research"] == 0
    assert found["volcano_unschedule_task_count", "job"] == 2
    assert found["volcano_unschedule_job_count",] == 1
    assert found["volcano_job_share", "job", "team"] == pytest.approx(2 / 8)


def test_why_and_how_long_pods_and_claims_wait():
    found = samples(cluster())
    assert found["deviceshare_unschedulable_pods", "CardInsufficientMemory"] == 2
    assert found["deviceshare_unschedulable_pods", "NodeUnfitPod"] == 1
    assert found["deviceshare_queue_oldest_pending_timestamp_seconds", "research"] == 40.0
    assert found["deviceshare_claims_oldest_open_timestamp_seconds",] == 20.0
    assert found["deviceshare_claims_unconfirmed",] == 0


def test_a_claim_that_is_bound_only_in_the_ledger():
    core = read(pod("bound"), into=cluster())
    assert samples(core)["deviceshare_claims_unconfirmed",] == 1


def test_attempts_and_exemplars():
    core = started()
    core.tallies.sampled = lambda uid: uid == "a"
    steps = tuple(Step(uid, f"team/{uid}", name, at) for uid, seen in (("a", 1.0), ("b", 2.0))
                  for name, at in (("seen", seen), ("bound", 5.0)))  # fmt: skip
    counters = {f"{ATTEMPTS}scheduled": 2, f"{ATTEMPTS}error": 1}
    message = Events(service="placement", instance="p", at=5.0, steps=steps, counters=counters)
    read((subjects.event("placement"), message), into=core)
    found = samples(core)
    for name in ("deviceshare_schedule_attempts_total", "volcano_schedule_attempts_total"):
        assert (found[name, "scheduled"], found[name, "error"]) == (2, 1)
    assert found["volcano_task_scheduling_latency_milliseconds_sum",] == 7000
    text = exposed(core, "application/openmetrics-text")
    (line,) = [line for line in text.splitlines() if "trace_id" in line]
    assert line.startswith("deviceshare_pod_seen_to_bound_seconds_bucket")
    assert trace_id("a") in line
