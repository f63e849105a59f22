"""Pods that wait only for fragmentation: counted by placement's reasons as a plain count of what is free does."""

import asyncio
import random
from collections import Counter

from deviceshare.model import ContainerGrant, DeviceGrant, Taint
from deviceshare_bus.messages import subjects
from deviceshare_cli.explaining import explanation_text
from deviceshare_metrics.queries import Queries
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu
from support.metrics import catch_up, exposed, read, snapshot_of
from support.played import Played

MEMORY = 1000
MODELS = ("NVIDIA-Tesla V100", "NVIDIA-A100")
SEEDS = range(120)


def cluster(rng):
    """Return nodes and the pods on them; some nodes and cards take no pods."""
    nodes, pods = [], []
    for number in range(rng.randint(1, 5)):
        name = f"n{number}"
        models = (rng.choice(MODELS),) if rng.random() < 0.8 else MODELS
        cards = [
            replace(card(at, memory=MEMORY, node=name, healthy=rng.random() > 0.1), type=rng.choice(models))
            for at in range(rng.choice((1, 2, 4)))
        ]
        taints = (Taint("own", "", "NoSchedule"),) if rng.random() < 0.2 else ()
        nodes.append(node(name, cards, ready=rng.random() > 0.1, taints=taints, cpu=rng.choice((64_000, 64_000, 0))))
        for each in cards:
            if used := rng.choice((0, 300, 600, 600, 600, 1000)):
                held = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant(each.id, each.index, used, 0),)),)
                pods.append(pod(f"on-{each.id}", vgpu(1, used), node=name, held=held))
    return nodes, pods


def only_scattered(nodes, pods, number, memory):
    """Return the models of which as much is free in sum, though on no node; None: the pod fits a node.

    Nodes and cards that take no pods do not count.
    """
    used = {grant.devices[0].id: grant.devices[0].memory for each in pods for grant in each.held}
    free = [
        [(each.type, each.memory - used.get(each.id, 0)) for each in here.cards if each.healthy]
        for here in nodes
        if here.ready and not here.taints and here.allocatable["cpu"]
    ]
    if any(sum(amount >= memory for _, amount in here) >= number for here in free):
        return None
    return {
        model
        for model in MODELS
        if memory <= MEMORY and any(sum(each.type == model for each in here.cards) >= number for here in nodes)
        if sum(amount for here in free if len(here) >= number for name, amount in here if name == model)
        >= number * memory
    }


def decided(nodes, facts):
    """Return a metrics core that has read a cluster and what placement decides about it."""
    played = Played(*nodes)
    played.put(*facts)
    explanations = played.tick().explanations
    core = read(
        *((subjects.fact("node", each.name), each) for each in nodes),
        *((subjects.fact("pod", each.uid), each) for each in facts),
        *((subjects.explain(each.uid), each) for each in explanations),
    )
    catch_up(core)
    return core


def test_a_pod_waits_only_for_fragmentation_if_enough_of_a_model_is_free_in_sum():
    outcomes = Counter(len(found) for seed in SEEDS if (found := fragmented(seed)) is not None)
    assert min(outcomes[0], outcomes[1]) >= 10, outcomes
    assert outcomes.total() < len(SEEDS)


def fragmented(seed):
    """Check a random pod; return the models that it could wait for, None if it fits a node."""
    rng = random.Random(seed)
    nodes, pods = cluster(rng)
    number, memory = rng.choice((1, 1, 2, 4)), rng.choice((400, 700, 1000, 1200))
    wanted = replace(vgpu(number, memory), overhead=(("cpu", 1000),))
    core = decided(nodes, [*pods, pod("w", wanted)])
    expected = only_scattered(nodes, pods, number, memory)
    (found,) = [each for each in snapshot_of(core).pods if each.name == "w"]
    if expected is None:
        return None
    assert found.fragmented in (expected or {""}), (seed, found.reason)
    answer = asyncio.run(Queries(core).explain("ns", "w"))
    assert answer.pod.fragmented == found.fragmented
    assert ("waits only for fragmentation" in explanation_text("ns/w", answer, None, 0.0)) == bool(expected)
    lines = [each for each in exposed(core).splitlines() if each.startswith("deviceshare_cluster_pods_frag")]
    assert sum(float(each.split()[-1]) for each in lines) == bool(expected)
    assert not expected or f'deviceshare_cluster_pods_fragmented{{type="{found.fragmented}"}} 1.0' in lines
    return expected


def test_cards_that_are_a_plain_number_count_as_well():
    nodes = [node(f"n{at}", **{"nvidia.com/gpu": 4}) for at in range(2)]
    asked = replace(vgpu(None), overhead=(("nvidia.com/gpu", 3),))
    on_nodes = [pod(f"b{at}", asked, node=f"n{at}") for at in range(2)]
    small, large = (replace(vgpu(None), overhead=(("nvidia.com/gpu", number),)) for number in (2, 8))
    core = decided(nodes, [*on_nodes, pod("small", small), pod("large", large)])
    found = {each.name: each.fragmented for each in snapshot_of(core).pods if each.state == "Pending"}
    assert found == {"small": "nvidia.com/gpu", "large": ""}


def test_the_pods_of_a_gang_and_those_that_are_deleted_do_not_count():
    nodes = [node(name, [card(0, memory=MEMORY, node=name)]) for name in "ab"]
    on_nodes = [
        pod(
            f"on-{each.name}",
            vgpu(1, 500),
            node=each.name,
            held=(ContainerGrant("c0", 0, "hami-core", (DeviceGrant(each.cards[0].id, 0, 500, 0),)),),
        )
        for each in nodes
    ]
    waiting = pod("w", vgpu(1, 700))
    explanation = decided(nodes, [*on_nodes, waiting]).store.histories[waiting.uid].explanation

    def fragmented(waiting, explanation):
        core = read(
            *((subjects.fact("node", each.name), each) for each in nodes),
            *((subjects.fact("pod", each.uid), each) for each in (*on_nodes, waiting)),
            (subjects.explain(waiting.uid), explanation),
        )
        catch_up(core)
        return [each.name for each in snapshot_of(core).pods if each.fragmented]

    assert fragmented(waiting, explanation) == ["w"]
    assert fragmented(replace(waiting, terminating=True), explanation) == []
    # Of a gang, a reason is that of one pod.
    assert fragmented(waiting, replace(explanation, gang="2 of 3 pods are placed")) == []


def test_a_pod_with_several_containers_does_not_count_since_its_reason_is_about_one():
    held = [(ContainerGrant("c0", 0, "hami-core", (DeviceGrant(f"n{at}-0", 0, 600, 0),)),) for at in range(2)]
    cards = [[replace(card(0, memory=MEMORY, node=f"n{at}"), id=f"n{at}-0", type=MODELS[1])] for at in range(2)]
    nodes = [node(f"n{at}", cards[at], cpu=64_000) for at in range(2)]
    bound = [pod(f"on-{at}", vgpu(1, 600), node=f"n{at}", held=held[at]) for at in range(2)]
    one = vgpu(1, 700)
    (container,) = one.containers
    two = replace(one, containers=(container, replace(container, name="c1")))
    core = decided(nodes, [*bound, pod("one", one), pod("two", two)])
    pods = {each.name: each.fragmented for each in asyncio.run(Queries(core).pods()) if not each.node}
    assert asyncio.run(Queries(core).explain("ns", "one")).pod.fragmented == MODELS[1]
    assert asyncio.run(Queries(core).explain("ns", "two")).pod.fragmented == ""
    assert pods == {"one": MODELS[1], "two": ""}
