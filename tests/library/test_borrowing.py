"""Which queues may exceed what they deserve: no resource that another queue waits for within its own amount."""

from deviceshare.conf import default_conf
from deviceshare.model import GroupKey, QueueFact
from deviceshare.queueing import Queues
from msgspec.structs import replace
from support.builders import GIB, ask, card, container, node, pod, vgpu
from support.queue_scene import Scene, in_queues


def what(cpu: int = 0, memory: int = 0):
    return ask(container(cpu=cpu, memory=memory))


def drop(scene: Scene, name: str) -> None:
    """Let a waiting pod go."""
    scene.dispatcher.discard(GroupKey(f"pod/uid-{name}"))
    scene.queues.drop(f"uid-{name}")


def test_a_gang_borrows_nothing_of_what_all_its_pods_exceed_together() -> None:
    """The first pod exceeds only the CPUs of its queue; both pods exceed the memory, which another queue waits for."""
    nodes = [node(name, cpu=3500, memory=8 * GIB) for name in "mn"]
    scene = Scene(*nodes, queues=in_queues("a", "b"))
    for at in range(2):
        scene.single(f"runs-{at}", what(2000, 3 * GIB), queue="b")
    assert len(scene.decide()) == 2
    gated = pod("gated", what(4000, 4 * GIB))
    scene.queues.put(gated, "a", gated.group)
    scene.single("large", what(memory=6 * GIB), queue="a")
    scene.gang("gang", 2, what(1000, 3 * GIB // 2), queue="b")
    assert scene.decide() == []
    assert "deserves 3500" in scene.reasons["gang-0"]
    drop(scene, "large")
    assert scene.decide() == ["gang-0", "gang-1"]


def test_a_job_that_never_fits_hides_no_claim_of_another_job_of_its_queue() -> None:
    nodes = [node(name, [card(0, memory=100, node=name), card(1, memory=60, node=name)]) for name in "mn"]
    scene = Scene(*nodes, conf=replace(default_conf(), starvation=300.0), queues=in_queues("a", "b"))
    for at in range(2):
        scene.single(f"runs-{at}", vgpu(1, 100), queue="b")
    assert len(scene.decide()) == 2
    scene.single("three", vgpu(3, 10), queue="a", created=-400.0, priority=1)
    scene.single("pair", vgpu(2, 60), queue="a")
    scene.single("borrower", vgpu(1, 60), queue="b")
    for _ in range(3):  # the second round knows that 'three' would not fit on empty nodes
        assert scene.decide() == []
    drop(scene, "pair")
    assert scene.decide() == ["borrower"]


def test_a_queue_whose_capability_forbids_it_claims_nothing() -> None:
    """A class that waits for a bound of its queue, not for capacity, keeps no queue from borrowing."""
    queues = in_queues(QueueFact(name="a", capability={"cpu": 1000}), "b")
    scene = Scene(node("n", cpu=4000), queues=queues)
    scene.single("over", what(2000), queue="a", priority=1)
    for at in range(4):
        scene.single(f"b-{at}", what(1000), queue="b", created=float(at))
    assert scene.decide() == ["b-0", "b-1", "b-2", "b-3"]


def test_best_effort_gangs_that_are_not_complete_leave_nothing_behind_when_the_round_ends() -> None:
    """As in Volcano, they hold capacity until the end of the round: pods behind them wait for the next one."""
    scene = Scene(node("n", pods=3))
    scene.gang("partial", 2, ask(container()), minimum=3)
    scene.single("behind-0", ask(container()), created=1.0)
    scene.single("behind-1", ask(container()), created=2.0)
    assert scene.decide() == ["behind-0"]
    assert scene.allocator.used("n")["pods"] == 1
    for at in range(2, 4):
        scene.single(f"requests-{at}", what(1000))
    assert scene.decide() == ["requests-2", "requests-3"]
    assert scene.decide() == []


def test_what_a_queue_claims_is_not_read_from_all_its_waiting_pods_in_each_round(monkeypatch) -> None:
    scene = Scene(node("n", cpu=4000), queues=in_queues("a", "b"))
    for at in range(2):
        scene.single(f"runs-{at}", what(1000), queue="b")
    assert len(scene.decide()) == 2
    for at in range(100):
        nowhere = ask(container(cpu=1000), node_selector=(("shape", f"{at}"),))
        scene.single(f"waits-{at}", nowhere, queue="a")
    scene.decide()
    scene.single("borrower", what(1000), queue="b")
    assert scene.decide() == []
    calls = []
    asked = Queues.asked
    monkeypatch.setattr(Queues, "asked", lambda *arguments: calls.append(arguments) or asked(*arguments))
    for pods in (50, 60):
        scene.come(node("n", cpu=4000, pods=pods))
        scene.dispatcher.made_room()
        assert scene.decide() == []
    assert 0 < len(calls) < 20
    monkeypatch.undo()
    for at in range(100):
        drop(scene, f"waits-{at}")
    assert scene.decide() == ["borrower"]
