"""Pods that go for others: nominate, ask, go, open; and what ends a nomination before."""

import pytest
from deviceshare.model import (
    BOUND,
    DisruptionLimit,
    GroupKey,
    NodeLedger,
    PodDisruptionBudgetFact,
    PodGroupFact,
    PriorityClassFact,
    QueueFact,
    Requirement,
)
from deviceshare_bus.cores.core import Count
from deviceshare_bus.messages import subjects
from deviceshare_placement.core.claims import INTER_POD
from msgspec.structs import replace
from support.builders import node
from support.preemption_play import BLOCKED, MAY_GO, PreemptionPlay
from support.preemption_scene import conf, cpu


def full(**rest) -> PreemptionPlay:
    """Return a core with one full node."""
    core = PreemptionPlay(node("a", cpu=2000), **rest)
    core.runs("one", "a")
    core.runs("two", "a", priority=10)
    core.settled()
    return core


def test_a_pod_of_lower_priority_is_asked_goes_and_makes_room():
    core = full()
    core.waits("new")
    out = core.tick()
    ((ledger,),) = [[each.message for each in write.writes] for write in out.writes]
    (claim,), (eviction,) = ledger.claims, ledger.evictions
    assert claim.waits_for == ("uid-one",)
    assert (eviction.uid, eviction.claim, eviction.preemptor) == ("uid-one", claim.id, "ns/new")
    assert (eviction.action, eviction.go) == ("preempt", False)
    core.written(out)
    assert not core.tick().writes
    core.answers()
    core.settled()
    assert core.evictions() == {"one": True}
    core.terminates("one")
    core.settled()
    assert core.waiting() == {"new": ["one"]}
    core.ends("one")
    core.settled()
    assert core.waiting() == {"new": []}
    assert core.evictions() == {}


def test_a_nomination_is_open_work_until_the_pods_have_gone():
    core = full()
    core.waits("new")
    core.settled()
    core.answers()
    core.settled()
    core.terminates("one")
    core.settled()
    assert core.core.open_work == 1
    core.ends("one")
    core.settled()
    assert core.core.open_work == 0


def test_a_nomination_is_withdrawn_if_a_pod_may_not_go():
    core = full()
    core.waits("new")
    core.settled()
    core.answers(BLOCKED)
    core.settled()
    assert core.evictions() == {"two": False}  # none has gone; another pod may
    core.answers(BLOCKED)
    core.settled()
    assert (core.waiting(), core.evictions()) == ({}, {})
    core.settled(after=1.5)
    assert core.evictions() == {"one": False}


def test_the_room_belongs_to_the_pod_for_which_the_other_one_goes():
    core = full()
    core.waits("new")
    core.settled()
    core.answers()
    core.settled()
    core.waits("other", priority=0)
    core.ends("one")
    core.settled()
    assert core.places() == {"new": "a"}


def test_a_pod_that_is_deleted_takes_its_nomination_with_it():
    core = full()
    core.waits("new")
    core.settled()
    core.ends("new")
    core.settled()
    assert (core.waiting(), core.evictions()) == ({}, {})


def test_without_a_configured_action_no_pod_goes():
    core = full(conf=conf("priority gang conformance", actions="enqueue, allocate, backfill"))
    core.waits("new")
    core.settled()
    assert core.places() == {}


GANG = PodGroupFact(
    key=GroupKey("ns/g"), uid="pg", min_member=2, queue="default", priority_class="high", admitted=True, phase="Inqueue"
)
HIGH = PriorityClassFact(name="high", value=100)


def gang() -> PreemptionPlay:
    """Return a core with a gang that is nominated on two full nodes."""
    core = PreemptionPlay(node("a", cpu=1000), node("b", cpu=1000), facts=[HIGH, GANG])
    core.runs("one", "a")
    core.runs("two", "b")
    core.waits("new-0", gang="g")
    core.waits("new-1", gang="g")
    core.settled()
    return core


def test_a_gang_goes_on_several_nodes_at_once():
    core = gang()
    assert core.evictions() == {"one": False, "two": False}
    assert core.waiting() == {"new-0": ["one", "two"], "new-1": ["one", "two"]}
    core.answers("may go", "one")
    core.settled()
    assert core.evictions() == {"one": False, "two": False}
    core.answers()
    core.settled()
    assert core.evictions() == {"one": True, "two": True}
    core.ends("one")
    core.settled()
    assert core.waiting() == {"new-0": ["uid-one", "two"], "new-1": ["uid-one", "two"]}
    core.ends("two")
    core.settled()
    assert core.waiting() == {"new-0": [], "new-1": []}


def test_a_gang_of_which_a_pod_is_deleted_is_withdrawn_as_a_whole():
    core = gang()
    core.answers()
    core.settled()
    core.ends("new-1")
    core.settled()
    assert (core.waiting(), core.evictions()) == ({}, {})


def test_a_gang_whose_node_takes_no_pods_any_more_is_withdrawn_as_a_whole():
    core = gang()
    core.put(node("b", cpu=1000, unschedulable=True))
    core.settled()
    assert (core.waiting(), core.evictions()) == ({}, {})


def test_more_pods_of_a_gang_wait_until_its_minimum_is_open():
    core = gang()
    core.put(node("c", cpu=1000))
    core.waits("new-2", gang="g")
    core.settled()
    assert "new-2" not in core.waiting()
    core.answers()
    core.settled()
    core.ends("one")
    core.ends("two")
    core.settled()
    assert core.waiting() == {"new-0": [], "new-1": [], "new-2": []}


# Recovery


STEPS = ("nominated", "asked", "going", "terminating", "one gone", "all gone")


def at(step: str) -> PreemptionPlay:
    """Return a core with a nominated gang that has come so far."""
    core = gang()
    reached = STEPS[: STEPS.index(step) + 1]
    if "asked" in reached:
        core.answers(MAY_GO)
    if "going" in reached:
        core.settled()
    if "terminating" in reached:
        core.terminates("one")
        core.terminates("two")
    if "one gone" in reached:
        core.ends("one")
    if "all gone" in reached:
        core.ends("two")
    return core


def finish(core: PreemptionPlay) -> None:
    """Do all that is left to do outside of placement."""
    core.settled()
    core.answers()
    core.settled()
    if core.evictions():
        assert set(core.evictions().values()) == {True}
    for name in ("one", "two"):
        if name in core.pods:
            core.ends(name)
    core.settled()


@pytest.mark.parametrize("order", [("CLUSTER", "LEDGER", "OUTCOME"), ("OUTCOME", "LEDGER", "CLUSTER")])
@pytest.mark.parametrize("step", STEPS)
def test_a_successor_goes_on_where_a_nomination_stands(step, order):
    core = at(step).restarted(order=order)
    out = core.decided()
    for uid in out.pods_read:
        core.pod_read(uid)
    finish(core)
    assert core.waiting() == {"new-0": [], "new-1": []}
    assert core.evictions() == {}


def test_pods_that_are_gone_at_the_start_are_asked_for_before_their_room_is_used():
    core = at("all gone").restarted()
    out = core.tick()
    assert sorted(out.pods_read) == ["uid-one", "uid-two"]
    assert not out.writes
    core.pod_read("uid-one")
    assert not core.tick().writes
    core.pod_read("uid-two")
    core.settled()
    assert core.waiting() == {"new-0": [], "new-1": []}


def test_a_write_of_a_nomination_that_conflicts_is_decided_again():
    core = full()
    core.waits("new")
    (write,) = core.tick().writes
    core.conflict(write)
    core.read_back("a", 0)
    assert core.places() == {}
    core.settled()
    assert core.evictions() == {"one": False}


def test_two_replicas_do_not_take_one_pod_for_two():
    core = full()
    core.waits("new")
    core.waits("other", priority=101)
    (write,) = core.tick().writes
    other = core.core.scheduler
    assert other.ledger("a").evictions == {}
    # The second write of the node conflicts; the winner's ledger is read.
    core.conflict(write)
    ledger = write.writes[0].message
    (eviction,), (claim,) = ledger.evictions, ledger.claims
    theirs = replace(claim, id="q-1", uid="uid-third", name="third")
    core.others_write(replace(ledger, claims=(theirs,), evictions=(replace(eviction, claim="q-1"),)))
    core.read_back("a", core.sequence)
    core.settled()
    assert core.evictions() == {"one": False, "two": False}
    assert [each.claim for _, each in core.all_evictions() if each.name == "one"] == ["q-1"]


# What does not belong together any more


def test_an_eviction_without_a_claim_is_removed_after_a_time():
    core = full()
    core.waits("new")
    core.settled()
    ledger = core.ledger_events()[0].ledger
    core.others_write(replace(ledger, claims=()))
    core.ends("new")
    core.settled()
    assert core.evictions() == {"one": False}
    assert core.due is not None
    assert core.due <= 10.0
    core.settled(after=10.0)
    assert core.evictions() == {}


def test_an_eviction_that_is_read_before_its_claim_is_kept_long_after_another_one_was_dropped():
    core = full()
    core.waits("new")
    core.settled()
    ledger = core.ledger_events()[0].ledger
    core.others_write(replace(ledger, claims=()))
    core.ends("new")
    core.settled()
    core.settled(after=10.0)
    assert core.evictions() == {}
    core.now += 3600.0
    core.others_write(replace(ledger, claims=()))  # the eviction is read before its claim
    assert not core.tick().writes


def test_no_pod_goes_for_a_pod_that_is_bound_already():
    core = full()
    new = core.waits("new")
    core.settled()
    core.put(replace(new, node="a"))
    core.answers()
    core.settled()
    assert core.evictions() == {}
    assert core.claims() == []


def test_a_ledger_that_cannot_be_read_is_not_replaced_by_a_nomination():
    core = PreemptionPlay(*(node(name, cpu=2000) for name in "ab"), facts=[replace(GANG, priority_class="")])
    for name in "ab":
        core.runs(f"low-{name}", name, gang="g")
        core.runs(f"high-{name}", name, priority=200)
    core.settled()
    core.unreadable("b", 500)
    core.waits("new")
    for _ in range(5):
        assert not core.tick().writes
    assert core.claims() == []


def test_a_pod_whose_fact_is_not_readable_is_not_asked_for_again_at_once():
    core = at("all gone").restarted()
    (first, *_) = asked = sorted(core.tick().pods_read)
    for uid in asked:
        core.pod_read(uid, sequence=7)
    assert not core.tick().pods_read
    core.now += 10.0
    assert first in core.tick().pods_read


def test_a_claim_that_waits_for_a_pod_without_an_eviction_is_removed_after_a_time():
    core = full()
    core.waits("new")
    core.settled()
    ledger = core.ledger_events()[0].ledger
    core.others_write(replace(ledger, evictions=()))
    core.settled()
    assert core.waiting() == {"new": ["one"]}
    core.settled(after=10.0)
    assert core.evictions() == {"one": False}  # it is nominated again


def test_an_open_claim_is_kept_rather_than_a_nominated_one():
    core = full()
    core.put(node("b", cpu=1000))
    core.runs("three", "b", priority=200)
    core.waits("new")
    core.settled()
    ((_, claim),) = core.claims()
    theirs = replace(claim, id="q-1", waits_for=(), decided_at=claim.decided_at + 5)
    core.ends("three")
    core.others_write(NodeLedger(node="b", claims=(theirs,)))
    core.settled()
    assert core.places() == {"new": "b"}
    assert core.evictions() == {}


def test_a_node_that_is_deleted_takes_its_nominations_with_it():
    core = full()
    core.waits("new")
    core.settled()
    core.remove("node", "a")
    core.settled()
    assert (core.waiting(), core.evictions()) == ({}, {})


def test_a_claim_that_another_replica_has_opened_is_withdrawn_with_the_binder():
    core = full()
    core.waits("new")
    core.settled()
    ledger = core.ledger_events()[0].ledger
    core.put(node("a", cpu=2000, unschedulable=True))
    opened = replace(ledger, claims=(replace(ledger.claims[0], waits_for=()),), evictions=())
    core.others_write(opened)
    core.settled()
    assert [claim.withdraw for _, claim in core.claims()] == [True]


# Time


@pytest.mark.parametrize("terminating", [True, False])
def test_a_pod_that_does_not_go_in_time_is_spared_and_another_one_goes(terminating):
    core = full()
    core.waits("new")
    core.settled()
    core.answers()
    core.settled()
    if terminating:
        core.terminates("one")
    core.settled(after=325.0)
    assert core.evictions() == {"one": True}
    assert core.due is not None
    assert core.due <= 10.0
    core.settled(after=10.0)
    assert core.evictions() == {"two": False}


@pytest.mark.parametrize("behind", [-86_400.0, 86_400.0])
def test_the_clock_of_the_replica_that_decided_does_not_count(behind):
    core = full()
    core.waits("new")
    (write,) = core.tick().writes
    core.conflict(write)
    ledger = write.writes[0].message
    (eviction,), (claim,) = ledger.evictions, ledger.claims
    at = claim.decided_at - behind
    core.others_write(
        replace(ledger, claims=(replace(claim, decided_at=at),), evictions=(replace(eviction, decided_at=at),))
    )
    core.read_back("a", core.sequence)
    core.settled(after=20.0)
    assert core.evictions() == {"one": False}
    core.settled(after=310.0)
    assert core.evictions() == {"two": False}, "by the clock of this replica it has not gone in time"


def test_pods_go_only_after_the_configured_delay():
    core = full(conf=conf("priority gang conformance", PreemptionDelaySeconds=60))
    core.waits("new")
    core.settled()
    assert core.evictions() == {}
    assert core.due is not None
    core.settled(after=core.due)
    for _ in range(100):
        if core.evictions():
            break
        core.settled(after=core.due or 1.0)
    assert core.now >= 160.0
    assert core.evictions() == {"one": False}


def test_a_group_for_which_no_pod_goes_is_looked_at_again_when_one_of_lower_priority_is_bound():
    core = PreemptionPlay(node("a", cpu=1000))
    core.runs("one", "a", priority=200)
    core.waits("new")
    core.settled()
    core.settled(after=60.0)
    assert core.evictions() == {}
    assert core.due is None
    core.put(node("b", cpu=1000))
    core.runs("two", "b", priority=5)
    core.settled()
    core.settled(after=1.0)
    assert core.evictions() == {"two": False}


# Queues and budgets


def test_queues_count_the_pods_that_come_and_not_those_that_go():
    core = PreemptionPlay(node("a", cpu=2000), facts=[QueueFact(name="default", capability={"cpu": 2000})])
    core.runs("one", "a")
    core.runs("two", "a", priority=10)
    core.waits("new", cpu(1000))
    core.settled()

    def allocated() -> dict[str, int]:
        return dict(core.core.scheduler.cluster.accounts.account("default").allocated)

    assert allocated()["cpu"] == 2000
    core.answers()
    core.settled()
    core.terminates("one")
    assert allocated()["cpu"] == 2000
    core.ends("one")
    core.settled()
    assert allocated()["cpu"] == 2000
    core.ends("new")
    core.settled()
    assert allocated()["cpu"] == 1000


def test_pods_that_are_to_go_use_up_their_budget():
    budget = PodDisruptionBudgetFact(key="ns/b", selector=(Requirement("app", "In", ("x",)),), allowed=1)
    core = PreemptionPlay(node("a", cpu=1000), node("b", cpu=1000), facts=[budget])
    for name, where in (("one", "a"), ("two", "b")):
        core.runs(name, where, labels=(("app", "x"),))
    core.waits("new")
    core.waits("other")
    core.settled()
    core.settled(after=30.0)
    assert len(core.evictions()) == 1


def test_reclaim_is_written_together_with_the_ledger_that_all_replicas_expect():
    queues = [QueueFact(name="default", weight=1), QueueFact(name="other", weight=1)]
    actions = "enqueue, allocate, reclaim"
    core = PreemptionPlay(node("a", cpu=2000), conf=conf("priority proportion", actions=actions), facts=queues)
    core.runs("one", "a")
    core.runs("two", "a")
    core.pods["new"] = replace(core.waits("new"), queue="other")
    core.put(core.pods["new"])
    (write,) = core.tick().writes
    assert {each.subject for each in write.writes} == {subjects.ledger("a"), subjects.ledger(INTER_POD)}
    (eviction,) = [each for ledger in write.writes for each in ledger.message.evictions]
    assert eviction.action == "reclaim"


# Counters


def test_attempts_and_the_pods_that_go_are_counted():
    core = PreemptionPlay(node("a", cpu=3000), facts=[HIGH, GANG])
    core.runs("one", "a", labels=(("volcano.sh/job-name", "train"),))
    core.runs("two", "a", gang="other")
    core.runs("three", "a")
    core.waits("new", cpu(3000))
    out = core.tick()
    counts = {each.name: each.amount for each in out if isinstance(each, Count)}
    assert counts["preemption_attempts"] == 1
    assert counts["preemptions:preempt"] == 1
    assert (counts["preemption_victims_chosen:4"], counts["preemption_victims_chosen:total"]) == (1, 3)
    core.written(out)
    owners = {each.name: (each.queue, each.owner) for _, each in core.all_evictions()}
    assert owners == {
        "one": ("default", ("Job", "ns/train")),
        "two": ("default", ("PodGroup", "ns/other")),
        "three": ("default", ("", "")),
    }


def test_pods_that_went_for_nothing_are_counted():
    core = full()
    core.waits("new")
    core.settled()
    core.answers()
    core.settled()
    core.terminates("one")
    core.ends("new")
    counts = {each.name: each.amount for each in core.tick() if isinstance(each, Count)}
    assert counts["preemption_wasted_victims"] == 1


# Reasons


def test_a_nominated_pod_says_for_which_pods_it_waits():
    core = full()
    core.waits("new")
    core.written(core.tick())
    since = "2026-05-28T20:28:20Z"
    assert core.tick().messages == [f"nominated on a since {since}; waits for ns/one (asked whether it may go)"]
    core.answers()
    core.written(core.tick())
    assert core.tick().messages == [f"nominated on a since {since}; waits for ns/one (to be evicted)"]
    budget = PodDisruptionBudgetFact(
        key="ns/b", selector=(), allowed=1, limit=DisruptionLimit(min_available=0), revision="1"
    )
    core.put(budget)
    assert not core.tick().messages, "it allows one, and one is to be evicted"
    core.put(replace(budget, allowed=0, revision="2"))
    blocked = "blocked by PodDisruptionBudget ns/b: 0 of 3 allowed"
    assert core.tick().messages == [f"nominated on a since {since}; waits for ns/one ({blocked})"]
    core.terminates("one")
    out = core.tick()
    assert out.messages == [f"nominated on a since {since}; waits for ns/one (terminating, grace 30 s)"]
    assert [each.name for each in out.steps] == ["nominated"]
    core.ends("one")
    core.written(core.tick())
    assert [each.name for each in core.tick().steps] == ["claimed"]


def test_a_pod_for_which_no_pod_goes_says_why():
    core = PreemptionPlay(node("a", cpu=1000), node("b", cpu=1000))
    core.runs("one", "a", priority=200)
    core.runs("two", "b")
    core.waits("new")
    core.settled()
    core.now += 5.0
    core.answers(BLOCKED, reason="protected by PodDisruptionBudget ns/b")
    core.written(core.tick())
    (message,) = core.tick().messages
    why = "1 hold no pod of lower priority, 1 protected by PodDisruptionBudget ns/b"
    assert message.endswith(f"preemption: 0/2 nodes are available: {why}"), message


def test_a_pod_waits_for_those_that_are_terminating_and_no_other_goes():
    core = full()
    core.terminates("two")
    core.waits("new")
    core.settled()
    assert core.evictions() == {}
    core.ends("two")
    core.settled()
    assert core.places() == {"new": "a"}


def test_a_pod_with_a_claim_that_is_bound_is_a_victim_as_well():
    core = PreemptionPlay(node("a", cpu=1000))
    low = core.waits("low", priority=0)
    core.settled()
    ((where, claim),) = core.claims()
    core.outcome(claim, BOUND, node=where)
    core.pods["low"] = replace(low, node="a", held=claim.grants, running=True)
    core.put(core.pods["low"])
    core.waits("new")
    core.settled()
    assert core.evictions() == {"low": False}
    core.outcomes_of["a"] = {}
    core.answers()
    core.settled()
    core.terminates("low")
    core.ends("low")
    core.settled()
    assert core.places() == {"new": "a"}
    assert core.waiting() == {"new": []}


def test_a_pod_that_is_terminating_for_ever_is_not_waited_for():
    core = full()
    core.terminates("two")
    core.waits("new")
    core.settled()
    assert core.due is not None
    assert 320.0 < core.due <= 330.0
    core.settled(after=core.due)
    core.settled(after=5.0)
    assert core.evictions() == {"one": False}
    core.ends("two")
    core.settled()
    core.waits("other")
    core.settled()
    assert core.places() == {"new": "a", "other": "a"}
