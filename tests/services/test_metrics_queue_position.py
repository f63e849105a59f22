"""The position of pods in their queue is the order in which placement takes them."""

import random

import pytest
from deviceshare.model import GroupKey, PodGroupFact, PriorityClassFact, QueueFact
from deviceshare_bus.messages import subjects
from deviceshare_metrics.core.accounts import queue_accounts
from deviceshare_metrics.core.queue_position import queue_positions
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu
from support.metrics import read
from support.metrics_messages import explain
from support.played import Played

QUEUE = QueueFact(name="default", state="Open", open=True)
CLASSES = [PriorityClassFact(name="high", value=10), PriorityClassFact(name="low", value=-5)]


def position(core, ref):
    answer = explain(core, *ref.split("/"))
    return queue_positions(core.store, queue_accounts(core.store)).get(answer.pod.uid)


def subject(fact):
    kind = {PodGroupFact: "podgroup", PriorityClassFact: "priorityclass", QueueFact: "queue"}.get(type(fact), "pod")
    return subjects.fact(kind, getattr(fact, type(fact).named_by)), fact


@pytest.mark.parametrize("seed", range(10))
def test_the_positions_are_the_order_in_which_placement_takes_the_jobs(seed):
    chance = random.Random(seed)
    groups, pods = [], []
    for number in range(chance.randint(3, 8)):
        made = {"created": float(chance.randint(0, 5)), "priority": chance.choice((0, 0, 7))}
        if chance.random() < 0.5:
            pods.append(pod(f"s{number}", vgpu(1, 10), **made))
            continue
        size = chance.randint(1, 3)
        name = chance.choice(("", "high", "low"))
        key = GroupKey(f"ns/g{number}")
        created = float(chance.randint(0, 5))
        groups.append(
            PodGroupFact(key=key, min_member=size, priority_class=name, created=created, phase="Inqueue", admitted=True)
        )
        pods += [pod(f"g{number}-{at}", vgpu(1, 10), gang=f"g{number}", **made) for at in range(size)]
    facts = [QUEUE, *CLASSES, *groups, *pods]
    played = Played(node("a", [card(at, memory=1000) for at in range(8)]))
    played.put(*facts)
    taken = list(dict.fromkeys(by_uid(pods)[claim.uid].group for claim in played.tick().claims))
    core = read(*map(subject, facts))
    places = {each.group: position(core, each.ref) for each in pods}
    assert sorted(places, key=lambda group: places[group].position) == taken
    assert {place.jobs for place in places.values()} == {len(taken)}
    sizes = [sum(each.group == group for each in pods) for group in taken]
    assert [places[group].pods_before for group in taken] == [sum(sizes[:at]) for at in range(len(taken))]


def by_uid(pods):
    return {each.uid: each for each in pods}


def test_pods_that_cannot_be_decided_are_in_no_queue():
    waiting, gated = pod("w", vgpu(1, 10), created=9.0), pod("g", vgpu(1, 10), gates=("x",))
    bound, going, other = (
        pod("b", vgpu(1, 10), node="a"), pod("t", vgpu(1, 10), terminating=True),
        replace(pod("o", vgpu(1, 10)), queue="q"),
    )  # fmt: skip
    core = read(*map(subject, (QUEUE, waiting, gated, bound, going, other)))
    assert str(position(core, waiting.ref)) == "position 1 of 1"
    assert [position(core, each.ref) for each in (gated, bound, going)] == [None, None, None]
    first = pod("f", vgpu(1, 10), created=1.0)
    read(subject(first), into=core)
    assert str(position(core, waiting.ref)) == "position 2 of 2, behind 1 pod"


def test_pods_that_have_failed_do_not_count_for_their_gang():
    """A gang that is not ready comes before one that is."""
    group = PodGroupFact(key=GroupKey("ns/g"), min_member=2, created=5.0, phase="Running", admitted=True)
    other = PodGroupFact(key=GroupKey("ns/h"), min_member=1, created=5.0, phase="Inqueue", admitted=True)
    ended = [pod(f"g-{at}", vgpu(1, 10), gang="g", node="a", ended=True) for at in range(2)]
    waits, first = pod("g-2", vgpu(1, 10), gang="g"), pod("h-0", vgpu(1, 10), gang="h")
    core = read(*map(subject, (QUEUE, group, other, *ended, waits, first)))
    assert str(position(core, waits.ref)) == "position 1 of 2"
    for each in ended:
        read(subject(replace(each, succeeded=True)), into=core)
    assert str(position(core, waits.ref)) == "position 2 of 2, behind 1 pod"
