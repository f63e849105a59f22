"""Nodes that only a job gets which fits nowhere else."""

from deviceshare.model import QueueFact
from deviceshare.queueing.reservation import Reservation
from support.builders import MEMORY, card, node, vgpu
from support.queue_scene import Scene, in_queues


def two_nodes() -> Scene:
    """Return a cluster in which a pod of 60 MiB fits only on node 'large'."""
    return Scene(*(node(name, [card(0, memory=memory, node=name)]) for name, memory in (("large", 100), ("small", 50))))


def decide(scene: Scene, *avoided: str) -> dict[str, str]:
    """Return the nodes of the pods that are placed, by pod, in the order of the decisions."""
    turns = scene.dispatcher.decide(100, avoided=avoided)
    found = {pod.uid: (pod.name, where.node) for each in turns.placed.values() for pod, where in each.placed}
    return dict(found[uid] for uid in turns.order)


def test_a_job_avoids_nodes_where_it_fits_elsewhere_and_does_not_wait_where_it_does_not() -> None:
    scene = two_nodes()
    scene.single("first", vgpu(1, 60), priority=1)
    scene.single("second", vgpu(1, 30))
    assert decide(scene, "large") == {"first": "large", "second": "small"}
    scene.single("third", vgpu(1, 30))
    assert decide(scene) == {"third": "large"}, "nothing is avoided later"


def test_a_gang_that_needs_an_avoided_node_is_decided_before_a_younger_pod() -> None:
    scene = two_nodes()
    scene.gang("gang", 3, vgpu(1, 50))
    scene.single("younger", vgpu(1, 50), created=1.0)
    assert list(decide(scene, "large")) == ["gang-0", "gang-1", "gang-2"]


def test_a_job_whose_queue_has_too_little_for_the_cards_elsewhere_gets_an_avoided_node() -> None:
    # Of nodes that are equal otherwise the first one by name is chosen.
    nodes = (node(name, [card(0, memory=memory, node=name)]) for name, memory in (("a-small", 50), ("b-large", 100)))
    scene = Scene(*nodes, queues=in_queues(QueueFact(name="q", capability={MEMORY: 60})))
    scene.single("whole-card", vgpu(1), queue="q")
    assert decide(scene, "a-small") == {"whole-card": "a-small"}


def test_an_avoided_node_that_is_reserved_stays_so() -> None:
    scene = two_nodes()
    scene.gang("waits", 2, vgpu(1, 100))
    reservations = scene.dispatcher.reservations
    reservations._of_queue["default"] = Reservation("waits", "default", ("large",), 0.0)
    reservations.avoided = ("large", "small")
    with reservations.enforced():
        assert scene.allocator.place(vgpu(1, 10)) is None
        with reservations.all_nodes():
            found = scene.allocator.place(vgpu(1, 10))
            assert found.node == "small"
            assert scene.allocator.place(vgpu(1, 60)) is None
        assert scene.allocator.place(vgpu(1, 10)) is None
    assert scene.allocator.place(vgpu(1, 60)) is not None
