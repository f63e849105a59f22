"""Pods that go for others: nominate, ask, go, open; and what ends a nomination before."""

from support.builders import node
from support.preemption_play import BLOCKED, PreemptionPlay


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
    from support.preemption_scene import conf

    core = full(conf=conf("priority gang conformance", actions="enqueue, allocate, backfill"))
    core.waits("new")
    core.settled()
    assert core.places() == {}


def test_a_gang_goes_on_several_nodes_at_once():
    from deviceshare.model import GroupKey, PodGroupFact, PriorityClassFact

    core = PreemptionPlay(node("a", cpu=1000), node("b", cpu=1000))
    core.runs("one", "a")
    core.runs("two", "b")
    core.put(PriorityClassFact(name="high", value=100))
    core.put(
        PodGroupFact(
            key=GroupKey("ns/g"),
            uid="pg",
            min_member=2,
            queue="default",
            priority_class="high",
            admitted=True,
            phase="Inqueue",
        )
    )
    core.waits("new-0", gang="g")
    core.waits("new-1", gang="g")
    core.settled()
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
