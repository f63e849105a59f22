"""The policy ``fragmentation`` in the allocator: as in ``lab study trace``, and for every kind of cards."""

import random

import numpy as np
import pytest
from deviceshare.allocation import expected_pods
from deviceshare.allocation.expected_request import expected_request
from deviceshare.kernels import CARD, MAX_EXPECTED, Arrivals, Typical, TypicalPod
from deviceshare.kernels.arrivals import MAX_COUNTED
from deviceshare.kernels.free_cards import FreeCards
from deviceshare.model import Policies
from deviceshare_lab.studies.trace.product import AllocatorPlacer
from deviceshare_lab.studies.trace.runs import Run
from msgspec.structs import replace
from support.builders import (
    ask,
    card,
    cards,
    chosen,
    cluster,
    container,
    node,
    share,
    share_cards,
    take,
    vgpu,
    whole,
    whole_cards,
)
from support.learning import POLICY, expect, learning
from support.mig import A30, DOCS, mig_card
from support.plain_traces import random_trace, ranks_of
from support.simulated import simulated


def allocated(trace, ranks):
    placer = AllocatorPlacer(Run(trace, ranks, 1), POLICY)
    for at, pod in enumerate(trace.pods):
        placement = placer.decide(at)
        if placement is None:
            yield -1, -1
            continue
        is_share = pod.cards == 1 and pod.amount < 1000
        yield int(placement.node.removeprefix("node-")), chosen(placement)[0] if is_share else -1


@pytest.mark.parametrize("seed", range(4))
def test_the_allocator_places_a_trace_as_the_simulator_does(seed):
    trace = random_trace(seed, nodes=20, pods=700)
    ranks = ranks_of(trace, seed)
    assert list(allocated(trace, ranks)) == list(simulated(trace, ranks, range(len(trace.pods))))


def test_a_share_fills_the_gap_that_no_expected_pod_could_use():
    made = learning(*(node(name, cards(2, memory=1000, node=name)) for name in "ab"))
    expect(made, vgpu(1, 500), vgpu(1, 300))
    for name, memory in (("a0", 700), ("b0", 500)):
        take(made, replace(vgpu(1, memory, annotations={"volcano.sh/vgpu-use-gpuuuid": f"GPU-{name}"})), name)
    assert (made.place(vgpu(1, 300)).node, chosen(made.place(vgpu(1, 300)))) == ("a", [0])


def test_pods_without_cards_go_where_cards_do_not_lack_their_cpu():
    lean = node("a", cards(4, memory=1000), cpu=16_000)
    rich = node("b", cards(1, memory=1000), cpu=64_000)
    made = learning(lean, rich, node("c", cpu=8000))
    expect(made, ask(container(cpu=4000, **{"volcano.sh/vgpu-memory": 1000})))
    assert made.place(ask(container(cpu=4000))).node in "bc"
    assert made.place(ask(container(cpu=12_000))).node == "b"
    assert made.place(ask(container(cpu=4000), policies=Policies("binpack"))) is not None


@pytest.mark.parametrize("weight", [0, 1, 10])
def test_the_weight_does_not_change_the_order_of_nodes(weight):
    rng = random.Random(1)
    first, second = (
        learning(*(node(f"n{at}", cards(4, memory=1000, node=str(at))) for at in range(6)), weight=each)
        for each in (0, weight)
    )
    for number in range(60):
        what = vgpu(1, rng.choice((170, 330, 470, 810)))
        places = []
        for made in (first, second):
            made.arrived(what)
            placement = made.place(what)
            places.append(placement and (placement.node, chosen(placement)))
            if placement is not None:
                made.take(str(number), placement)
        assert places[0] == places[1], number


def mig_cards(count, **more):
    return [mig_card(at, **more) for at in range(count)]


def test_an_instance_that_wastes_capacity_counts_as_lost():
    made = learning(node("a", mig_cards(2, node="a")), node("b", mig_cards(2, node="b")))
    expect(made, vgpu(1, 4000), vgpu(1, 19000))
    used = [take(made, vgpu(1, 4000), f"p{at}") for at in range(7)]
    assert {each.node for each in used} == {"a"}
    assert len({chosen(each)[0] for each in used}) == 1, "instances of one card"
    assert take(made, vgpu(1, 19000), "half").node == "a"
    # Both nodes stay usable for whole cards as long as possible.
    assert take(made, vgpu(1, None), "whole").node == "b"


def test_an_instance_that_is_larger_than_needed_costs_nothing_if_no_expected_pod_needs_the_rest():
    # A half of an A100 serves 20,000 MiB, and so does a whole A30 with 24,000, which no pod of 40,000 can use.
    whole, half = vgpu(1, 40000), vgpu(1, 20000)
    for requests, expected in (((whole, half), "small"), ((whole, half, vgpu(1, 23000)), "large")):
        large = node("large", [mig_card(at, node="large") for at in range(2)])
        made = learning(large, node("small", [mig_card(0, node="small", model=A30)]))
        expect(made, *requests)
        assert made.place(half).node == expected, requests


REQUESTS = {
    "hami-core": (
        [card(at) for at in range(3)],
        [vgpu(1, 4000), vgpu(2, 9000), vgpu(1, None, 100), vgpu(1, 500, 30, containers=2)],
    ),
    "mps": ([card(at, mode="mps") for at in range(3)], [vgpu(1, 4000), vgpu(3, 100)]),
    "mig": (mig_cards(3), [vgpu(1, 4000), vgpu(2, 9000), vgpu(1, 5000, containers=2)]),
    "gpu-share": (share_cards(3), [share(3000), share(900), share(11000)]),
    "gpu-number": (whole_cards(3), [whole(1), whole(2)]),
    "mixed": ([card(0), mig_card(1), card(2, healthy=False)], [vgpu(1, 4000), vgpu(1, 20000)]),
}


@pytest.mark.parametrize("policies", [("", ""), ("binpack", ""), ("", "spread"), ("spread", "binpack")])
@pytest.mark.parametrize("family", REQUESTS)
def test_no_pod_that_fits_is_rejected_and_nothing_is_left_charged(family, policies):
    rng = random.Random(family)
    found, requests = REQUESTS[family]
    requests = [replace(each, policies=Policies(*policies)) for each in (*requests, ask(container(cpu=3000)))]
    nodes = [
        node(
            f"n{at}",
            [
                replace(each, id=f"{each.id}-{at}") if family != "gpu-share" and family != "gpu-number" else each
                for each in found
            ],
            cpu=24_000,
        )
        for at in range(3)
    ]
    made, plain = learning(*nodes), cluster(*nodes, devices=DOCS)
    held = []
    for number in range(150):
        what = rng.choice(requests)
        made.arrived(what)
        before = np.asarray(made._cards.block).copy()
        placement = made.place(what)
        assert (np.asarray(made._cards.block) == before).all(), "trials leave nothing behind"
        other = plain.place(replace(what, policies=Policies()))
        assert (placement is None) == (other is None), (number, what)
        if placement is not None and rng.random() < 0.8:
            made.take(str(number), placement)
            plain.take(str(number), placement)
            held.append((placement.node, str(number)))
        elif held:
            name, uid = held.pop(rng.randrange(len(held)))
            made.release(name, uid)
            plain.release(name, uid)


@pytest.mark.parametrize("family", ["hami-core", "mig", "gpu-share", "mixed"])
def test_incremental_scores_equal_new_ones(family):
    rng = random.Random(family)
    found, requests = REQUESTS[family]
    nodes = [
        node(f"n{at}", [replace(each, id=f"{each.id}-{at}") if family != "gpu-share" else each for each in found])
        for at in range(4)
    ]
    made = learning(*nodes)
    held = {}
    for number in range(80):
        what = rng.choice(requests)
        made.arrived(what)
        placement = made.place(what)
        if number % 10 == 9 and made._expected_pods is not None:
            anew = learning(*nodes)
            made._measure()
            anew._expected_pods._frequent = made._expected_pods._frequent
            anew._expected_pods._arrivals = made._expected_pods._arrivals
            for uid, each in held.items():
                anew.take(uid, each)
            placement = made.place(what)
            assert anew.place(what) == placement
        if placement is not None and len(held) < 25:
            made.take(str(number), placement)
            held[str(number)] = placement
        elif held:
            uid = rng.choice(list(held))
            made.release(held.pop(uid).node, uid)


def test_nodes_that_come_change_and_go_are_measured():
    made = learning(node("a", cards(2, memory=1000)))
    expect(made, vgpu(1, 400))
    take(made, vgpu(1, 400), "one")
    made.set_node(node("b", cards(4, memory=2000, node="b")))
    assert made.place(vgpu(1, 2000)).node == "b"
    made.set_node(node("c", cards(8, memory=2000, node="c"), labels={"x": "y"}))
    made.remove_node("a")
    assert {take(made, vgpu(1, 2000), str(at)).node for at in range(12)} == {"b", "c"}
    assert made.place(vgpu(1, 2000)) is None
    made.set_node(node("a", cards(1, memory=4000)))
    assert made.place(vgpu(1, 2000)).node == "a"


@pytest.mark.parametrize(("requested", "some", "none"), [(0, 0.0, 0.0), (1000, 1.5 * 1500, 2000 + 1.5 * 2000)])
def test_only_pods_that_request_cpu_lose_cards_without_cpu(requested, some, none):
    free = FreeCards(2)
    free.number = 2
    free.free[0] = free.free[1] = CARD
    typical = Typical([TypicalPod(1.0, requested, 500, 1, np.ones(1, dtype=np.uint8))])
    # Pods that request half a card and a core leave three halves of two cards to a node with one core.
    assert free.lost(typical, 0, 1000) == some
    assert free.lost(typical, 0, 0) == none


def test_cards_that_most_pods_do_not_accept_are_filled_by_those_that_do():
    old, new = (
        node(name, cards(2, memory=1000, model=model, node=name))
        for name, model in (("b", "Tesla-P4"), ("a", "Tesla-T4"))
    )
    made = learning(old, new)
    only = vgpu(1, 500, annotations={"nvidia.com/use-gputype": "T4"})
    expect(made, only, only, only, vgpu(1, 500))
    assert made.place(vgpu(1, 500)).node == "b"
    assert made.place(only).node == "a"


def test_nodes_that_expected_pods_do_not_select_are_filled_by_the_others():
    made = learning(*(node(name, cards(2, memory=1000, node=name), labels={"pool": name}) for name in "ab"))
    only = replace(vgpu(1, 500), node_selector=(("pool", "a"),))
    expect(made, only, only, only, vgpu(1, 500))
    assert made.place(vgpu(1, 500)).node == "b"
    assert made.place(only).node == "a"


def test_a_card_that_does_not_count_is_not_measured_as_another_one(monkeypatch):
    monkeypatch.setattr(expected_pods, "MAX_TYPICAL", 1)
    mixed = [card(0, memory=1000, node="b"), card(1, memory=1000, node="b", model="Tesla-P4")]
    nodes = node("a", cards(2, memory=1000, node="a")), node("b", mixed)
    made = learning(*(replace(each, labels={"pool": each.name}) for each in nodes))
    expect(made, ask(container(cpu=1, **{"volcano.sh/vgpu-memory": 500})))
    of_a, of_b = (replace(vgpu(1, 600), node_selector=(("pool", name),)) for name in "ab")
    assert chosen(made.place(of_a)) == [0]
    assert chosen(made.place(of_b)) == [1], "only the first card would lose"


def test_the_rules_that_are_evaluated_to_order_requests_are_bounded(monkeypatch):
    made = learning(*(node(f"n{at}", cards(1, memory=1000, node=str(at)), labels={"own": str(at)}) for at in range(8)))
    made.place(vgpu(1, 500))
    made.arrived(vgpu(1, 500))
    evaluated = []
    kinds_of = made._expected_pods._kinds_of
    monkeypatch.setattr(expected_pods, "MAX_COMPARED", 3 * 8)
    monkeypatch.setattr(made._expected_pods, "_kinds_of", lambda *each: evaluated.append(each) or kinds_of(*each))
    for at in range(8):
        made.arrived(replace(vgpu(1, 500), node_selector=(("own", str(at)),)))
    assert len(made._expected_pods._frequent) > 3
    assert len(evaluated) == 3


def test_what_is_expected_of_a_pod():
    made = learning(node("a", cards(2)))
    found = expected_request(made._pod_classes.read(vgpu(2, 400, 30)))
    assert (found.cpu, found.memory, found.cards, found.cores, found.families) == (
        0,
        400,
        2,
        30,
        ("hami-core", "mps", "mig"),
    )
    assert expected_request(made._pod_classes.read(vgpu(1))).percentage == 100
    two = expected_request(made._pod_classes.read(vgpu(1, 400, containers=2)))
    assert (two.memory, two.cards) == (400, 2)
    assert expected_request(made._pod_classes.read(ask(container(cpu=1)))) is None


def test_the_number_of_counted_requests_is_bounded():
    arrivals = Arrivals()
    for number in range(3 * MAX_COUNTED):
        arrivals.count(number)
    assert len(arrivals._weights) == 2 * MAX_COUNTED
    assert len(arrivals.frequent(lambda number: number)) == MAX_EXPECTED
    assert len(arrivals._weights) == MAX_COUNTED


def test_requests_are_updated_often_at_first_and_then_after_each_2048_arrivals():
    arrivals = Arrivals()
    updates = []
    for number in range(1, 8000):
        if arrivals.count("a"):
            arrivals.frequent(str)
            updates.append(number)
    assert updates == [8, 40, 168, 680, 2728, 4776, 6824]


def test_small_changes_do_not_replace_the_expected_requests():
    arrivals = Arrivals()
    arrivals.expect("first")
    for request in "aab" * 100:
        arrivals.count(request)
    shares = dict(arrivals.frequent(str))
    assert shares.keys() == {"a", "b", "first"}
    for request in "aab" * 100:
        arrivals.count(request)
    assert arrivals.frequent(str) is None
    for request in "bc" * 60:
        arrivals.count(request)
    assert dict(arrivals.frequent(str)).keys() == {"a", "b", "c", "first"}


def test_requests_that_lost_all_weight_do_not_replace_the_expected_ones():
    arrivals = Arrivals()
    arrivals.expect("first")
    arrivals._weights["first"] = 0.0
    assert arrivals.frequent(str) is None


def test_a_pod_is_placed_on_cards_that_no_expected_pod_requests():
    nodes = node("gpu", cards(2, memory=1000)), node("npu", [replace(card(0), mode="mindcluster")])
    made = learning(*nodes)
    for at in range(5 * (MAX_EXPECTED + 1)):
        made.arrived(vgpu(1, 100 + at // 5))
    assert take(made, vgpu(1, 100), "a").node == "gpu"
    assert all(request.hardware for request, _ in made._expected_pods._frequent), "the prior is not among them"


def test_equally_frequent_requests_are_in_a_fixed_order():
    arrivals = Arrivals()
    for request in ("b2", "a3", "a1", "c0", "c0"):
        arrivals.count(request)
    found = arrivals.frequent(lambda request: request[0], lambda request: request[1])
    assert [request for request, _ in found] == ["c0", "a1", "a3", "b2"]
