"""The work of a round is shared by the queues and their actions, and rounds end."""

import pytest
from deviceshare.queueing import round_work
from support.builders import ask, container, node
from support.queue_scene import Scene

BEST_EFFORT = ask(container())
SMALL = node("a", cpu=1000)


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
