"""What kubelet offers of device resources bounds the pods of a node, whatever its device plugin registers."""

import json
from collections.abc import Mapping

import hypothesis.strategies as st
import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import parse_devices
from deviceshare.model import Card, ContainerGrant, DeviceGrant, NodeFact, PodRequest
from deviceshare.objects import decode_node
from hypothesis import given
from msgspec.structs import replace
from support.builders import (
    CORES,
    MEMORY,
    NUMBER,
    PERCENTAGE,
    SHARE,
    WHOLE_CARDS,
    ask,
    card,
    cards,
    cluster,
    conf,
    container,
    node,
    share,
    share_cards,
    take,
    vgpu,
    whole,
    whole_cards,
)
from support.hami_vnpu import P310, chips, npu
from support.hami_vnpu import allocator as npu_allocator

GPU, GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpumem"


def hami_cards() -> list[Card]:
    return [card(at, mode="hami-gpu") for at in range(2)]


def fitting(allocator: Allocator, what: PodRequest) -> int:
    """Return how many such pods fit."""
    count = 0
    while allocator.place(what) is not None:
        take(allocator, what, f"u{count}")
        count += 1
    return count


@pytest.mark.parametrize(
    ("registered", "offered", "what", "fits"),
    [
        (cards(2, slots=4), {NUMBER: 3}, vgpu(1, 10), 3),
        (cards(2, slots=4), {NUMBER: 5}, vgpu(2, 10), 2),
        (cards(2, memory=100), {MEMORY: 70}, vgpu(1, 30), 2),
        (cards(2, memory=100), {MEMORY: 70}, vgpu(2, 30), 2),
        (cards(2), {CORES: 110}, vgpu(1, 10, 50), 2),
        (cards(2, mode="mps"), {MEMORY: 20}, vgpu(1, 10), 2),
        (share_cards(2, memory=100), {SHARE: 100}, share(30), 3),
        (whole_cards(4), {WHOLE_CARDS: 3}, whole(1), 3),
        (hami_cards(), {GPU: 3}, ask(container(**{GPU: 1, GPU_MEMORY: 10})), 3),
        (hami_cards(), {GPU: 20, GPU_MEMORY: 25}, ask(container(**{GPU: 1, GPU_MEMORY: 10})), 2),
    ],
)
def test_pods_fit_as_far_as_kubelet_offers_devices(registered, offered, what, fits) -> None:
    one = cluster(node("n1", registered, **offered))
    assert fitting(one, what) == fits
    (refusal,) = one.why_not(what).refusals
    assert (refusal.code, refusal.nodes, refusal.resource in offered) == ("InsufficientResource", 1, True)
    wide = cluster(node("n1", registered, **dict.fromkeys(offered, 10**6)))
    assert fitting(wide, what) > fits


def test_vnpus_fit_as_far_as_kubelet_offers_devices() -> None:
    for offered, fits in (({"": 2, "-memory": 10**6}, 2), ({"": 99, "-memory": 6000}, 2), ({"": 99}, 4)):
        names = {f"huawei.com/{P310}{end}": amount for end, amount in offered.items()}
        assert fitting(npu_allocator(node("n1", chips(1, slots=4), **names)), npu(1, 3000)) == fits


def test_a_resource_that_kubelet_does_not_mention_is_no_bound() -> None:
    assert fitting(cluster(node("n1", cards(1, slots=4), **{NUMBER: 9})), vgpu(1, 10, 5)) == 4


def test_the_reason_says_that_kubelet_offers_less_and_whether_cards_are_unhealthy() -> None:
    one = cluster(node("n1", cards(2, slots=2), **{NUMBER: 1}))
    take(one, vgpu(1, 10), "a")
    (refusal,) = one.why_not(vgpu(1, 10)).first_failing
    assert refusal.line == f"1 Insufficient {NUMBER} in kubelet's allocatable (asked 1, at most 0 free, 1 missing)"
    one.set_node(node("n1", [card(0, slots=2, healthy=False), card(1, slots=2)], **{NUMBER: 1}))
    (refusal,) = one.why_not(vgpu(1, 10)).first_failing
    assert refusal.text == f"Insufficient {NUMBER} in kubelet's allocatable, which unhealthy cards reduce"


def test_cards_are_the_reason_where_they_have_no_room_either() -> None:
    one = cluster(node("n1", cards(1, slots=1), **{NUMBER: 1}))
    take(one, vgpu(1, 10), "a")
    assert {each.code for each in one.why_not(vgpu(1, 10)).refusals} == {"CardTimeSlicingExhausted"}


def test_kubelet_counts_pods_on_unhealthy_cards_and_pods_without_devices() -> None:
    unhealthy = [card(0, slots=2), card(1, slots=2, healthy=False)]
    one = cluster(node("n1", unhealthy, **{NUMBER: 2}))
    grant = ContainerGrant("c", 0, "hami-core", (DeviceGrant("GPU-1", 1, 10, 0),))
    one.hold("n1", "a", (grant,), one.amounts(vgpu(1, 10)))
    assert fitting(one, vgpu(1, 10)) == 1
    one.release("n1", "a")
    one.hold("n1", "other", (), one.amounts(vgpu(1, 10)))
    assert one.place(vgpu(1, 10)) is None


def test_room_comes_back_with_the_pods_and_with_kubelets_offer() -> None:
    one = cluster(node("n1", cards(2, slots=4), **{NUMBER: 1}))
    take(one, vgpu(1, 10), "a")
    assert one.place(vgpu(1, 10)) is None
    one.release("n1", "a")
    take(one, vgpu(1, 10), "a")
    one.set_node(node("n1", cards(2, slots=4), **{NUMBER: 2}))
    take(one, vgpu(1, 10), "b")
    one.set_node(node("n1", cards(2, slots=4)))
    assert one.place(vgpu(1, 10)) is not None, "not mentioned any more"


def test_other_names_of_resources_bound_as_well_from_their_configuration_on() -> None:
    renamed = parse_devices("nvidia: {resourceCountName: example.com/gpus}", "test")
    one = cluster(node("n1", cards(2, slots=4), **{"example.com/gpus": 1}))
    one.set_configuration(replace(conf(), devices=renamed))
    what = ask(container(**{"example.com/gpus": 1, MEMORY: 10}))
    assert fitting(one, what) == 1


_AMOUNTS = st.fixed_dictionaries({}, optional={NUMBER: st.integers(0, 6), MEMORY: st.integers(0, 90)})
_PODS = st.builds(
    vgpu, st.sampled_from([1, 2]), st.sampled_from([None, 10, 25]), percentage=st.sampled_from([None, 20])
)


@given(st.lists(_AMOUNTS, min_size=1, max_size=3), st.lists(_PODS, max_size=8))
def test_no_node_ever_gets_more_than_kubelet_admits(offered, pods) -> None:
    """kubelet admits a pod if the requests of all pods of the node, as they are written, are at most allocatable."""
    nodes: list[NodeFact] = [node(f"n{at}", cards(2, memory=100, slots=3), **each) for at, each in enumerate(offered)]
    one = cluster(*nodes)
    counted: dict[str, dict[str, int]] = {each.name: {} for each in nodes}

    def admits(fact: NodeFact, what: PodRequest) -> bool:
        asked = dict(what.containers[0].resources)
        return all(
            counted[fact.name].get(name, 0) + amount <= fact.allocatable[name]
            for name, amount in asked.items()
            if name in fact.allocatable
        )

    for number, what in enumerate(pods):
        wide = cluster(*(replace(each, allocatable=_without(each.allocatable)) for each in nodes))
        for each in nodes:
            for uid, holding in one.holdings_on(each.name):
                wide.hold(each.name, uid, holding.grants, holding.resources)
        by_cards = {each.name for each in nodes if _fits(wide, nodes, each, what)}
        placement = one.place(what)
        able = {each.name for each in nodes if each.name in by_cards and admits(each, what)}
        assert (placement is not None) == bool(able)
        if placement is not None:
            assert placement.node in able
            one.take(str(number), placement)
            for name, amount in what.containers[0].resources:
                counted[placement.node][name] = counted[placement.node].get(name, 0) + amount


def _without(allocatable: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in allocatable.items() if name not in (NUMBER, MEMORY, PERCENTAGE)}


def _fits(wide: Allocator, nodes: list[NodeFact], only: NodeFact, what: PodRequest) -> bool:
    """Return whether the cards of one node have room."""
    for each in nodes:
        wide.set_reserved(each.name, reserved=each is not only)
    return wide.place(what) is not None


@pytest.mark.parametrize("name", [NUMBER, MEMORY, CORES])
@pytest.mark.parametrize("healthy", [True, False])
def test_the_reason_says_that_kubelet_offers_none_of_the_registered_cards(name, healthy) -> None:
    register = "".join(f"GPU-{at},4,16384,NVIDIA-T4,{str(healthy).lower()},hami-core:" for at in range(8))
    offered = {"cpu": "2", "pods": "9", NUMBER: "32", MEMORY: "131072", CORES: "800"} | {name: "0"}
    metadata = {"name": "n1", "annotations": {"volcano.sh/node-vgpu-register": register}}
    fact = decode_node(json.dumps({"metadata": metadata, "status": {"allocatable": offered}}).encode())
    sick = card(0, node="n2", healthy=False)
    one = cluster(fact, node("n2", [sick]), node("n3"))
    assert [refusal.line for refusal in one.why_not(vgpu(1, 10)).first_failing] == [
        "1 node(s) had unhealthy cards",
        f"1 node(s) had unhealthy cards: kubelet's allocatable {name} is 0",
        "1 node(s) had no vGPU cards",
    ]
    assert fitting(one, vgpu(1, 10)) == 0


def test_the_reason_says_that_kubelet_offers_none_of_a_resource_that_nodes_had() -> None:
    name = f"huawei.com/{P310}"
    gone = f"2 Insufficient {name}, of which kubelet offers none on any node (asked 1, at most 0 free, 1 missing)"
    one = npu_allocator(node("n1", chips(8, slots=4), **{name: 0, f"{name}-memory": 0}), node("n2"))
    assert [refusal.line for refusal in one.why_not(npu(1, 3000)).first_failing] == [gone]
    # The device plugin was removed while a pod has devices.
    gpus = cluster(node("n1", **{GPU: 8}), node("n2"))
    take(gpus, ask(container(**{GPU: 4})), "a")
    gpus.set_node(node("n1"))
    (refusal,) = gpus.why_not(ask(container(**{GPU: 1}))).first_failing
    assert refusal.text == f"Insufficient {GPU}, of which kubelet offers none on any node"


def test_a_hint_names_a_resource_that_some_node_has() -> None:
    asked = ask(container(**{"nvidia.com/gpu": 1}))
    assert cluster(node("n1")).why_not(asked).refusals[0].text == "Insufficient nvidia.com/gpu, which no node has"
    misspelt = ask(container(**{"volcano.sh/vgpu-mem": 1}))
    hint = "; did you mean volcano.sh/vgpu-memory?"
    assert cluster(node("n1", cards(1))).why_not(misspelt).refusals[0].text.endswith(hint)
    assert cluster(node("n1", **{MEMORY: 10})).why_not(misspelt).refusals[0].text.endswith(hint)
    assert cluster(node("n1")).why_not(misspelt).refusals[0].text.endswith("which no node has")


def test_what_only_a_removed_node_offered_limits_no_pod() -> None:
    one = cluster(node("gone", cards(1), **{MEMORY: 70}), node("n1", cards(1, memory=100)))
    assert one.place(vgpu(1, 30)) is not None
    one.remove_node("gone")
    # Other resources get the columns that nothing uses.
    one.set_node(node("other", **{f"example.com/r{at}": 1 for at in range(20)}))
    assert one.place(vgpu(1, 40)) is not None
