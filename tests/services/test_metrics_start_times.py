"""When a waiting pod starts, by the facts that the metrics service has read: in the answer, and on the command line."""

import asyncio
import time

import pytest
from deviceshare.model import Gone, GroupKey, PodGroupFact, PodRequest
from deviceshare.queueing.start_estimates import INTERVAL
from deviceshare_bus.cores.core import Now, Tick
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import encode
from deviceshare_cli.explaining import explanation_text
from deviceshare_metrics.queries import Queries
from support.builders import vgpu
from support.metrics import catch_up, read, receive
from support.metrics_messages import node, pod

WAITED = 1000.0


def shown(core, name):
    return asyncio.run(Queries(core).explain("default", name))


def past_pods(count=60, **more):
    """Return a core that has read how pods waited and started one after the other until now, each after WAITED."""
    core = read(node())
    catch_up(core)
    step = WAITED + 2 * INTERVAL
    for number in range(count):
        at = time.time() - (count - number) * step
        read_at(core, at, pod(f"p{number}", created=at, **more))
        for seconds in (INTERVAL, 2 * INTERVAL, 3 * INTERVAL):
            core.handle(Tick(), Now(at, at + seconds))
        read_at(core, at + WAITED, pod(f"p{number}", created=at, node="n1", **more))
    return core


def read_at(core, at, message):
    subject, fact = message
    receive(core, subject, encode(fact), Now(at, at))


def waits(core, name="w", **more):
    read_at(core, time.time(), pod(name, created=time.time(), **more))
    return shown(core, name)


def test_a_pod_starts_after_as_long_as_pods_with_the_same_request_waited():
    core = past_pods()
    answer = waits(core)
    in_seconds = [at - time.time() for at in (answer.start.earliest, answer.start.latest)]
    assert 0 < in_seconds[0] <= in_seconds[1] < 3 * WAITED
    text = explanation_text("default/w", answer, None, time.time())
    assert "queue default: position 1 of 1\n" in text
    assert "% of such estimates are right)" in text


@pytest.mark.parametrize("other", [{"queue": "research"}, {"ask": vgpu(3, 20)}])
def test_pods_of_other_queues_and_with_other_devices_do_not_count(other):
    answer = waits(past_pods(), **other)
    assert answer.start is None
    text = explanation_text("default/w", answer, None, time.time())
    assert "when it starts is not known: too few pods" in text


def test_a_pod_without_devices_and_one_that_waits_for_gates_have_no_range():
    core = past_pods()
    assert waits(core, ask=PodRequest()).start is None
    assert waits(core, "g", gates=("x",)).start is None


def test_a_pod_of_a_group_is_of_the_queue_of_the_group():
    group = PodGroupFact(key=GroupKey("default/g"), queue="research", phase="Inqueue", admitted=True)
    core = past_pods(queue="research")
    read((subjects.fact("podgroup", group.key), group), into=core)
    assert waits(core, group=group.key).start is not None


def test_pods_that_are_gone_have_not_started():
    core = read(node())
    catch_up(core)
    for number in range(60):
        at = time.time() - (60 - number) * 2 * INTERVAL
        read_at(core, at, pod(f"p{number}", created=at))
        core.handle(Tick(), Now(at, at + INTERVAL))
        receive(core, subjects.fact("pod", f"uid-p{number}"), encode(Gone()), Now(at, at + INTERVAL))
    assert waits(core).start is None
