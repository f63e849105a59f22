"""When nodes are searched and reserved, and the order of jobs by the time that they may wait."""

from deviceshare.conf import default_conf, tiers
from deviceshare.queueing import Group, Job
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu
from support.queue_scene import Scene, in_queues

WAITS = replace(default_conf(), starvation=300.0)


def one_card(name: str):
    return node(name, [card(0, memory=100, node=f"{name}-")])


def full(count: int, *queues: str) -> Scene:
    """Return a scene of nodes with one card each, in use by a small pod each."""
    scene = Scene(*(one_card(f"n{at}") for at in range(count)), conf=WAITS, queues=in_queues(*queues))
    for at in range(count):
        scene.single(f"s{at}", vgpu(1, 60))
    assert len(scene.decide()) == count
    return scene


def reserved(scene: Scene) -> dict[str, tuple[str, ...]]:
    return {each.key: each.nodes for each in scene.dispatcher.reservations}


def test_reserved_nodes_stay_for_the_waiting_time_and_are_searched_again_then() -> None:
    scene = full(3, "q")
    scene.gang("big", 2, vgpu(1, 100), queue="q")
    scene.decide(now=299.0)
    assert scene.dispatcher.due() == [300.0]
    assert reserved(scene) == {}
    scene.decide(now=400.0)
    assert reserved(scene) == {"ns/big": ("n0", "n1")}
    scene.come(replace(one_card("n1"), ready=False))
    for now in (401.0, 699.0):
        scene.decide(now=now)
        assert reserved(scene) == {"ns/big": ("n0", "n1")}
    scene.decide(now=700.0)
    assert reserved(scene) == {"ns/big": ("n0", "n2")}


def test_the_pause_of_one_queue_delays_no_search_for_another() -> None:
    scene = full(3, "q", "r")
    scene.gang("huge", 9, vgpu(1, 100), queue="q")
    scene.decide(now=400.0)
    assert reserved(scene) == {}
    scene.gang("second", 2, vgpu(1, 100), queue="q", created=1.0)
    scene.gang("other", 1, vgpu(1, 100), queue="r", created=2.0)
    scene.decide(now=401.0)
    assert reserved(scene) == {"ns/other": ("n0",)}
    assert scene.dispatcher.due() == [410.0], "a thirtieth of the waiting time after the last search"
    for now in (410.0, 420.0):  # first again for the older job, since other nodes are reserved now
        scene.decide(now=now)
    assert reserved(scene) == {"ns/other": ("n0",), "ns/second": ("n1", "n2")}


def test_jobs_come_by_the_time_until_which_they_may_wait_where_sla_orders() -> None:
    scene = Scene(node("n", cpu=64_000), conf=replace(default_conf(), tiers=tiers("sla")))
    for name, created, waiting_time in (("late", 0.0, 90.0), ("never", 0.0, None), ("soon", 50.0, 10.0)):
        what = pod(name)
        scene.come(one_card(f"of-{name}"))
        scene.queues.put(what, "default", what.group)
        scene.dispatcher.put(
            Job(queue="default", group=Group(key=what.group, pods=(what,)), created=created, waiting_time=waiting_time)
        )
    assert scene.decide() == ["soon", "late", "never"]
