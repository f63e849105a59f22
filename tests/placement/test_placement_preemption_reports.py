"""Pods that go for others: what is said of them, and counted."""

from deviceshare.model import DisruptionLimit, PodDisruptionBudgetFact
from deviceshare_bus.cores.core import Count
from msgspec.structs import replace
from support.builders import node
from support.preemption_play import BLOCKED, GANG, HIGH, PreemptionPlay, full, nominated
from support.preemption_scene import cpu


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
    core = nominated()
    core.answers()
    core.settled()
    core.terminates("one")
    core.ends("new")
    counts = {each.name: each.amount for each in core.tick() if isinstance(each, Count)}
    assert counts["preemption_wasted_victims"] == 1
