"""When a waiting pod starts, by what the metrics service has read, in the answer and on the command line."""

import asyncio
import time

import pytest
from deviceshare.model import Disk, Gone, GroupKey, PodDeviceClaim, PodGroupFact, PodVolume, Refusal
from deviceshare_bus.cores.core import Now, Tick
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import encode
from deviceshare_cli.explaining import explanation_text
from deviceshare_metrics.core.start_estimates import INTERVAL, MAX_OF_OWNER
from deviceshare_metrics.queries import Queries
from msgspec.structs import replace
from support.builders import vgpu
from support.devices import claim as device_claim
from support.metrics import catch_up, read, receive
from support.metrics_messages import ASK, claim, explanation, ledger, node, pod

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


def past_pods(count=60, gone=False, own=lambda name: {}, **more):
    """Return a core that has read how pods waited and started one after the other until now, each after some WAITED.

    ``own``: the fields that each has for itself. Not all after the same time: ranges would end at it, and be right or
    wrong by milliseconds.
    """
    core = read(node())
    catch_up(core, Now(time.monotonic() - count * STEP, time.time() - count * STEP))
    for number in range(count):
        ago = (count - number) * STEP
        name = f"p{number}"
        fields = {**more, **own(name)}
        read_at(core, ago, *claims_of(fields), *seen_waiting(name, ago, **fields))
        for seconds in (INTERVAL, 2 * INTERVAL, 3 * INTERVAL):
            read_at(core, ago - seconds)
        started = pod(name, created=time.time() - ago, node="n1", **fields)
        read_at(core, ago - WAITED * (0.8 + number * 37 % 40 / 100), (started[0], Gone()) if gone else started)
    return core


def waits(core, name="w", **more):
    read_at(core, 0.0, *claims_of(more), *seen_waiting(name, **more))
    return answer(core, name)


def by_claim(count, of_pod=True):
    """Return the fields, by its name, of a pod with a ResourceClaim of its own for a number of GPUs."""

    def fields(name):
        return {"device_claims": (PodDeviceClaim("gpu", f"ns/{name}-{count}", "gpus" if of_pod else ""),)}

    return fields


def claims_of(fields):
    """Return the messages about the ResourceClaims that fields of :func:`by_claim` name."""
    for each in fields.get("device_claims", ()):
        name = each.claim.partition("/")[2]
        yield subjects.fact("deviceclaim", each.claim), device_claim(name, int(name.rpartition("-")[2]))


OWN = {
    "a PersistentVolumeClaim": lambda name: replace(
        ASK, volumes=(PodVolume("data", f"data-{name}"),), unsupported=("spec.volumes[data]",)
    ),
    "a disk": lambda name: replace(ASK, disks=(Disk((f"iqn.{name}",)),)),
    "a PodGroup whose pods share no card": lambda name: replace(ASK, apart_group=f"default/{name}"),
}
"""The requests of pods, by their names, that differ only in the name of what each has for itself."""


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


@pytest.mark.parametrize("of_pod", [True, False])
def test_pods_that_ask_for_other_devices_by_claims_do_not_count(of_pod):
    core = past_pods(own=by_claim(1, of_pod))
    assert waits(core, "v", **by_claim(1, of_pod)("v")).start.no_estimate == ""
    assert waits(core, **by_claim(8, of_pod)("w")).start.no_estimate == FEW


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_pods_that_each_have_something_of_their_own_are_equal(own):
    core = past_pods(own=lambda name: {"ask": own(name)})
    assert waits(core, ask=own("w")).start.no_estimate == ""
    assert waits(core, "v").start.no_estimate == FEW
    assert len(core.start_times._estimates._kinds) == 2


def test_a_pod_is_of_another_kind_when_its_group_arrives_changes_or_goes():
    core, group = past_pods(), GroupKey("default/g")
    assert waits(core, group=group).start.no_estimate == ""
    subject, fact = subjects.fact("podgroup", group), PodGroupFact(key=group, queue="research", min_member=2)
    read_at(core, 0.0, (subject, fact))
    assert answer(core).start.no_estimate == FEW
    read_at(core, 0.0, (subject, Gone()))
    assert answer(core).start.no_estimate == ""

    core = past_pods(group=group)
    read_at(core, 0.0, (subject, replace(fact, queue="default", min_member=1)))
    assert waits(core, group=group).start.no_estimate == FEW
    waits(core, "v")
    read_at(core, 0.0, pod("v", group=group), (subject, Gone()))
    assert answer(core, "v").start.no_estimate == ""


def test_a_pod_is_of_another_kind_when_its_claim_arrives_or_its_fact_changes():
    core, fields = past_pods(own=by_claim(1)), by_claim(1)("w")
    (claimed,) = claims_of(fields)
    read_at(core, 0.0, *seen_waiting(**fields))
    assert answer(core).start.no_estimate == FEW
    read_at(core, 0.0, claimed)
    assert answer(core).start.no_estimate == ""
    read_at(core, 0.0, pod("w", priority=3, **fields))
    assert answer(core).start.no_estimate == FEW
    read_at(core, 0.0, pod("w", node="n1", **fields))
    assert len(core.start_times._pods_of) == 0


def test_kinds_take_the_same_memory_however_large_requests_are():
    large = replace(ASK, node_selector=tuple((f"key-{at}", "v" * 60) for at in range(100)))
    core = past_pods(1, ask=large)
    ((_, kind),) = core.start_times._estimates._kinds
    assert isinstance(kind, bytes)
    assert len(kind) < 100


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
    sick = Refusal(code="CardNotHealth", text="node(s) had unhealthy cards", nodes=1)
    full = Refusal(code="CardInsufficientMemory", text="with too little free memory", nodes=1)
    shared = Refusal(code="ModeNotFit", text="node(s) had chips that hami-core shares", nodes=1)
    disabled = Refusal(code="FamilyDisabled", text="set deviceshare.GPUSharingEnable: true", nodes=0)
    for no_node in ({"first_failing": (selector,)}, {"first_failing": (selector, sick)}, {"refusals": (disabled,)}):
        assert no_estimate(no_node) == "it fits no node, whichever pods end"
    for taken in (full, shared):
        assert no_estimate({"first_failing": (selector, taken)}) == "", "pods on a chip decide on its mode, too"


def test_pods_that_no_node_fits_take_no_place_of_other_kinds():
    core = past_pods()
    selector = Refusal(code="NodeAffinityMismatch", text="node(s) didn't match", nodes=1)
    for number in range(MAX_OF_OWNER):
        read_at(core, 0.0, *seen_waiting(f"s{number}", priority=-1 - number, why={"first_failing": (selector,)}))
    assert waits(core, "w").start.no_estimate == ""
    for no_node_fits in (True, False):
        waits(core, why={"first_failing": (selector,)} if no_node_fits else {})
        assert ("uid-w" in core.start_times._estimates) != no_node_fits


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


def test_no_estimate_after_a_pause_in_which_a_pod_waited(monkeypatch):
    core = past_pods()
    assert waits(core, "old", ago=20 * STEP).start.no_estimate == "", "it has waited for long, but not as an equal pod"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 20 * STEP)
    assert answer(core, "old").start.no_estimate.startswith("no equal pod has started for ")
