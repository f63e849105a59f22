"""Pods that go for others: what queues and budgets count, and what is written for reclaim."""

from deviceshare.model import PodDisruptionBudgetFact, QueueFact, Requirement
from deviceshare_bus.messages import subjects
from deviceshare_placement.core.claims import INTER_POD
from msgspec.structs import replace
from support.builders import node
from support.preemption_play import PreemptionPlay
from support.preemption_scene import conf, cpu


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
