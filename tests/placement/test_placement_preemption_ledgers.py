"""Pods that go for others: claims, evictions and facts that do not belong together any more."""

from deviceshare.model import NodeLedger
from msgspec.structs import replace
from support.builders import node
from support.preemption_play import GANG, PreemptionPlay, full, nominated


def test_an_eviction_without_a_claim_is_removed_after_a_time():
    core = nominated()
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
    core = nominated()
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


def test_a_claim_that_waits_for_a_pod_without_an_eviction_is_removed_after_a_time():
    core = nominated()
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
    core = nominated()
    core.remove("node", "a")
    core.settled()
    assert (core.waiting(), core.evictions()) == ({}, {})


def test_a_claim_that_another_replica_has_opened_is_withdrawn_with_the_binder():
    core = nominated()
    ledger = core.ledger_events()[0].ledger
    core.put(node("a", cpu=2000, unschedulable=True))
    opened = replace(ledger, claims=(replace(ledger.claims[0], waits_for=()),), evictions=())
    core.others_write(opened)
    core.settled()
    assert [claim.withdraw for _, claim in core.claims()] == [True]
