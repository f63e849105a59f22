"""Which waiting requests are tried again after a node has changed: those that it may serve, and few others."""

import random

import pytest
from deviceshare.allocation import Allocator, waiting_requests
from deviceshare.conf import default_conf
from deviceshare.families.vgpu import wire as annotations
from deviceshare.model import Requirement
from msgspec.structs import replace
from support.builders import ask, card, container, node, vgpu


def requires(operator, *values, key="zone"):
    return ask(container(cpu=1), node_terms=((Requirement(key=key, operator=operator, values=values),),))


def changed(number, *, kind="A100", **labels):
    has = replace(card(0, memory=100, node="n"), id="GPU-1", type=kind)
    return node("n", [has], pods=number, labels=labels, cpu=10)


CASES = {
    "exists": (requires("Exists"), changed(11), changed(12, zone="")),
    "not in": (requires("NotIn", "a"), changed(11, zone="a"), changed(12)),
    "does not exist": (requires("DoesNotExist"), changed(11, zone="a"), changed(12)),
    "greater": (requires("Gt", "5"), changed(11, zone="5"), changed(12, zone="6")),
    "less": (requires("Lt", "5"), changed(11), changed(12, zone="4")),
    "model": (vgpu(1, 10, annotations={annotations.USE_TYPE: "H100"}), changed(11), changed(12, kind="NVIDIA H100")),
    "other model": (vgpu(1, 10, annotations={annotations.NOUSE_TYPE: "A100"}), changed(11), changed(12, kind="T4")),
    "two terms": (
        ask(container(cpu=1), node_terms=tuple((Requirement(key=key, operator="Exists", values=()),) for key in "ab")),
        changed(11),
        changed(12, b=""),
    ),
}


@pytest.mark.parametrize(("request_", "other", "serving"), CASES.values(), ids=CASES)
def test_a_request_waits_for_a_node_with_what_it_names(request_, other, serving):
    allocator = Allocator(default_conf())
    waiting = allocator.waiting_requests()
    waiting.put("key", [request_])
    allocator.set_node(other)
    assert waiting.served() == []
    assert allocator.place(request_) is None
    allocator.set_node(serving)
    assert waiting.served() == ["key"]
    assert allocator.place(request_) is not None


def test_a_request_for_cards_by_id_waits_for_a_node_that_has_one():
    allocator = Allocator(default_conf())
    waiting = allocator.waiting_requests()
    waiting.put("other", [vgpu(1, 10, annotations={annotations.USE_ID: "GPU-9"})])
    waiting.put("one", [vgpu(1, 10, annotations={annotations.USE_ID: "GPU-9,GPU-1"})])
    allocator.set_node(changed(11))
    assert waiting.served() == ["one"]


LONG = {
    "models": vgpu(1, 10, annotations={annotations.USE_TYPE: ",".join(f"H{number}" for number in range(100))}),
    "one long model": vgpu(1, 10, annotations={annotations.USE_TYPE: "H" * 2000}),
    "values": requires("NotIn", *map(str, range(100))),
    "terms": ask(container(cpu=1), node_terms=(tuple(Requirement("b", "DoesNotExist", ()) for _ in range(20)),) * 2),
}


@pytest.mark.parametrize("request_", LONG.values(), ids=LONG)
def test_a_long_request_is_tried_again_instead_of_compared(request_, monkeypatch):
    """The comparison is outside the share of its queue, and would cost as much as the request is long."""
    monkeypatch.delattr(waiting_requests, "may_serve")
    allocator = Allocator(default_conf())
    waiting = allocator.waiting_requests()
    waiting.put("key", [request_])
    allocator.set_node(changed(11, b=""))
    assert waiting.served() == ["key"]


KEYS, VALUES = ("zone", "a", "b"), ("1", "5", "6", "x", "")
TYPES = ("A10", "NVIDIA-A10", "NVIDIA-A100", "NVIDIA A100-SXM4", "H100", "T4", "")
WANTED = ("A10", "a100", "H1", "NVIDIA", "A100-SXM4", "T4", "-", "10")
IDS = ("GPU-1", "GPU-2", "GPU-3")
LISTS = ((annotations.USE_TYPE, WANTED), (annotations.NOUSE_TYPE, WANTED), (annotations.USE_ID, IDS))


def some_requirement(rng):
    if rng.random() < 0.2:
        names = tuple(rng.sample(("n0", "n1", "n2"), rng.randint(0, 2)))
        return Requirement("metadata.name", rng.choice(("In", "NotIn")), names, field=True)
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    values = {"In": 2, "NotIn": 2, "Gt": 1, "Lt": 1}.get(operator, 0)
    return Requirement(rng.choice(KEYS), operator, tuple(rng.sample(VALUES, values)))


def some_request(rng):
    more = {}
    if rng.random() < 0.6:
        more["node_terms"] = tuple(
            tuple(some_requirement(rng) for _ in range(rng.randint(0, 2))) for _ in range(rng.randint(0, 3))
        )
    if rng.random() < 0.2:
        more["node_selector"] = ((rng.choice(KEYS), rng.choice(VALUES)),)
    if rng.random() < 0.3:
        return ask(container(cpu=rng.choice((1, 5, 20))), **more)
    lists = {name: ",".join(rng.sample(values, rng.randint(1, 2))) for name, values in LISTS if rng.random() < 0.3}
    return replace(vgpu(rng.choice((1, 1, 2)), rng.choice((0, 10, 90)), annotations=lists), **more)


def some_node(rng, name):
    cards = [
        replace(card(index, memory=rng.choice((50, 100)), node=name), id=id_, type=rng.choice(TYPES))
        for index, id_ in enumerate(rng.sample(IDS, rng.randint(0, 2)))
    ]
    labels = {key: rng.choice(VALUES) for key in KEYS if rng.random() < 0.5}
    return node(name, cards, pods=rng.choice((0, 5)), labels=labels, cpu=rng.choice((2, 10)))


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_no_request_is_missed_that_the_allocator_places_after_a_change(seed, parts):
    rng, placed = random.Random(seed), 0
    while placed < 40:
        allocator = Allocator(replace(default_conf(), type_parts=parts))
        for number in range(rng.randint(0, 3)):
            allocator.set_node(some_node(rng, f"n{number}"))
        waiting, requests = allocator.waiting_requests(), {}
        for number in range(12):
            if allocator.place(request := some_request(rng)) is None:
                requests[number] = request
                waiting.put(number, [request])
        for _ in range(4):
            name = f"n{rng.randint(0, 3)}"
            if rng.random() < 0.2:
                allocator.remove_node(name)
            else:
                allocator.set_node(some_node(rng, name))
            feasible = {number for number, request in requests.items() if allocator.place(request) is not None}
            assert feasible <= set(waiting.served())
            placed += len(feasible)
            for number in feasible:
                waiting.discard(number)
                del requests[number]


def test_a_refused_model_of_the_cluster_does_not_hide_a_node_whose_model_contains_it():
    """With the rule of parts ``A10`` is part of ``A100``, but not where a card of the cluster is an ``A10``."""
    allocator = Allocator(replace(default_conf(), type_parts=True))
    request = vgpu(1, 10, annotations={annotations.NOUSE_TYPE: "A10"})
    small = replace(card(0, memory=100, node="small"), id="GPU-2", type="A10")
    allocator.set_node(node("small", [small], pods=11, cpu=10))
    waiting = allocator.waiting_requests()
    waiting.put("key", [request])
    assert waiting.served() == []
    allocator.set_node(changed(11))
    assert allocator.place(request) is not None
    assert waiting.served() == ["key"]
