"""Reserved nodes take no pod, and say why."""

from support.builders import ask, card, cluster, container, node, take, vgpu


def test_a_reserved_node_takes_no_pod_until_it_is_released():
    allocator = cluster(node("a", [card(0)]), node("b", [card(0)], pods=1))
    assert take(allocator, vgpu(1, 10), "p").node == "a"
    allocator.set_reserved("a", reserved=True)
    allocator.set_reserved("nowhere", reserved=True)
    assert take(allocator, vgpu(1, 10), "q").node == "b"
    assert {each.code: each.nodes for each in allocator.why_not(vgpu(1, 10)).refusals} == {
        "NodeKeptFree": 1,
        "TooManyPods": 1,
    }
    allocator.set_node(node("a", [card(0)], pods=3))
    assert allocator.place(vgpu(1, 10)) is None, "also where its fact changes"
    allocator.set_reserved("a", reserved=False)
    assert take(allocator, vgpu(1, 10), "r").node == "a"
    assert take(allocator, ask(container(cpu=1)), "s").node == "a"
    assert allocator.place(ask(container(cpu=1))) is None
    assert allocator.used("a")["pods"] == 3


def test_a_node_that_went_is_not_reserved_when_it_comes_back():
    allocator = cluster(node("a", [card(0)]))
    allocator.set_reserved("a", reserved=True)
    allocator.remove_node("a")
    allocator.set_node(node("a", [card(0)]))
    assert allocator.place(vgpu(1, 10)) is not None
