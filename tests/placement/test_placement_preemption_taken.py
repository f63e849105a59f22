"""A pod of higher priority takes the room of nominated pods: their claims are removed, and no other pod goes."""

from itertools import permutations

import pytest
from deviceshare.model import GroupKey, NodeLedger, PodGroupFact, PriorityClassFact, QueueFact
from deviceshare_placement.core.claims import INTER_POD
from msgspec.structs import replace
from support.builders import node
from support.preemption_play import PreemptionPlay
from support.preemption_scene import conf, cpu


def nominated(*nodes: str, go: bool = False, conf: str | None = None) -> PreemptionPlay:
    """Return a core in which a pod on each node has to go for a nominated one of priority 100."""
    names = nodes or ("a",)
    core = PreemptionPlay(*(node(name, cpu=1000) for name in names), **({"conf": conf} if conf else {}))
    for name in names:
        core.runs(f"old-{name}", name)
        core.waits(f"new-{name}")
    core.settled()
    for _ in names:
        core.settled()
    if go:
        core.answers()
        core.settled()
    return core


@pytest.mark.parametrize("go", [False, True])
def test_the_room_is_taken_in_one_write_and_the_pod_that_goes_is_inherited(go):
    core = nominated(go=go)
    assert core.evictions() == {"old-a": go}
    core.waits("high", priority=1000)
    out = core.tick()
    ((ledger,),) = [[each.message for each in write.writes] for write in out.writes]
    (claim,), (eviction,) = ledger.claims, ledger.evictions
    assert (claim.name, claim.waits_for) == ("high", ("uid-old-a",))
    assert (eviction.claim, eviction.preemptor, eviction.go) == (claim.id, "ns/high", go)
    core.written(out)
    core.answers()
    core.settled()
    assert core.evictions() == {"old-a": True}
    core.ends("old-a")
    core.settled()
    assert (core.waiting(), core.evictions()) == ({"high": []}, {})


def test_a_pod_of_the_same_priority_or_that_never_preempts_takes_no_room():
    core = nominated()
    core.waits("equal")
    core.waits("never", priority=1000, never_preempts=True)
    core.settled(after=10.0)
    assert core.places() == {"new-a": "a"}


def test_other_pods_go_rather_than_that_nominated_room_is_taken():
    core = PreemptionPlay(node("a", cpu=1000), node("b", cpu=1000))
    core.runs("one", "a")
    core.runs("two", "b", priority=10)
    core.waits("new")
    core.settled()
    core.waits("high", priority=1000)
    core.settled()
    assert core.waiting() == {"new": ["one"], "high": ["two"]}


def test_the_nomination_of_the_lowest_priority_loses_its_room_and_is_decided_again():
    core = PreemptionPlay(node("a", cpu=1000), node("b", cpu=1000))
    core.runs("one", "a")
    core.runs("two", "b")
    core.waits("mid", priority=200)
    core.settled()
    core.waits("low", priority=100)
    core.settled()
    assert core.waiting().keys() == {"mid", "low"}
    core.waits("high", priority=1000)
    core.settled()
    assert core.waiting().keys() == {"mid", "high"}
    core.put(node("c", cpu=1000))
    core.settled(after=10.0)
    assert core.waiting().keys() == {"mid", "high", "low"}
    assert core.waiting()["low"] == []


def test_a_pod_whose_room_is_not_needed_does_not_go():
    core = PreemptionPlay(node("a", cpu=2000))
    core.runs("one", "a")
    core.runs("two", "a")
    core.waits("new", cpu(2000))
    core.settled()
    assert core.evictions() == {"one": False, "two": False}
    core.waits("high", priority=1000)
    core.settled()
    assert core.waiting().keys() == {"high"}
    assert len(core.evictions()) == 1


def test_room_that_is_free_by_now_is_taken_at_once():
    core = PreemptionPlay(node("a", cpu=2000))
    core.runs("one", "a")
    core.runs("two", "a")
    core.waits("new", cpu(2000))
    core.settled()
    core.answers()
    core.settled()
    core.ends("one")
    core.waits("high", priority=1000)
    core.settled()
    assert core.waiting() == {"high": []}
    assert core.evictions() == {}


def test_a_gang_loses_all_its_claims_to_a_pod_that_needs_the_room_of_one():
    group = PodGroupFact(
        key=GroupKey("ns/g"), uid="pg", min_member=2, queue="default", priority_class="mid", admitted=True,
        phase="Inqueue",
    )  # fmt: skip
    core = PreemptionPlay(
        node("a", cpu=1000), node("b", cpu=1000), facts=[PriorityClassFact(name="mid", value=100), group]
    )
    core.runs("one", "a")
    core.runs("two", "b")
    core.waits("new-0", gang="g")
    core.waits("new-1", gang="g")
    core.settled()
    assert core.waiting().keys() == {"new-0", "new-1"}
    core.waits("high", priority=1000)
    out = core.tick()
    (write,) = out.writes
    assert sorted(each.message.node for each in write.writes) == ["a", "b"]
    core.written(out)
    core.settled()
    assert core.waiting().keys() == {"high"}
    assert len(core.evictions()) == 1


@pytest.mark.parametrize("go", [False, True])
@pytest.mark.parametrize("needed", [1000, 2000, 3000])
def test_a_gang_goes_whole_or_stays_when_its_room_is_taken(needed, go):
    low = PodGroupFact(key=GroupKey("ns/low"), uid="pg", min_member=2, queue="default", admitted=True, phase="Running")
    core = PreemptionPlay(node("a", cpu=3000), facts=[low])
    for at in range(2):
        core.runs(f"low-{at}", "a", gang="low")
    core.runs("single", "a")
    core.waits("new", cpu(3000))
    core.settled()
    if go:
        core.answers()
        core.settled()
    core.waits("high", cpu(needed), priority=1000)
    core.settled()
    low_pods = {"low-0", "low-1"}
    together = {1000: {"single"}, 2000: low_pods, 3000: {*low_pods, "single"}}[needed]
    if go and needed == 1000:
        together = low_pods  # the gang may have lost pods already
    assert core.evictions().keys() == together
    assert set(core.waiting()["high"]) == set(core.evictions())


def test_a_pod_of_another_queue_takes_no_room():
    core = PreemptionPlay(node("a", cpu=1000), facts=[QueueFact(name="other")])
    core.runs("one", "a")
    core.waits("new")
    core.settled()
    core.in_queue("other", core.waits, "high", priority=1000)
    core.settled(after=10.0)
    assert core.places() == {"new": "a"}


@pytest.mark.parametrize(("millicores", "takes"), [(1000, True), (2000, False)])
def test_room_for_which_another_queue_loses_pods_is_taken_within_what_the_queue_deserves(millicores, takes):
    queues = [QueueFact(name="default", weight=3), QueueFact(name="poor", weight=1)]
    usual = conf("priority gang conformance proportion", actions="allocate, preempt, reclaim")
    core = PreemptionPlay(node("a", cpu=4000), conf=usual, facts=queues)
    for name in ("one", "two", "three", "four"):
        core.runs(name, "a", priority=2000)
    core.in_queue("poor", core.waits, "new")
    core.settled()
    assert core.waiting().keys() == {"new"}
    core.in_queue("poor", core.waits, "high", cpu(millicores), priority=1000)
    out = core.tick()
    if takes:
        (write,) = out.writes
        assert {each.message.node for each in write.writes} == {"a", INTER_POD}
        core.written(out)
    core.settled()
    assert core.waiting().keys() == {"high" if takes else "new"}
    assert len(core.evictions()) == 1


def test_a_nomination_that_goes_on_in_the_same_round_is_not_taken():
    core = nominated()
    core.waits("high", priority=1000)
    core.ends("old-a")  # its claim opens
    out = core.tick()
    ((ledger,),) = [[each.message for each in write.writes] for write in out.writes]
    assert [(claim.name, claim.waits_for) for claim in ledger.claims] == [("new-a", ())]


def test_room_that_another_replica_has_opened_meanwhile_is_not_taken():
    core = nominated()
    core.waits("high", priority=1000)
    (write,) = core.tick().writes
    core.conflict(write)
    ((_, claim),) = core.claims()
    core.others_write(NodeLedger(node="a", claims=(replace(claim, waits_for=()),)))
    core.ends("old-a")
    core.read_back("a", core.sequence)
    core.settled(after=10.0)
    assert core.waiting() == {"new-a": []}


def test_a_nomination_that_waits_for_a_pod_without_an_eviction_is_not_taken():
    core = nominated()
    ((_, claim),) = core.claims()
    core.others_write(NodeLedger(node="a", claims=(claim,)))
    core.waits("high", priority=1000)
    core.settled()
    assert core.waiting().keys() == {"new-a"}


@pytest.mark.parametrize("order", list(permutations(("CLUSTER", "LEDGER", "OUTCOME"))))
def test_a_successor_goes_on_where_room_was_taken(order):
    core = nominated(go=True)
    core.waits("high", priority=1000)
    core.settled()
    core.ends("old-a")
    successor = core.restarted(order=order)
    for uid in successor.decided().pods_read:
        successor.pod_read(uid)
    successor.settled()
    assert (successor.waiting(), successor.evictions()) == ({"high": []}, {})


QUEUES = conf(
    "priority gang conformance proportion",
    actions="enqueue, allocate, preempt, backfill",
    off=["gang.enablePreemptable"],
)


def in_a_queue(*names_and_cpu: tuple[str, int], capability: int) -> PreemptionPlay:
    """Return a core with nodes, and a queue q that may have so much CPU."""
    nodes = (node(name, cpu=amount) for name, amount in names_and_cpu)
    return PreemptionPlay(*nodes, conf=QUEUES, facts=[QueueFact(name="q", capability={"cpu": capability})])


def settle(core: PreemptionPlay) -> None:
    for _ in range(6):
        core.settled(after=1.0)


def test_a_pod_that_stays_as_its_room_is_not_needed_counts_in_its_queue_again():
    core = in_a_queue(("a", 1000), ("b", 1200), capability=1200)
    core.in_queue("q", core.runs, "victim", "a", cpu(1000))
    core.settled()
    core.in_queue("q", core.waits, "new", cpu(1000), priority=100)
    settle(core)
    assert core.waiting() == {"new": ["victim"]}
    core.in_queue("q", core.waits, "high", cpu(1200), priority=1000)
    settle(core)
    assert core.waiting() == {"high": ["victim"]}


def test_room_is_taken_after_a_pod_of_another_node_that_the_queue_has_room_without():
    core = in_a_queue(("a", 700), ("b", 1000), ("c", 500), capability=1200)
    core.in_queue("q", core.runs, "terminating", "c", cpu(500), grace=1000.0, preemptable=False)
    core.in_queue("q", core.runs, "victim", "a", cpu(700), grace=1000.0)
    core.settled()
    core.terminates("terminating")
    core.settled()
    core.in_queue("q", core.waits, "new", cpu(600), priority=100)
    settle(core)
    core.answers()
    core.settled()
    core.terminates("victim")
    core.settled()
    core.in_queue("q", core.waits, "high", cpu(1000), priority=1000)
    settle(core)
    core.ends("victim")
    settle(core)
    assert core.waiting().get("high") != []
    core.ends("terminating")
    settle(core)
    assert core.waiting()["high"] == []
