"""Which waiting requests are tried again after a node has changed: those that it may serve, and few others."""

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.formats import vgpu as annotations
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
