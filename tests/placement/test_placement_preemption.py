"""Pods that go for others: nominate, ask, go, open; and what ends a nomination before."""

import pytest
from deviceshare.model import BOUND
from msgspec.structs import replace
from support.builders import node
from support.preemption_play import BLOCKED, PreemptionPlay, full, gang, nominated
from support.preemption_scene import conf


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
    core = nominated()
    core.answers()
    core.settled()
    core.terminates("one")
    core.settled()
    assert core.core.open_work == 1
    core.ends("one")
    core.settled()
    assert core.core.open_work == 0


def test_a_nomination_is_withdrawn_if_a_pod_may_not_go():
    core = nominated()
    core.answers(BLOCKED)
    core.settled()
    assert core.evictions() == {"two": False}  # none has gone; another pod may
    core.answers(BLOCKED)
    core.settled()
    assert (core.waiting(), core.evictions()) == ({}, {})
    core.settled(after=1.5)
    assert core.evictions() == {"one": False}


def test_the_room_belongs_to_the_pod_for_which_the_other_one_goes():
    core = nominated()
    core.answers()
    core.settled()
    core.waits("other", priority=0)
    core.ends("one")
    core.settled()
    assert core.places() == {"new": "a"}


def test_a_pod_that_is_deleted_takes_its_nomination_with_it():
    core = nominated()
    core.ends("new")
    core.settled()
    assert (core.waiting(), core.evictions()) == ({}, {})


def test_without_a_configured_action_no_pod_goes():
    core = full(conf=conf("priority gang conformance", actions="enqueue, allocate, backfill"))
    core.waits("new")
    core.settled()
    assert core.places() == {}


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


@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("ends", ["deleted", "succeeded"])
def test_no_pod_goes_for_room_that_is_free_once_the_claim_of_a_pod_that_has_gone_is_removed(ends, searched):
    core = PreemptionPlay(node("a", cpu=2000))
    for name in ("old-a", "old-b"):
        core.waits(name, priority=0)
        core.settled()
        core.runs(name, "a")
    core.terminates("old-a")
    core.waits("new")
    if searched:
        core.settled()
        assert core.evictions() == {}
        core.now += 60.0
    if ends == "deleted":
        core.ends("old-a")
    else:
        core.put(replace(core.pods.pop("old-a"), ended=True))
    core.settled()
    assert core.evictions() == {}
    assert core.waiting() == {"old-b": [], "new": []}
