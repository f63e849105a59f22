"""How many promised groups a round examines, and that all of them are examined in the end."""

from collections.abc import Callable

import pytest
from deviceshare.model import ConfigFact, ContainerGrant, DeviceGrant, GroupKey, PodGroupFact, QueueFact
from deviceshare.queueing import EmptyCluster
from deviceshare.scheduler import promises
from msgspec.structs import replace
from support.builders import MEMORY, card, node, pod, vgpu
from support.played import WALL, Played

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: capacity}, {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]
"""
MOST = 4


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that are examined, of which a round may examine few."""
    monkeypatch.setattr(promises, "MAX_EXAMINED", MOST)
    keys: list[str] = []
    serves: Callable[..., bool] = EmptyCluster.serves

    def count(self, group) -> bool:
        keys.append(group.key)
        return serves(self, group)

    monkeypatch.setattr(EmptyCluster, "serves", count)
    return keys


def of_queue(capability: int) -> Played:
    """Return a card of 100 MiB, and a queue that may use more than that."""
    played = Played(node("a", [card(0, memory=100)]))
    played.put(ConfigFact(name="scheduler", text=CONF, source="conf"))
    played.put(QueueFact(name="q", capability={MEMORY: capability}))
    return played


def apply(played: Played, name: str, memory: int, needed: int = 0) -> None:
    """Add a group of one pod, which applies for so much memory, or for what it needs as it says."""
    needs = {MEMORY: needed or memory}
    key = GroupKey(f"ns/{name}")
    played.put(PodGroupFact(key=key, uid=name, queue="q", min_member=1, min_resources=needs, created=WALL + played.now))
    played.put(replace(pod(f"{name}-0", vgpu(1, memory), gang=name), queue="q"))


def until_nothing_is_due(played: Played, examined: list[str]) -> list[str]:
    """Decide until nothing is due at once; return the pods that are placed."""
    placed = []
    for _ in range(50):
        before = len(examined)
        out = played.tick()
        assert len(examined) - before <= MOST
        placed += [claim.name for claim in out.claims]
        played.written(out)
        if not out.writes and played.due != 0.0:
            return placed
    raise AssertionError("rounds do not end")


def test_a_round_examines_few_groups_and_the_next_ones_the_others(examined: list[str]) -> None:
    played = of_queue(25 * 200)
    for at in range(25):
        apply(played, f"g{at}", 200)
    until_nothing_is_due(played, examined)
    apply(played, "ordinary", 100, needed=25 * 200)
    assert until_nothing_is_due(played, examined) == ["ordinary-0"]


def test_groups_that_can_start_keep_no_other_from_being_examined(examined: list[str]) -> None:
    """In a cluster where nothing else happens."""
    played = of_queue(12 * 50 + 200)
    taken = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant("GPU-0", 0, 60, 0),)),)
    played.put(pod("runs", vgpu(1, 60), node="a", held=taken))
    for at in range(12):
        apply(played, f"g{at}", 50)
    apply(played, "huge", 200)
    until_nothing_is_due(played, examined)
    apply(played, "ordinary", 30)
    assert until_nothing_is_due(played, examined) == ["ordinary-0"]
    assert sorted(examined) == sorted({*examined}), "each once"


def test_all_groups_have_their_promise_again_few_in_a_round(examined: list[str]) -> None:
    played = of_queue(10 * 200)
    for at in range(10):
        apply(played, f"g{at}", 200)
    until_nothing_is_due(played, examined)
    apply(played, "ordinary", 100)
    apply(played, "more", 2000)
    until_nothing_is_due(played, examined)
    examined.clear()
    played.put(node("a", [card(0, memory=100)], ready=False))
    until_nothing_is_due(played, examined)
    assert not examined, "it is the same node when it is empty"
    played.put(node("b", [card(at, memory=200) for at in range(1, 11)]))
    placed = until_nothing_is_due(played, examined)
    assert sorted(placed) == sorted(f"g{at}-0" for at in range(9)), "and one has no more room in the queue"


def test_a_queue_that_changes_makes_few_groups_be_examined_in_a_round(examined: list[str]) -> None:
    played = of_queue(10 * 200)
    for at in range(10):
        apply(played, f"g{at}", 200)
    until_nothing_is_due(played, examined)
    apply(played, "ordinary", 100, needed=10 * 200)
    until_nothing_is_due(played, examined)
    examined.clear()
    played.put(QueueFact(name="q", capability={MEMORY: 11 * 200}))
    until_nothing_is_due(played, examined)
    assert len(examined) == 10


def test_groups_that_are_gone_are_forgotten(examined: list[str]) -> None:
    played = of_queue(300)
    known = played.core.scheduler._deciding._promises
    for at in range(3):
        apply(played, f"g{at}", 100)
    apply(played, "last", 100)
    until_nothing_is_due(played, examined)
    assert len(known._able) > 1
    for at in range(1, 3):
        played.gone(replace(pod(f"g{at}-0", vgpu(1, 100), gang=f"g{at}"), queue="q"))
        played.remove("podgroup", f"ns/g{at}")
    apply(played, "later", 200)
    until_nothing_is_due(played, examined)
    assert {*known._able} <= played.core.scheduler.cluster.groups.keys()
