"""Pods that go for others: when, and what does not go in time."""

import pytest
from msgspec.structs import replace
from support.builders import node
from support.preemption_play import PreemptionPlay, full, nominated
from support.preemption_scene import conf


@pytest.mark.parametrize("terminating", [True, False])
def test_a_pod_that_does_not_go_in_time_is_spared_and_another_one_goes(terminating):
    core = nominated()
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
