"""Reservations: nodes are reserved for a gang that has waited too long."""

from deviceshare.conf import default_conf
from deviceshare.model import GroupKey, QueueFact
from msgspec.structs import replace
from support.builders import MEMORY, vgpu
from support.queue_scene import Scene, card_node, in_queues


def starved(waiting_time=300.0, **rest) -> Scene:
    """Return a scene of two nodes full of small pods, in which a gang of two whole nodes waits from the beginning."""
    scene = Scene(
        card_node(4, 100, "a"), card_node(4, 100, "b"), conf=replace(default_conf(), starvation=waiting_time), **rest
    )
    for at in range(8):
        scene.single(f"s{at}", vgpu(1, 100), created=-1.0)
    scene.decide()
    scene.gang("big", 2, vgpu(4, 100))
    return scene


def stream(scene: Scene, rounds=40, every=60.0) -> list[str]:
    """End one pod and add a small one every minute; return the names of the placed pods, in order."""
    placed = []
    for number in range(rounds):
        now = (number + 1) * every
        scene.end(min(scene.pods, key=lambda name: int(name[1:])))
        scene.single(f"s{8 + number}", vgpu(1, 100), created=now)
        placed += scene.decide(now=now)
        if "big-0" in placed:
            break
    return placed


def test_nodes_are_reserved_for_a_gang_that_waited_too_long():
    placed = stream(starved())
    assert placed[-2:] == ["big-0", "big-1"]
    assert placed[:-2] == [f"s{at}" for at in range(8, 13)], "until it has waited five minutes"


def test_without_reservations_small_pods_starve_a_gang():
    assert "big-0" not in stream(starved(waiting_time=0.0))


def test_no_nodes_are_reserved_for_a_job_that_they_could_never_serve():
    scene = starved()
    scene.gang("huge", 3, vgpu(4, 100), priority=1)
    assert "big-0" in stream(scene)
    assert "s12" in stream(starved(queues=in_queues(QueueFact(name="default", capability={MEMORY: 799}))), rounds=6)


def test_a_refusal_names_the_reservation():
    scene = starved()
    stream(scene, rounds=6)
    (why,) = {refusal.text for _, each in scene.turns.waiting.values() for _, why in each.waiting
              if why is not None for refusal in why.refusals if refusal.code == "NodeKeptFree"}  # fmt: skip
    assert why == "node(s) were kept free for a gang that waited too long"


def test_nodes_are_released_when_the_gang_is_removed():
    scene = starved()
    stream(scene, rounds=8)
    scene.dispatcher.discard(GroupKey("ns/big"))
    assert scene.decide(now=600.0) != []


def test_each_queue_has_one_reservation_and_no_node_is_reserved_twice():
    scene = Scene(*(card_node(1, 100, f"n{at}") for at in range(3)), queues=in_queues("q", "r"))
    for at in range(3):
        scene.single(f"s{at}", vgpu(1, 100))
    scene.decide()
    for queue in "qr":
        for at in range(2):
            scene.gang(f"{queue}{at}", 2 - at, vgpu(1, 100), queue=queue, created=float(at))
    scene.decide(now=400.0)
    scene.decide(now=410.0)
    kept = {each.key: each.nodes for each in scene.dispatcher.reservations}
    assert kept == {"ns/q0": ("n0", "n1"), "ns/r1": ("n2",)}
