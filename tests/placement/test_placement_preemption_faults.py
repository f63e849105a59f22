"""Pods that go for others: jobs that are alike, what blocks every pod, and ledgers that contradict earlier ones."""

from itertools import pairwise

import pytest
from deviceshare.model import (
    FORBIDDEN,
    GroupKey,
    NodeLedger,
    PodGroupFact,
    PodSelection,
    PodTerm,
    PodTopology,
    PriorityClassFact,
    QueueFact,
    Requirement,
)
from msgspec.structs import replace
from support.builders import node
from support.preemption_play import BLOCKED, PreemptionPlay
from support.preemption_scene import conf, cpu

HIGH = PriorityClassFact(name="high", value=100)
ELASTIC = PodGroupFact(
    key=GroupKey("ns/g"), uid="pg", min_member=1, queue="default", priority_class="high", admitted=True, phase="Running"
)


def full() -> PreemptionPlay:
    """Return a core with one full node and a pod that waits for one of its pods to go."""
    core = PreemptionPlay(node("a", cpu=2000))
    core.runs("one", "a")
    core.runs("two", "a", priority=10)
    core.waits("new")
    core.settled()
    assert core.evictions() == {"one": False}
    return core


def assert_opened_after(core: PreemptionPlay, name: str, ends: str) -> None:
    """Check that a claim is not opened before a terminating pod has ended, and then is."""
    for _ in range(5):
        core.settled(after=1.0)
    assert core.waiting().get(name) != []
    core.ends(ends)
    for _ in range(5):
        core.settled(after=1.0)
    assert core.waiting() == {name: []}


@pytest.mark.parametrize("first", [True, False])
def test_a_gang_at_its_minimum_does_not_hide_the_jobs_that_ask_for_the_same(first):
    core = PreemptionPlay(node("a", cpu=2000), facts=[HIGH, ELASTIC])
    core.runs("g-0", "a", gang="g", priority=100)
    core.runs("low", "a")
    if first:
        core.waits("g-1", gang="g")
        core.settled()
        assert core.evictions() == {}, "it has its minimum"
    core.waits("single", priority=50)
    if not first:
        core.waits("g-1", gang="g")
    core.settled()
    core.settled(after=10.0)
    assert core.evictions() == {"low": False}


def test_many_gangs_at_their_minimum_do_not_hide_the_jobs_that_ask_for_the_same():
    """More than are looked at in one round."""
    many = 250
    gangs = [replace(ELASTIC, key=GroupKey(f"ns/g{number}"), uid=f"pg{number}") for number in range(many)]
    core = PreemptionPlay(node("a", cpu=1000 * (many + 1), pods=1000), facts=[HIGH, *gangs])
    for number in range(many):
        core.runs(f"g{number}-0", "a", gang=f"g{number}", priority=100)
    core.runs("low", "a")
    for number in range(many):
        core.waits(f"g{number}-1", gang=f"g{number}")
    core.settled()
    core.waits("single", priority=50)
    for _ in range(10):
        core.settled(after=10.0)
        if core.evictions():
            break
    assert core.evictions() == {"low": False}


def test_what_blocks_every_pod_is_not_tried_with_one_pod_after_the_other():
    """Such as a cluster that does not permit evictions at all."""
    core = PreemptionPlay(node("a", cpu=50_000, pods=60))
    for number in range(50):
        core.runs(f"low-{number}", "a")
    core.waits("new")
    nominations = 0
    for _ in range(60):
        core.settled()
        while core.evictions():
            nominations += 1
            core.answers(BLOCKED, reason="forbidden")
            core.settled()
        core.now += 1.0
    assert 2 <= nominations <= 8, nominations


def test_where_evictions_are_forbidden_no_pod_goes_for_any_group_for_a_minute():
    """Many groups, each of which could try pods of its own."""
    core = PreemptionPlay(*(node(f"n{number}", cpu=1000) for number in range(40)))
    for number in range(40):
        core.runs(f"low-{number}", f"n{number}")
        core.waits(f"new-{number}", cpu(1000 - number))
    at: list[float] = []
    messages: list[str] = []
    for _ in range(1500):
        out = core.tick()
        messages += out.messages
        core.written(out)
        if core.evictions():
            at.append(core.now)
            core.answers(FORBIDDEN, reason='User "binder" cannot create resource "pods/eviction"')
        core.now += 0.1 if core.evictions() else 1.0
    assert len(at) >= 10, "it is tried again"
    assert min(later - earlier for earlier, later in pairwise(at)) >= 60.0
    why = 'preemption: paused for up to 60 s: User "binder" cannot create resource "pods/eviction"'
    assert sum(each.endswith(why) for each in messages) >= 39, messages[-3:]


@pytest.mark.parametrize("refused", [1, 2, 3, 5, 8])
def test_pods_that_are_refused_for_ever_do_not_hide_one_that_may_go(refused):
    core = PreemptionPlay(node("a", cpu=1000 * (refused + 1)))
    for number in range(refused):
        core.runs(f"refused-{number}", "a")
    core.runs("may-go", "a", priority=10)
    core.waits("new")
    for _ in range(600):
        core.settled()
        while core.evictions() and "may-go" not in core.evictions():
            core.answers(BLOCKED, reason="denied by a webhook")
            core.settled()
        if core.evictions():
            break
        core.now += 1.0
    assert core.evictions() == {"may-go": False}


def test_a_pod_does_not_wait_for_a_terminating_one_whose_room_it_does_not_need():
    core = PreemptionPlay(node("a", cpu=2001))
    core.runs("one", "a")
    core.runs("two", "a", priority=200)
    core.runs("tiny", "a", cpu(1), priority=200, grace=7200)
    core.terminates("tiny")
    core.waits("new")
    core.settled()
    assert core.waiting() == {"new": ["one"]}


def test_a_pod_waits_for_a_terminating_one_whose_room_it_needs_beside_that_of_its_victim():
    core = PreemptionPlay(node("a", cpu=2000))
    core.runs("one", "a", priority=10)
    core.runs("half", "a", cpu(500), priority=200)
    core.runs("ends", "a", cpu(500), priority=200)
    core.terminates("ends")
    core.waits("new", cpu(1500))
    core.settled()
    assert core.waiting() == {"new": ["ends", "one"]}


def test_a_pod_waits_for_a_terminating_one_of_another_node_whose_part_of_the_queue_it_needs():
    by_queue = conf("priority gang conformance proportion", actions="enqueue, allocate, preempt, backfill")
    nodes = node("a", cpu=500), node("b", cpu=1000)
    core = PreemptionPlay(*nodes, conf=by_queue, facts=[QueueFact(name="q", capability={"cpu": 1000})])
    core.in_queue("q", core.runs, "ends", "a", cpu(500))
    core.settled()
    core.terminates("ends")
    core.in_queue("q", core.waits, "new", cpu(1000))
    assert_opened_after(core, "new", "ends")


def test_a_pod_waits_for_a_terminating_one_of_another_node_that_keeps_it_away():
    apart = PodTerm("zone", PodSelection((Requirement("app", "In", ("db",)),), ("ns",)))
    labels = (("app", "db"),)
    topology = PodTopology("ns", labels, anti_affinity=(apart,))
    core = PreemptionPlay(node("a", cpu=500, labels={"zone": "z"}), node("b", cpu=1000, labels={"zone": "z"}))
    core.runs("ends", "a", replace(cpu(500), topology=topology), labels=labels)
    core.settled()
    core.terminates("ends")
    core.waits("new", replace(cpu(1000), topology=topology), labels=labels)
    assert_opened_after(core, "new", "ends")


def test_a_claim_that_was_open_may_wait_again_after_a_roll_back():
    core = full()
    before = core.ledger_events()[0].ledger
    core.answers()
    core.settled()
    core.ends("one")
    core.settled()
    assert core.waiting() == {"new": []}
    core.others_write(before)
    core.settled()
    assert core.waiting() == {"new": []}, "the pod has gone: it is opened again"
    core.others_write(NodeLedger(node="a"))
    core.settled()


@pytest.mark.parametrize("waits_for", [("uid-one", "uid-one"), ("uid-two",), ("unknown",), ("uid-new",)])
@pytest.mark.parametrize("removed", [True, False])
def test_a_claim_may_wait_for_other_pods_than_before(waits_for, removed):
    core = full()
    before = core.ledger_events()[0].ledger
    (claim,) = before.claims
    core.others_write(replace(before, claims=(replace(claim, waits_for=waits_for),)))
    core.settled()
    core.others_write(NodeLedger(node="a", claims=() if removed else (replace(claim, waits_for=()),)))
    core.settled()
    going = core.core.scheduler.cluster.going
    assert set(going) == {uid for _, each in core.claims() for uid in each.waits_for}


def test_one_id_of_claims_of_two_pods_on_two_nodes_ends_nothing():
    core = full()
    core.put(node("b", cpu=1000))
    ledger = core.ledger_events()[0].ledger
    (claim,) = ledger.claims
    core.others_write(NodeLedger(node="b", claims=(replace(claim, uid="uid-other", name="other"),)))
    core.settled()
    core.others_write(NodeLedger(node="b"))
    assert set(core.core.scheduler.cluster.going) == {"uid-one"}, "the claim on the other node waits"
    core.others_write(NodeLedger(node="a"))
    core.settled()
    assert not core.core.scheduler.cluster.going or core.evictions()


def test_a_nomination_ends_if_another_pod_has_the_uid_of_one_that_has_gone():
    core = PreemptionPlay(node("a", cpu=1000))
    core.runs("one", "a")
    core.waits("new")
    core.settled()
    core.answers()
    core.settled()
    core.terminates("one")
    core.ends("one")
    core.waits("twin", uid="uid-one", priority=0)
    core.settled()
    core.settled()
    assert core.waiting() == {"new": []}
    assert core.evictions() == {}
