"""The work of a round is shared by the queues and their actions, and rounds end."""

import pytest
from deviceshare.conf import default_conf
from deviceshare.queueing import round_work
from msgspec.structs import replace
from support.builders import ask, container, node, pod
from support.queue_scene import Scene, in_queues

BEST_EFFORT = ask(container())
LARGE = ask(container(cpu=1_000_000))
SMALL = node("a", cpu=1000, pods=1000)


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(round_work, "DECIDING", 20)


def put_crowd(scene, count, **rest):
    """Put pods in line that fit nowhere, each with a request of its own."""
    for number in range(count):
        scene.single(f"w{number}", ask(container(cpu=1_000_000 + number)), **rest)


def test_pods_that_fit_nowhere_leave_the_best_effort_pods_of_their_queue_a_share_of_the_round():
    scene = Scene(SMALL)
    put_crowd(scene, 50)
    scene.single("best-effort", BEST_EFFORT)
    assert scene.decide() == ["best-effort"]


@pytest.mark.parametrize("queues", [1, 8])
def test_rounds_end_and_place_what_is_ready_behind_many_gangs_that_are_not(queues):
    conf = default_conf()
    scene = Scene(SMALL, conf=replace(conf, extensions=replace(conf.extensions, gang_backfill=False)))
    for number in range(100):
        pods = [pod(f"g{number}-{at}", request, gang=f"g{number}") for at, request in enumerate((LARGE, BEST_EFFORT))]
        scene.put(*pods, minimum=3, queue=f"q{number % queues}")
    scene.single("ready", BEST_EFFORT, queue="q0", created=1.0)
    placed = scene.decide()
    scene.dispatcher.made_room()
    for _ in range(100):
        if min(scene.dispatcher.due(), default=1.0) > 0.0:
            break
        placed += scene.decide()
    else:
        pytest.fail("a round is due at once again and again")
    assert placed == ["ready"]


@pytest.mark.parametrize("count", [2, 5])
def test_each_queue_has_a_reason_after_as_many_diagnoses_as_there_are_queues(count, monkeypatch):
    """In large clusters one diagnosis takes the work of a whole round."""
    monkeypatch.setattr(round_work, "EXPLAINING", 1)
    queues = [f"q{number}" for number in range(count)]
    scene = Scene(SMALL, queues=in_queues(*queues))
    for queue in queues:
        for number in range(10):
            nowhere = ask(container(cpu=1), node_selector=((queue, f"{number}"),))
            scene.single(f"{queue}-{number}", nowhere, queue=queue)
    for _ in range(2):
        explained = []
        for _ in queues:
            scene.decide()
            explained += [name.split("-")[0] for name in scene.reasons]
        assert sorted(explained) == queues
