"""The supply of cards for expected requests, and their weights: they follow the nodes of the cluster."""

import pytest
from deviceshare.allocation.expected_request import expected_request
from msgspec.structs import replace
from support.builders import ask, card, cards, container, node, vgpu
from support.hami_vnpu import B3, P310, allocator, chips, npu, npu_node
from support.learning import expect, learning

POOL = replace(vgpu(1, 500), node_selector=(("pool", "x"),))
T4 = vgpu(1, 500, annotations={"nvidia.com/use-gputype": "T4"})
LARGE = ask(container(cpu=32_000, **{"volcano.sh/vgpu-memory": 500}))


@pytest.mark.parametrize(
    ("scarce", "before", "after"),
    [
        pytest.param(POOL, {}, {"labels": {"pool": "x"}}, id="labels"),
        pytest.param(POOL, {"ready": False}, {"ready": True, "labels": {"pool": "x"}}, id="readiness"),
        pytest.param(T4, {"model": "Tesla-P4"}, {"model": "Tesla-T4"}, id="model"),
        pytest.param(LARGE, {"cpu": 8000}, {"cpu": 64_000}, id="cpu"),
        pytest.param(LARGE, None, {"cpu": 64_000}, id="nodes"),
    ],
)
def test_the_weight_of_a_request_follows_the_nodes_that_can_serve_it(scarce, before, after):
    def made_of(more, at):
        more = dict(more)
        model = more.pop("model", "Tesla-T4")
        return node(f"n{at:02}", cards(2, memory=1000, model=model, node=str(at)), **{"cpu": 16_000, **more})

    first = [made_of({"labels": {"pool": "x"}, "cpu": 64_000}, 0), *(made_of({"cpu": 32_000}, at) for at in (1, 2))]
    made = learning(*first, *(made_of(before, at) for at in range(3, 40) if before is not None))
    expect(made, vgpu(1, 250), scarce)
    share = supply(made, scarce)
    for at in range(3, 40):
        made.set_node(made_of(after, at))
        made.place(vgpu(1, 250))
    anew = learning(*first, *(made_of(after, at) for at in range(3, 40)))
    expect(anew, vgpu(1, 250), scarce)
    # The last changes may not be enough to calculate all scores again.
    assert supply(made, scarce) == pytest.approx(supply(anew, scarce), rel=0.25)
    assert before is None or supply(anew, scarce) > 3 * share


def supply(made, request):
    made._measure()
    return made._expected_pods._supplies[expected_request(made._pod_classes.read(request))]


def test_a_few_changed_nodes_are_considered_after_some_arrivals():
    made = learning(*(node(f"n{at:02}", cards(2, memory=1000, node=str(at))) for at in range(40)))
    expect(made, vgpu(1, 250), POOL)
    assert supply(made, POOL) == 0
    made.set_node(node("n00", cards(2, memory=1000, node="0"), labels={"pool": "x"}))
    assert supply(made, POOL) == 0, "two of eighty cards"
    for _ in range(2048):
        made.arrived(vgpu(1, 250))
        made.arrived(POOL)
    assert supply(made, POOL) == 1 / 40


def test_nodes_of_the_same_kind_do_not_change_weights():
    made = learning(*(node(f"n{at:02}", cards(2, memory=1000, node=str(at))) for at in range(2)))
    expect(made, vgpu(1, 250), vgpu(1, 500))
    made.place(vgpu(1, 250))
    typical = made._expected_pods._typical
    for at in range(2, 30):
        made.set_node(node(f"n{at:02}", cards(2, memory=1000, node=str(at))))
        made.place(vgpu(1, 250))
    assert made._expected_pods._typical is typical, "all scores would be computed again"


def test_supply_is_what_empty_nodes_could_serve():
    nodes = (
        node("a", cards(8, memory=1000, node="a"), cpu=96_000, labels={"pool": "x"}),
        node("b", cards(8, memory=2000, node="b", model="Tesla-P4"), cpu=64_000),
        node("c", [card(0, memory=1000, node="c"), card(1, memory=1000, node="c", healthy=False)], cpu=16_000),
        node("npu", [replace(card(0), mode="mindcluster")]),
        node("none", []),
    )
    made = learning(*nodes)
    wanted = {
        vgpu(1, 1000): 1.0,
        vgpu(2, 1000): 16 / 17,
        vgpu(1, 1500): 8 / 17,
        ask(container(cpu=96_000, **{"volcano.sh/vgpu-number": 8, "volcano.sh/vgpu-memory": 1000})): 8 / 17,
        ask(container(cpu=96_001, **{"volcano.sh/vgpu-number": 8, "volcano.sh/vgpu-memory": 1000})): 0.0,
        vgpu(1, 100, annotations={"nvidia.com/use-gputype": "P4"}): 8 / 17,
        POOL: 8 / 17,
        vgpu(9, 100): 0.0,
        vgpu(1, 3000): 0.0,
        ask(container(**{"nvidia.com/gpu": 1})): 1.0,
    }
    expect(made, *wanted)
    assert {request: supply(made, request) for request in wanted} == wanted


def test_the_supply_of_a_chip_is_that_of_its_type():
    made = allocator(
        *(npu_node(chips(word=word, of=name), name) for name, word in zip("abc", (P310, B3, B3), strict=True))
    )
    made.learn()
    requests = {npu(1, 3072, word=P310): 1 / 3, npu(1, 16384, word=B3): 2 / 3}
    expect(made, *requests)
    assert {request: supply(made, request) for request in requests} == requests
