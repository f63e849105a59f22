"""When a waiting pod starts, by what the metrics service has read, in the answer and on the command line."""

import asyncio
import time

import pytest
from deviceshare.model import Gone, GroupKey, PodGroupFact, Refusal
from deviceshare_bus.cores.core import Now, Tick
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import encode
from deviceshare_cli.explaining import explanation_text
from deviceshare_metrics.core.start_estimates import INTERVAL
from deviceshare_metrics.queries import Queries
from msgspec.structs import replace
from support.builders import vgpu
from support.metrics import catch_up, read, receive
from support.metrics_messages import claim, explanation, ledger, node, pod

WAITED = 1000.0
STEP = WAITED + 2 * INTERVAL
FEW = "too few equal pods have waited and started in its queue"


def answer(core, name="w"):
    return asyncio.run(Queries(core).explain("default", name))


def read_at(core, seconds_ago, *messages):
    now = Now(time.monotonic() - seconds_ago, time.time() - seconds_ago)
    for subject, message in messages:
        receive(core, subject, encode(message), now)
    core.handle(Tick(), now)


def seen_waiting(name="w", ago=0.0, why=None, **more):
    """Return the messages about a pod that waits; ``why`` changes its explanation."""
    subject, message = explanation(name)
    return pod(name, created=time.time() - ago, **{"group": f"pod/uid-{name}", **more}), (
        subject,
        replace(message, **(why or {})),
    )


def past_pods(count=60, gone=False, **more):
    """Return a core that has read how pods waited and started one after the other until now, each after some WAITED.

    Not all after the same time: ranges would end at it, and be right or wrong by milliseconds.
    """
    core = read(node())
    catch_up(core, Now(time.monotonic() - count * STEP, time.time() - count * STEP))
    for number in range(count):
        ago = (count - number) * STEP
        name = f"p{number}"
        read_at(core, ago, *seen_waiting(name, ago, **more))
        for seconds in (INTERVAL, 2 * INTERVAL, 3 * INTERVAL):
            read_at(core, ago - seconds)
        started = pod(name, created=time.time() - ago, node="n1", **more)
        read_at(core, ago - WAITED * (0.8 + number * 37 % 40 / 100), (started[0], Gone()) if gone else started)
    return core


def waits(core, name="w", **more):
    read_at(core, 0.0, *seen_waiting(name, **more))
    return answer(core, name)


def test_a_pod_starts_after_as_long_as_equal_pods_waited():
    found = waits(past_pods())
    earliest, latest = found.start.earliest - time.time(), found.start.latest - time.time()
    assert 0 < earliest <= latest < 3 * WAITED
    assert found.start.no_estimate == ""
    text = explanation_text("default/w", found, None, time.time())
    assert "queue default: position 1 of 1\n" in text
    assert "(some 80% of such ranges are right)" in text


def test_a_step_of_the_wall_clock_changes_no_range(monkeypatch):
    core = past_pods()
    before = waits(core).start
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 5 * 3600)
    after = answer(core).start
    assert after.latest - after.earliest == pytest.approx(before.latest - before.earliest, rel=0.01)


@pytest.mark.parametrize("other", [{"queue": "research"}, {"ask": vgpu(3, 20)}, {"priority": 3}])
def test_pods_of_other_queues_requests_and_priorities_do_not_count(other):
    found = waits(past_pods(), **other)
    assert found.start.no_estimate == FEW
    text = explanation_text("default/w", found, None, time.time())
    assert f"no estimate of when it starts: {FEW}\n" in text


def test_pods_of_another_namespace_do_not_count():
    core = past_pods()
    (_, fact), (subject, why) = seen_waiting()
    read_at(core, 0.0, (subjects.fact("pod", fact.uid), replace(fact, namespace="other")), (subject, why))
    assert asyncio.run(Queries(core).explain("other", "w")).start.no_estimate == FEW


def test_pods_of_a_group_are_of_its_queue_and_of_its_size():
    group = PodGroupFact(key=GroupKey("default/g"), queue="research", min_member=2, phase="Inqueue", admitted=True)
    core = past_pods(queue="research")
    read_at(core, 0.0, (subjects.fact("podgroup", group.key), group))
    assert waits(core, group=group.key).start.no_estimate == FEW


def test_pods_that_are_gone_have_not_started():
    assert waits(past_pods(gone=True)).start.no_estimate == FEW


def test_a_pod_that_does_not_wait_has_no_start():
    core = past_pods(1)
    assert waits(core, node="n1").start is None
    assert waits(core, "t", terminating=True).start is None
    assert waits(core, "e", ended=True).start is None


def no_estimate(why, **more):
    return waits(past_pods(), why=why, **more).start.no_estimate


def test_no_estimate_for_a_pod_that_is_refused_or_that_no_node_fits():
    assert no_estimate({"refused": True}) == "its request is refused"
    selector = Refusal(code="NodeAffinityMismatch", text="node(s) didn't match", nodes=1)
    full = Refusal(code="CardInsufficientMemory", text="with too little free memory", nodes=1)
    assert no_estimate({"first_failing": (selector,)}) == "it fits no node, whichever pods end"
    assert no_estimate({"first_failing": (selector, full)}) == ""


def test_no_estimate_while_nodes_are_kept_free_or_pods_go_for_it():
    assert no_estimate({"kept_for": ("default/old",)}) == "nodes are kept free for another job"
    core = past_pods()
    read_at(core, 0.0, ledger(claim("w", waits_for=("uid-p1",))))
    assert waits(core).start.no_estimate == "it starts when the pods that go for it have ended"


def test_no_estimate_before_the_first_decision():
    core = past_pods()
    read_at(core, 0.0, seen_waiting()[0])
    assert answer(core).start.no_estimate == "it is not decided yet"


def test_no_estimate_behind_jobs_of_a_higher_priority():
    core = past_pods()
    assert waits(core).start.earliest
    read_at(core, 0.0, *seen_waiting("h", ago=5.0, priority=9))
    assert answer(core).start.no_estimate == "jobs of a higher priority are before it"
    assert answer(core, "h").start.no_estimate == FEW
    read_at(core, 0.0, pod("h", group="pod/uid-h", priority=9, node="n1"))
    assert answer(core).start.earliest


def test_no_estimate_after_a_pause():
    core = past_pods()
    read_at(core, 0.0, *seen_waiting(ago=20 * STEP))
    assert answer(core).start.no_estimate == ""
    core.start_times._estimates._kind_of["uid-w"].starts.extend([time.monotonic() - 20 * STEP] * 20)
    assert answer(core).start.no_estimate.startswith("no equal pod has started for ")
