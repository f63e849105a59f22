"""Holdings by node: what is kept of nodes that were removed."""

from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from support.builders import card, node, vgpu


def test_nodes_without_holdings_are_not_kept() -> None:
    allocator = Allocator(default_conf())
    for name in ("a", "b"):
        allocator.set_node(node(name, [card(0)]))
        placement = allocator.place(vgpu(1, 10))
        assert placement is not None
        allocator.take("u", placement)
        allocator.take("u", placement)
        assert allocator.holding("unknown", "u") is None
        assert not allocator.release("unknown", "u")
        assert allocator.release(name, "u")
        allocator.remove_node(name)
    assert not allocator._holdings


def test_a_holding_that_replaces_the_only_one_of_its_node_is_charged() -> None:
    allocator = Allocator(default_conf())
    allocator.set_node(node("a", [card(0)]))
    for memory in (10, 20):
        placement = allocator.place(vgpu(1, memory))
        assert placement is not None
        allocator.take("u", placement)
        assert [used.memory for used in allocator.used_cards("a")] == [memory]
    assert allocator.release("a", "u")
    assert [used.memory for used in allocator.used_cards("a")] == [0]
