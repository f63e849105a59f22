"""Holdings by node: what is kept of nodes that were removed."""

from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import HOSTNAME, PodSelection, PodTerm, PodTopology, Requirement
from msgspec.structs import replace
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


SELECTED = PodSelection((Requirement("app", "In", ("db",)),), ("ns",))
APART = replace(vgpu(1, 10), topology=PodTopology("ns", (("app", "db"),), anti_affinity=(PodTerm(HOSTNAME, SELECTED),)))


def test_a_new_preference_counts_for_pods_that_were_placed_before() -> None:
    for request in (vgpu(1, 10), APART):
        allocator = Allocator(default_conf())
        for name in "abcd":
            allocator.set_node(node(name, [card(0, node=name)], labels={HOSTNAME: name}))
        for sign in (1, -1, 1):
            allocator.prefer(lambda name, sign=sign: (sign * ord(name), 0))
            for _ in range(3):
                placement = allocator.place(request)
                assert placement.node == ("a" if sign == 1 else "d")


def test_an_index_is_kept_when_no_selection_depends_on_the_labels_of_namespaces() -> None:
    allocator = Allocator(default_conf())
    allocator.set_node(node("a", [card(0)], labels={HOSTNAME: "a"}))
    assert allocator.place(APART) is not None
    placed = allocator._placed_pods()
    allocator.set_namespace("other", (("team", "x"),))
    assert placed.recounts == 0
    selected = PodSelection((Requirement("app", "In", ("db",)),), ("ns",), (Requirement("team", "In", ("x",)),))
    assert allocator.place(replace(APART, topology=PodTopology("ns", (), anti_affinity=(PodTerm(HOSTNAME, selected),))))
    allocator.set_namespace("other", (("team", "x"),))
    assert placed.recounts == 0
    allocator.set_namespace("other", None)
    assert placed.recounts == 1
