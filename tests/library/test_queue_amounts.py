"""What pods and nodes count in queues: by the names that users write in a Queue, for every family."""

import pytest
from deviceshare.conf import default_conf
from deviceshare.model import INIT, Card, ContainerGrant, DeviceGrant
from deviceshare.queueing import Counting
from support.builders import (
    CORES,
    MEMORY,
    NUMBER,
    SHARE,
    WHOLE_CARDS,
    ask,
    card,
    container,
    node,
    share,
    share_cards,
    vgpu,
    whole,
)

P310, P310_MEMORY, NPU_CORE = "huawei.com/Ascend310P", "huawei.com/Ascend310P-memory", "huawei.com/npu-core"
ALWAYS = ("cpu", "memory", "pods")


def counted(what, *nodes):
    amounts = dict(Counting(default_conf(), nodes).asked(what))
    assert amounts.pop("pods") == 1
    return amounts


def has(*nodes):
    total = Counting(default_conf(), nodes).total
    return {name: amount for name, amount in total.items() if name not in ALWAYS}


def chip(at, mode):
    memory, cores = (0, 8) if mode == "mindcluster" else (21527, 8)
    return Card(f"D{at}", at, 7, memory, cores, "310P3" if mode == "mindcluster" else "Ascend310P", mode=mode)


def npu(cores):
    what = container(**{NPU_CORE: cores})
    return ask(what, labels=(("ring-controller.atlas", "ascend-310P"),))


@pytest.mark.parametrize(
    ("nodes", "total"),
    [
        ([node(cards=[card(0), card(1, mode="mig")])], {NUMBER: 20, MEMORY: 65536, CORES: 200}),
        ([node("a", [card(0)]), node("b", [card(0)])], {NUMBER: 20, MEMORY: 65536, CORES: 200}),
        ([node(cards=share_cards(3))], {SHARE: 3 * 11178, WHOLE_CARDS: 3}),
        ([node(cards=[chip(0, "mindcluster"), chip(1, "mindcluster")], **{NPU_CORE: 16})], {NPU_CORE: 16}),
        ([node(cards=[card(0, healthy=False)])], {NUMBER: 10, MEMORY: 32768, CORES: 100}),
        ([node(**{"nvidia.com/gpu": 8})], {"nvidia.com/gpu": 8}),
    ],
)
def test_what_nodes_have(nodes, total):
    assert has(*nodes) == total


def test_the_chips_of_hami_count_their_memory_and_the_kubelet_counts_the_shares():
    total = has(node(cards=[chip(0, "vnpu")], **{P310: 7}))
    assert (total[P310], total[P310_MEMORY]) == (7, 21527)


@pytest.mark.parametrize(
    ("what", "amounts"),
    [
        (vgpu(2, 1000, 10), {NUMBER: 2, MEMORY: 2000, CORES: 20}),
        (vgpu(1, 1000, containers=3), {NUMBER: 3, MEMORY: 3000}),
        (share(500), {SHARE: 500}),
        (whole(2), {WHOLE_CARDS: 2}),
        (npu(2), {NPU_CORE: 2}),
        (npu(16), {NPU_CORE: 16}),
        (ask(container(**{P310: 1, P310_MEMORY: 3000})), {P310: 1, P310_MEMORY: 3072}),
        (ask(container(**{"nvidia.com/gpu": 2, "cpu": 500})), {"nvidia.com/gpu": 2, "cpu": 500}),
        (ask(container(cpu=0)), {}),
    ],
)
def test_what_pods_request(what, amounts):
    assert counted(what) == amounts


def test_an_init_container_counts_as_far_as_it_requests_more_than_all_others():
    first = container("init", **{NUMBER: 1, MEMORY: 5000})
    what = ask(container(**{NUMBER: 2, MEMORY: 1000}), init_containers=(first,))
    assert counted(what) == {NUMBER: 2, MEMORY: 5000}


def test_a_percentage_counts_by_the_largest_card_until_the_pod_has_one():
    small, large = node("a", [card(0, memory=1000)]), node("b", [card(0, memory=4000)])
    counting = Counting(default_conf(), [small, large])
    half, all_of_it = vgpu(1, percentage=50), vgpu(1)
    assert dict(counting.asked(half))[MEMORY] == 2000
    assert dict(counting.asked(all_of_it))[MEMORY] == 4000
    given = ContainerGrant("c0", 0, "hami-core", (DeviceGrant("GPU-0", 0, 500, 0),))
    assert dict(counting.held(half, [given]))[MEMORY] == 500
    first = ContainerGrant("init", 0, "hami-core", (DeviceGrant("GPU-0", 0, 900, 0),), INIT)
    assert dict(counting.held(half, [given, first]))[MEMORY] == 900
    counting.remove_node("b")
    assert dict(counting.asked(half))[MEMORY] == 500


T4, A100 = "Tesla-T4", "NVIDIA-A100-SXM4-80GB"


def test_whole_cards_count_by_the_models_that_the_pod_accepts():
    t4 = node("a", [card(0, memory=15360, model=T4), card(1, memory=15360, model=T4)])
    counting = Counting(default_conf(), [t4, node("b", [card(0, memory=81920, model=A100)])])
    use, nouse = ({f"nvidia.com/{key}-gputype": "T4"} for key in ("use", "nouse"))
    assert dict(counting.asked(vgpu(1)))[MEMORY] == 81920
    assert dict(counting.asked(vgpu(1, annotations=use)))[MEMORY] == 15360
    assert dict(counting.asked(vgpu(1, percentage=50, annotations=use)))[MEMORY] == 7680
    assert dict(counting.asked(vgpu(2, annotations=use)))[MEMORY] == 30720
    assert dict(counting.asked(vgpu(1, annotations=nouse)))[MEMORY] == 81920
    assert dict(counting.asked(vgpu(1, annotations={"volcano.sh/vgpu-mode": "mig"}))).get(MEMORY, 0) == 0


def test_percentages_of_hami_count_by_model_as_well():
    names = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50}
    cards = [card(0, memory=15360, model=T4, mode="hami-gpu"), card(1, memory=81920, model=A100, mode="hami-gpu")]
    counting = Counting(default_conf(), [node("a", cards, **{"nvidia.com/gpu": 20})])
    use = ask(container(**names), annotations={"nvidia.com/use-gputype": "T4"})
    assert dict(counting.asked(use))["nvidia.com/gpumem"] == 7680
    assert dict(counting.asked(ask(container(**names))))["nvidia.com/gpumem"] == 40960


def test_several_cards_count_as_the_largest_that_one_node_has():
    unequal = node("a", [card(at, memory=memory) for at, memory in enumerate([10] * 4 + [40] * 4)])
    counting = Counting(default_conf(), [unequal, node("b", [card(0, memory=100)])])
    assert dict(counting.asked(vgpu(8)))[MEMORY] == 200
    assert dict(counting.asked(vgpu(5)))[MEMORY] == 170
    assert dict(counting.asked(vgpu(1)))[MEMORY] == 100
    assert MEMORY not in dict(counting.asked(vgpu(9))), "no node has so many"


def test_a_pod_counts_at_least_what_the_smallest_cards_give_it():
    unequal = node("a", [card(at, memory=memory) for at, memory in enumerate([10, 10, 40])])
    counting = Counting(default_conf(), [unequal, node("b", [card(0, memory=100, model=A100)])])
    assert dict(counting.least(vgpu(1)))[MEMORY] == 10
    assert dict(counting.least(vgpu(2)))[MEMORY] == 20
    assert dict(counting.least(vgpu(1, percentage=50)))[MEMORY] == 5
    assert dict(counting.least(vgpu(1, annotations={"nvidia.com/use-gputype": "A100"})))[MEMORY] == 100
    assert counting.least(vgpu(1, 60)) == counting.asked(vgpu(1, 60))
    counting.set_node(node("c", [card(0, memory=81920, mode="mig")]))
    assert MEMORY not in dict(counting.least(vgpu(1))), "its largest instance may be smaller"


def test_what_is_requested_in_numbers_counts_so_wherever_it_is():
    given = ContainerGrant("c0", 0, "mig", (DeviceGrant("GPU-0", 0, 5120, 0, asked=4000),))
    assert dict(Counting(default_conf()).held(vgpu(1, 4000), [given]))[MEMORY] == 4000


def test_a_node_that_changes_counts_once_and_one_that_goes_no_more():
    counting = Counting(default_conf(), [node("a", [card(0)])])
    assert not counting.set_node(node("a", [card(0)], ready=False))
    assert counting.set_node(node("a", [card(0), card(1)]))
    assert counting.total[MEMORY] == 65536
    assert counting.remove_node("a")
    assert not counting.remove_node("a")
    assert not any(counting.total.values())
