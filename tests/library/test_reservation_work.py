"""The search for nodes to keep free does a bounded amount of work in one round, and ends nevertheless."""

from collections.abc import Iterator

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import QueueFact
from deviceshare.queueing import node_search, reservation
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu
from support.queue_scene import Scene

NODES, GANGS, MEMBERS = 1500, 20, 60
NOW = 400.0


class SearchCounter:
    """The cost of searches, by round: nodes added to empty clusters plus pods of trials."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def count(self, units: int) -> None:
        self.rounds[-1] += units


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchCounter]:
    counted = SearchCounter()
    set_node, decide = Allocator.set_node, node_search.decide

    def count_node(self, fact):
        if counted.rounds:
            counted.count(1)
        return set_node(self, fact)

    def count_trial(allocator, group, **rest):
        counted.count(len(group.pods))
        return decide(allocator, group, **rest)

    monkeypatch.setattr(Allocator, "set_node", count_node)
    monkeypatch.setattr(node_search, "decide", count_trial)
    return counted


def waiting_gangs(members: int = MEMBERS) -> Scene:
    """Return a scene of full nodes, where gangs of whole nodes wait since the beginning, each in a queue of its own."""
    nodes = [node(f"n{at:04}", [card(0, memory=100, node=f"n{at:04}-")]) for at in range(NODES)]
    queues = [QueueFact(name=f"q{at}") for at in range(GANGS)]
    scene = Scene(*nodes, conf=replace(default_conf(), starvation=300.0), queues=queues)
    for at in range(NODES):
        small = pod(f"s{at}", vgpu(1, 60))
        placement = scene.allocator.place(small.ask)
        scene.allocator.take(small.uid, placement, small.tenant)
    for at in range(GANGS):
        scene.gang(f"g{at}", members, vgpu(1, 100), queue=f"q{at}")
    return scene


def search(scene: Scene, counter: SearchCounter, most: int = 1000) -> None:
    """Decide as often as something is due now."""
    counter.rounds.append(0)
    scene.decide(now=NOW)
    while min(scene.dispatcher.due(), default=NOW + 1) <= NOW:
        assert len(counter.rounds) < most
        counter.rounds.append(0)
        scene.decide(now=NOW)


def test_a_round_never_does_more_than_the_bound(counter) -> None:
    scene = waiting_gangs()
    search(scene, counter)
    assert len(counter.rounds) > 10
    assert max(counter.rounds) <= reservation.MAX_WORK + MEMBERS, "the last trial may exceed it"
    kept = [each.nodes for each in scene.dispatcher.reservations]
    assert len(kept) == GANGS
    names = [name for nodes in kept for name in nodes]
    assert len(names) == len(set(names)) == GANGS * MEMBERS, "no node is kept free twice"


def test_a_search_that_finds_nothing_ends(counter) -> None:
    scene = waiting_gangs(members=NODES + 1)
    search(scene, counter)
    assert max(counter.rounds) <= reservation.MAX_WORK + NODES + 1
    assert list(scene.dispatcher.reservations) == []


def test_a_search_ends_when_its_job_is_taken_out(counter) -> None:
    scene = waiting_gangs()
    counter.rounds.append(0)
    scene.decide(now=NOW)
    searching = scene.dispatcher.reservations.searching
    assert searching is not None
    scene.dispatcher.discard(searching)
    search(scene, counter)
    assert searching not in {each.key for each in scene.dispatcher.reservations}
    assert len(list(scene.dispatcher.reservations)) == GANGS - 1


def test_nodes_that_are_gone_when_the_search_ends_are_not_kept_free(counter) -> None:
    scene = waiting_gangs()
    counter.rounds.append(0)
    scene.decide(now=NOW)
    # The searches go on with the nodes as they were.
    for at in range(NODES):
        scene.allocator.remove_node(f"n{at:04}")
    held = len(list(scene.dispatcher.reservations))
    search(scene, counter)
    assert len(list(scene.dispatcher.reservations)) == held
