"""The room of nominated pods that a group of higher priority takes: what it needs, compared with new schedulers."""

from random import Random

import pytest
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace
from support.builders import card, node, vgpu
from support.preemption_scene import NOW, PreemptionScene, conf, cpu, nominate
from support.whole_state import whole_state

USUAL = conf("priority gang conformance", off=["gang.enablePreemptable"], StarvationSeconds=0)


def test_a_pod_takes_the_card_of_a_nominated_one_and_waits_for_the_pods_of_this_card():
    scene = PreemptionScene(node("a", [card(at, node="a", memory=10_000) for at in range(2)]), conf=USUAL)
    scene.job("low", vgpu(1, 6000), 2)
    scene.bind()
    scene.job("mid", vgpu(2, 10_000), level="mid")
    assert nominate(scene, "mid") == ["uid-low-0", "uid-low-1"]
    scene.job("high", vgpu(1, 10_000), level="high")
    before = whole_state(scene.scheduler)
    found = scene.preempt("high")
    assert whole_state(scene.scheduler) == before
    assert (found.taken, found.victims) == ((("a", "mid-0"),), ())
    ((_, placement),) = found.placed
    (device,) = placement.grants[0].devices
    (victim,) = found.leaving
    held = scene.scheduler.holding("a", victim)
    assert {each.id for grant in held.grants for each in grant.devices} == {device.id}


def test_of_two_nominations_the_one_of_the_lowest_priority_is_taken():
    scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=1000), conf=USUAL)
    scene.job("old", cpu(1000), on=["a", "b"], level="")
    for level in ("mid", "low"):
        scene.job(f"of-{level}", cpu(1000), level=level)
        assert nominate(scene, f"of-{level}")
    scene.job("high", cpu(1000), level="high")
    ((_, claim),) = scene.preempt("high").taken
    assert claim == "of-low-0"


def without(scene: PreemptionScene, gone: set[str]) -> Scheduler:
    """Return a scheduler that has never known these pods, nor any nomination."""
    scheduler = Scheduler("other")
    for key, fact in scene.facts.items():
        if key.removeprefix("pod ") not in gone:
            scheduler.apply(key, fact, NOW)
    scheduler.begin()
    return scheduler


def fits(scene: PreemptionScene, gone: set[str]) -> bool:
    """Return whether the group "high" fits if these pods have never been."""
    scheduler = without(scene, gone)
    others = {uid for uid, pod in scheduler.pods.items() if not pod.fact.node and pod.fact.group != "ns/high"}
    return bool(without(scene, gone | others).round(NOW).placed)


def random_scene(seed: int) -> tuple[PreemptionScene, set[str]]:
    """Return a cluster in which the group "high" waits, and the pods that go for another group."""
    rng = Random(seed)
    names = ["a", "b"][: rng.randint(1, 2)]
    scene = PreemptionScene(
        *(node(name, [card(at, node=name, memory=100) for at in range(2)]) for name in names), conf=USUAL
    )
    for number in range(8):
        scene.job(f"old-{number}", vgpu(1, rng.choice((20, 30, 50))), level="")
        scene.bind()
    scene.job("mid", vgpu(rng.randint(1, 2), rng.choice((50, 80, 100))), rng.randint(1, 2), level="mid", minimum=1)
    going = set(nominate(scene, "mid"))
    if rng.random() < 0.5:  # the others do not go for anybody
        for key, fact in list(scene.facts.items()):
            if key.startswith("pod uid-old") and fact.uid not in going:
                scene.put(key, replace(fact, preemptable=False))
    scene.job("high", vgpu(rng.randint(1, 2), rng.choice((50, 80, 100))), level="high")
    return scene, going


def test_some_of_the_random_groups_take_room_and_wait_for_fewer_pods():
    answers = [(scene.preempt("high"), going) for scene, going in map(random_scene, range(60))]
    taken = [(found, going) for found, going in answers if found.taken]
    assert len(taken) >= 10
    assert any(len(found.leaving) < len(going) for found, going in taken)


@pytest.mark.parametrize("seed", range(60))
def test_room_is_taken_where_a_new_scheduler_without_these_pods_places_the_group(seed):
    scene, going = random_scene(seed)
    found = scene.preempt("high")
    nominated = {claim.uid for record in scene.scheduler.ledgers.values() for claim in record.claims.values()}
    if found.taken:
        assert not found.victims
        assert set(found.leaving) <= going
        assert fits(scene, nominated | set(found.leaving))
        for uid in found.leaving:
            assert not fits(scene, nominated | set(found.leaving) - {uid})
    elif found.decision is None and going:
        assert not fits(scene, nominated | going)
