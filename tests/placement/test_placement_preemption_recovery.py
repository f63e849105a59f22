"""Pods that go for others: a successor goes on, and a write that conflicts is decided again."""

import pytest
from msgspec.structs import replace
from support.preemption_play import MAY_GO, PreemptionPlay, full, gang

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


def test_a_pod_whose_fact_is_not_readable_is_not_asked_for_again_at_once():
    core = at("all gone").restarted()
    (first, *_) = asked = sorted(core.tick().pods_read)
    for uid in asked:
        core.pod_read(uid, sequence=7)
    assert not core.tick().pods_read
    core.now += 10.0
    assert first in core.tick().pods_read
