"""The reasons of pods that wait, in their details."""

import json

import pytest
from deviceshare.model import (
    REFUSED,
    ConfigFact,
    ContainerGrant,
    DeviceGrant,
    Explanation,
    GroupKey,
    NodeOutcomes,
    Outcome,
    PodFact,
    PodGroupFact,
    PodRequest,
    QueueFact,
)
from deviceshare_placement.core import OutcomesReceived
from msgspec.structs import replace
from support.builders import MEMORY, card, node, pod, vgpu
from support.played import WALL, Commands, Played


def gang(played: Played, minimum: int, **minimums: int) -> None:
    played.put(PodGroupFact(key=GroupKey("ns/g"), uid="g", min_member=minimum, min_task_member=minimums))


def of_pods(out: Commands) -> list[Explanation]:
    """Return the explanations of pods, not those of their PodGroup."""
    return [each for each in out.explanations if each.uid.startswith("uid-")]


def test_a_reason_without_nodes_counts_none(played) -> None:
    played.put(QueueFact(name="q", capability={MEMORY: 50}), replace(pod("x", vgpu(1, 60)), queue="q"))
    (explained,) = played.tick().explanations
    assert (explained.nodes, [each.code for each in explained.refusals]) == (0, ["QueueOverCapability"])


@pytest.mark.parametrize(
    ("pods", "code"), [(1, "NotEnoughTasks"), (2, "NotEnoughPodsOfTask"), (3, "NotEnoughPodsOfTask")]
)
def test_a_gang_that_lacks_pods_has_the_code_of_volcano(played, pods, code) -> None:
    gang(played, 2, master=1, worker=1)
    for at in range(pods):
        played.put(replace(pod(f"w{at}", vgpu(1, 10), gang="g"), task="worker"))
    explained = of_pods(played.tick())
    assert {each.gang_reason for each in explained} == {code}
    (message,) = {each.message for each in explained}
    assert message.startswith(f"pod group ns/g is not ready, {pods} of 2 pods exist")


def test_the_minimum_of_a_task_counts_the_pods_that_it_has(played) -> None:
    gang(played, 4, master=1, worker=3)
    played.put(replace(pod("m", vgpu(1, 10), gang="g", node="a"), task="master"))
    for at in range(2):
        played.put(replace(pod(f"b{at}", vgpu(1, 10), gang="g", node="a"), task="worker"))
    played.put(replace(pod("other", vgpu(1, 10), gang="g"), task="master"))
    (message,) = {each.message for each in of_pods(played.tick())}
    assert message == "pod group ns/g is not ready, 4 of 4 pods exist, task worker waits for 1 at least"
    played.put(replace(pod("w", vgpu(1, 10), gang="g"), task="worker"))
    assert "w" in [claim.name for claim in played.tick().claims]


def test_outcomes_of_several_claims_in_one_message_are_all_applied() -> None:
    played = Played(node("a", [card(at, memory=100) for at in range(3)]))
    for name in ("x", "y", "z"):
        played.put(pod(name, vgpu(1, 60)))
    out = played.decided()
    played.remove("pod", "uid-x")
    outcomes = tuple(
        Outcome(each.id, each.uid, REFUSED, "no") for each in sorted(out.claims, key=lambda each: each.uid)
    )
    steps = played.send(OutcomesReceived("a", NodeOutcomes(node="a", outcomes=outcomes))).steps
    assert [(each.uid, each.name) for each in steps] == [("uid-y", "claim refused"), ("uid-z", "claim refused")]
    played.decided()
    assert [claim.name for claim in played.tick(0.5).claims] == ["y", "z"]


@pytest.mark.parametrize("members", [0, 2])
def test_the_job_for_which_nodes_are_kept_free_is_named_beside_the_message(members) -> None:
    """Whose it is other users may not see: it is not in the message of the pod's condition."""
    played = Played(node("a", [card(at, memory=100) for at in range(2)]))
    arguments = {"deviceshare.StarvationSeconds": 20, "deviceshare.VGPUEnable": True}
    plugins = [{"name": name} for name in ("priority", "gang", "proportion")]
    tiers = [{"plugins": [*plugins, {"name": "deviceshare", "arguments": arguments}]}]
    played.put(ConfigFact(name="scheduler", text=json.dumps({"actions": "allocate, backfill", "tiers": tiers})))
    for at in range(2):
        played.put(pod(f"s{at}", vgpu(1, 100), created=WALL + 100.0))
    played.decided()
    if members:
        gang(played, members)
        big = [pod(f"big-{at}", vgpu(1, 100), gang="g", created=WALL + 100.0) for at in range(members)]
    else:
        big = [pod("big", vgpu(2, 100), created=WALL + 100.0)]
    played.put(*big)
    played.tick(30.0)
    played.tick(30.0)
    played.put(pod("small", vgpu(1, 10), created=WALL + 160.0))
    (found,) = [each for each in played.tick(2.0).explanations if each.name == "small"]
    assert found.message == "0/1 nodes are unavailable: 1 node(s) were kept free for a gang that waited too long."
    assert found.kept_for == (("ns/g",) if members else ("ns/big",))


def test_only_the_job_is_named_that_keeps_nodes_from_the_pod() -> None:
    """Of two queues that keep nodes free, one keeps those with room for it, then one those that it may use at all."""
    of_kinds, memory = {"a": "A100", "b": "V100"}, {"a": 100, "b": 150}
    played = Played(
        *(
            node(name, [card(at, memory=memory[name], model=model, node=name) for at in range(2)])
            for name, model in of_kinds.items()
        )
    )
    arguments = {"deviceshare.StarvationSeconds": 20, "deviceshare.VGPUEnable": True}
    tiers = [{"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "deviceshare", "arguments": arguments}]}]
    played.put(ConfigFact(name="scheduler", text=json.dumps({"actions": "allocate, backfill", "tiers": tiers})))
    for name, model in of_kinds.items():
        played.put(QueueFact(name=f"of-{name}"), on_node(name, 60, at=0), on_node(name, 60, at=1))
        big = vgpu(2, 100, annotations={"nvidia.com/use-gputype": model})
        played.put(replace(pod(f"big-{name}", big, created=WALL + 100.0), queue=f"of-{name}"))
    for _ in range(4):
        played.tick(30.0)
    assert {each.queue for each in played.core.scheduler.cluster.dispatcher.reservations} == {"of-a", "of-b"}
    asks = {
        "v100": vgpu(1, 10, annotations={"nvidia.com/use-gputype": "V100"}),
        "either": vgpu(1, 10),
        "later": vgpu(1, 90, annotations={"nvidia.com/use-gputype": "A100"}),
        "larger than the cards of a": vgpu(1, 120),
    }
    played.put(*(pod(name, ask, created=WALL + 160.0) for name, ask in asks.items()))
    found = {each.name: each.kept_for for each in played.tick(2.0).explanations if each.name in asks}
    assert found == {"v100": ("ns/big-b",), "either": ("ns/big-a", "ns/big-b"), "later": ("ns/big-a",)} | {
        "larger than the cards of a": ("ns/big-b",)
    }


def test_that_enough_is_free_in_sum_is_published_though_the_message_is_the_same() -> None:
    played = Played(*(node(name, [card(0, memory=1000, node=name)]) for name in ("a", "b")))
    for name, memory in (("a", 400), ("b", 400), ("b", 550)):
        played.put(on_node(name, memory))
    played.put(pod("w", vgpu(1, 700)))
    (before,) = played.tick().explanations
    assert before.enough_in_sum == ()
    played.remove("pod", on_node("b", 550).uid)
    (after,) = played.tick(2.0).explanations
    assert after.message == before.message
    assert [model for model, _ in after.enough_in_sum] == ["NVIDIA-Tesla V100"]


SMALL, LARGE = card(0, memory=100), card(1, memory=300, model="NVIDIA-A100")
TOO_LARGE = {
    "than all cards": (vgpu(1, 400), 300),
    "than those of a model": (vgpu(1, 200, annotations={"nvidia.com/use-gputype": "V100"}), 100),
    "than those of its nodes": (replace(vgpu(1, 200), node_selector=(("kubernetes.io/hostname", "small"),)), 100),
    "not larger than the largest card, which others hold": (vgpu(1, 300), 0),
}


@pytest.mark.parametrize(("ask", "largest"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_request_that_is_larger_than_any_card_says_what_the_largest_has(ask: PodRequest, largest: int) -> None:
    small, large = (
        node(name, [each], labels={"kubernetes.io/hostname": name})
        for name, each in (("small", SMALL), ("large", LARGE))
    )
    played = Played(small, large)
    held = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant(LARGE.id, 1, 250, 0),)),)
    played.put(pod("other", vgpu(1, 250), node="large", held=held), pod("w", ask))
    (found,) = played.tick().explanations
    assert {each.largest for each in found.refusals if each.code == "CardInsufficientMemory"} == {largest}
    amount = ask.containers[0].get(MEMORY)
    text = f"(asked {amount} MiB, the largest card that the pod may use has {largest} MiB)"
    assert (text in found.message) == bool(largest)


def on_node(name: str, memory: int, at: int = 0) -> PodFact:
    there = card(at, memory=1000, node=name)
    held = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant(there.id, at, memory, 0),)),)
    return pod(f"on-{name}-{memory}-{at}", vgpu(1, memory), node=name, held=held)
