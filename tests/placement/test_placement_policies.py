"""Policies of PodGroups and queues, and what explanations say of them."""

import json

import pytest
from deviceshare.families import explain_claim
from deviceshare.model import ConfigFact, GroupKey, PodGroupFact, Policies, QueueFact
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu
from support.played import Played

ARGUMENTS = {
    "deviceshare.VGPUEnable": "true",
    "deviceshare.SchedulePolicy": "binpack",
    "deviceshare.ScheduleWeight": "10",
}
GROUP = PodGroupFact(key=GroupKey("ns/g"), uid="g", queue="q", min_member=1, admitted=True)


def config(**more):
    plugins = [{"name": "deviceshare", "arguments": {**ARGUMENTS, **more}}]
    return ConfigFact(name="scheduler", text=json.dumps({"actions": "allocate", "tiers": [{"plugins": plugins}]}))


def started(**more):
    played = Played(node("a", [card(at, memory=100) for at in range(3)]))
    played.put(config(**more), QueueFact(name="q"), pod("first", vgpu(1, 10)))
    out = played.tick()
    assert cards_of(out) == {"first": 0}
    played.written(out)
    return played


def cards_of(out):
    return {claim.name: claim.grants[0].devices[0].index for claim in out.claims if claim.grants and claim.choice}


def last(out, name):
    (claim,) = [claim for claim in out.claims if claim.name == name]
    return claim.grants[0].devices[0].index, explain_claim(claim, "a").why[0]


def asking(node_policy="", card_policy=""):
    return replace(vgpu(1, 10), policies=Policies(node_policy, card_policy))


def test_a_pods_own_policy_decides_before_that_of_its_group_and_queue():
    played = started()
    played.put(QueueFact(name="q", policies=Policies("spread", "spread")))
    played.put(replace(GROUP, policies=Policies("", "fragmentation")))
    played.put(pod("one", asking(card_policy="binpack"), gang="g"))
    index, why = last(played.tick(), "one")
    assert index == 0
    assert why.startswith(
        "policy spread (of the Queue) for nodes and binpack (of the Pod) for cards, weight 10: device score"
    )


@pytest.mark.parametrize("kind", ["PodGroup", "Queue"])
def test_policies_of_group_and_queue_apply_and_are_explained(kind):
    played = started()
    policies = Policies("spread", "spread")
    played.put(replace(GROUP, policies=policies if kind == "PodGroup" else Policies()))
    played.put(QueueFact(name="q", policies=policies if kind == "Queue" else Policies()))
    played.put(pod("one", vgpu(1, 10), gang="g"))
    index, why = last(played.tick(), "one")
    assert index == 1
    assert why.startswith(f"policy spread (of the {kind}), weight 10: device score 50.00")


def test_a_pod_of_a_queue_without_a_group_has_the_queues_policy():
    played = started()
    played.put(QueueFact(name="q", policies=Policies("", "spread")), replace(pod("one", vgpu(1, 10)), queue="q"))
    index, why = last(played.tick(), "one")
    assert index == 1
    assert why.startswith("policy binpack for nodes and spread (of the Queue) for cards")


def test_waiting_pods_get_the_policies_that_their_queue_and_group_set_later():
    played = started()
    for number in range(3):
        played.put(pod(f"large-{number}", vgpu(1, 85)))
    out = played.tick()
    assert sorted(cards_of(out).values()) == [0, 0, 1, 2]
    played.written(out)
    for name, gang, queue in (("one", "", "q"), ("two", "g", "q")):
        played.put(replace(pod(name, vgpu(1, 50), gang=gang), queue=queue))
    played.put(GROUP)
    assert played.tick().claims == []
    played.put(QueueFact(name="q", policies=Policies("", "spread")), replace(GROUP, policies=Policies("spread")))
    classes = {name: played.core.scheduler.cluster.pods[f"uid-{name}"] for name in ("one", "two")}
    played.tick()
    assert classes["one"].fact.ask.policies == Policies("", "spread", "", "Queue")
    assert classes["two"].fact.ask.policies == Policies("spread", "spread", "PodGroup", "Queue")
    played.remove("queue", "q")
    played.remove("podgroup", "ns/g")
    played.tick()
    assert {record.fact.ask.policies for record in classes.values()} == {Policies()}


def test_without_policies_of_objects_the_explanation_is_as_before():
    played = started()
    played.put(pod("one", vgpu(1, 10)))
    _, why = last(played.tick(), "one")
    assert why == "policy binpack, weight 10: device score 20.00; ties go to the lowest node name"


def test_a_gang_is_classified_again_only_if_its_queue_or_its_policies_change(monkeypatch):
    played = started()
    played.put(QueueFact(name="q", policies=Policies("", "spread")), GROUP, pod("one", vgpu(1, 10), gang="g"))
    cluster, classified = played.core.scheduler.cluster, []
    classify = cluster.classify
    monkeypatch.setattr(cluster, "classify", lambda fact: classified.append(fact.name) or classify(fact))
    played.put(replace(GROUP, phase="Running"))
    assert classified == []
    played.put(replace(GROUP, queue="other"))
    assert classified == ["one"]
    assert cluster.pods["uid-one"].fact.ask.policies == Policies()


def test_a_pod_that_asks_for_fragmentation_makes_all_pods_count():
    played = started()
    allocator = played.core.scheduler.cluster.allocator
    assert not allocator.learns
    played.put(pod("one", asking("fragmentation", "fragmentation")))
    assert allocator.learns
    index, why = last(played.tick(), "one")
    assert index == 0
    assert why.startswith("policy fragmentation (of the Pod), weight 10")


@pytest.mark.parametrize("kind", ["Pod", "PodGroup", "Queue"])
def test_the_known_pods_count_when_an_object_gets_the_policy(kind):
    played = started()
    known = pod("one", vgpu(1, 10), gang="g")
    played.put(GROUP, known)
    allocator = played.core.scheduler.cluster.allocator
    assert not allocator.learns
    policies = Policies("fragmentation", "fragmentation")
    played.put(
        {
            "Pod": replace(known, ask=asking("fragmentation", "fragmentation")),
            "PodGroup": replace(GROUP, policies=policies),
            "Queue": QueueFact(name="q", policies=policies),
        }[kind]
    )
    played.tick()
    assert sum(allocator._expected_pods._arrivals._weights.values()) == 6.0, "two pods, and the prior"


def test_the_configuration_makes_all_pods_count():
    played = started(**{"deviceshare.SchedulePolicy": "fragmentation"})
    assert played.core.scheduler.cluster.allocator.learns
    played = started()
    played.put(config(**{"deviceshare.SchedulePolicy": "fragmentation"}))
    assert played.core.scheduler.cluster.allocator.learns
