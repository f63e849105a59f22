"""No nodes are reserved for a job that its queue never lets run whole."""

import pytest
from deviceshare.conf import default_conf
from deviceshare.model import QueueFact
from msgspec.structs import replace
from support.builders import MEMORY, card, node, vgpu
from support.queue_scene import Scene


def reserved(capability: int, minimum: int | None = None, **queue) -> dict[str, tuple[str, ...]]:
    """Return the reservations after a gang of two whole nodes has waited for long, by group."""
    scene = Scene(
        *(node(f"n{at}", [card(0, memory=100, node=f"n{at}-")]) for at in range(3)),
        conf=replace(default_conf(), starvation=300.0),
        queues=[QueueFact(name="q", capability={MEMORY: capability}, **queue)],
    )
    for at in range(3):
        scene.single(f"s{at}", vgpu(1, 60))
    scene.decide()
    scene.gang("big", 2, vgpu(1, 100), queue="q", minimum=minimum)
    scene.decide(now=400.0)
    scene.until_nothing_is_due()
    return {each.key: each.nodes for each in scene.dispatcher.reservations}


@pytest.mark.parametrize(("capability", "nodes"), [(99, ()), (199, ()), (200, ("n0", "n1")), (1000, ("n0", "n1"))])
def test_a_gang_whose_minimum_exceeds_the_bound_of_its_queue_gets_no_reservation(capability, nodes) -> None:
    assert reserved(capability) == ({"ns/big": nodes} if nodes else {})


@pytest.mark.parametrize(("capability", "nodes"), [(79, []), (80, [("s0", "s1")])])
def test_a_gang_that_its_queue_lets_run_on_the_smallest_cards_gets_a_reservation(capability, nodes) -> None:
    small = [node(f"s{at}", [card(0, memory=40, node=f"s{at}-")], labels={"size": "small"}) for at in range(2)]
    scene = Scene(
        *small,
        node("large", [card(0, memory=100)]),
        conf=replace(default_conf(), starvation=300.0),
        queues=[QueueFact(name="q", capability={MEMORY: capability})],
    )
    for at in range(2):
        scene.single(f"runs{at}", replace(vgpu(1, 10), node_selector=(("size", "small"),)))
    scene.decide()
    scene.gang("big", 2, replace(vgpu(1), node_selector=(("size", "small"),)), queue="q")
    scene.decide(now=400.0)
    scene.until_nothing_is_due()
    assert [each.nodes for each in scene.dispatcher.reservations] == nodes
