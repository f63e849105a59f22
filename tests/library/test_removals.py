"""How many pods have to go on a node at least: never more than are enough, and often as many."""

from collections.abc import Callable
from itertools import combinations
from random import Random

import numpy as np
import pytest
from deviceshare.allocation import NEVER_ENOUGH, Allocator
from deviceshare.model import PodRequest
from deviceshare.state import Trial
from deviceshare_lab.studies.victims.random_cluster import made
from support.builders import card, cluster, node, take, vgpu
from support.hami_vnpu import B3, allocator, chips, npu, npu_node, shared
from support.mig import mig_card, mig_cluster

CLUSTERS = 80


def fewest(allocator: Allocator, name: str, what: PodRequest) -> int:
    """Return how many pods of a node have to go, by trying all of them."""
    uids = [uid for uid, _ in allocator.holdings_on(name)]
    for size in range(len(uids) + 1):
        for gone in combinations(uids, size):
            with Trial(allocator.undo_log):
                for uid in gone:
                    allocator.release(name, uid)
                if allocator.place_on(name, what) is not None:
                    return size
    return NEVER_ENOUGH


def bounds(allocator: Allocator, what: PodRequest) -> dict[str, int]:
    """Return the bound of each node for all pods."""
    removals = allocator.removals()
    held = [(name, holding) for name in allocator.node_names for _, holding in allocator.holdings_on(name)]
    removals.reserve(len(held))
    for slot, (name, holding) in enumerate(held):
        removals.put(slot, name, holding)
    least = allocator.least_removals(what, removals, np.ones(len(held), dtype=np.bool_))
    return {name: int(least[row]) for row, name in enumerate(allocator.node_names)}


def test_it_is_never_more_than_enough():
    equal = several = 0
    for seed in range(CLUSTERS):
        scene, _, waiting = made(seed)
        allocator = scene.scheduler.cluster.allocator
        ask = next(record.fact.ask for record in scene.scheduler.pods.values() if record.fact.name == waiting[0].name)
        for name, least in bounds(allocator, ask).items():
            exact = fewest(allocator, name, ask)
            assert least <= exact, (seed, name)
            equal += least == exact
            several += exact > 1
    assert several > CLUSTERS / 8
    assert equal > 1.5 * CLUSTERS


def mig_request(random: Random) -> PodRequest:
    memory = random.choice((3_000, 5_000, 9_000, 18_000, 30_000))
    return vgpu(
        random.choice((1, 1, 1, 2)), memory, random.choice((None, None, 30)), containers=random.choice((1, 1, 2))
    )


def template_request(random: Random) -> PodRequest:
    return npu(random.choice((1, 1, 1, 2)), random.choice((10_000, 20_000, 40_000, 65_536)), word=B3)


def chip_request(random: Random) -> PodRequest:
    if random.random() < 0.5:
        return template_request(random)
    return shared(1, random.choice((10_000, 30_000)), random.choice((20, 50)), word=B3)


def mig() -> Allocator:
    return mig_cluster(node("a", [mig_card(at, slots=5) for at in range(2)]))


def npus() -> Allocator:
    return allocator(npu_node(chips(2, B3, slots=4), "a"))


def mixed_npus() -> Allocator:
    return allocator(npu_node(chips(2, B3, slots=4, mode="vnpu-hami-core"), "a"))


@pytest.mark.parametrize(
    ("made_nodes", "request_of"),
    [(mig, mig_request), (npus, template_request), (mixed_npus, chip_request)],
    ids=["MIG", "vNPU", "vNPU or shared"],
)
def test_of_cards_in_parts_of_fixed_sizes_it_is_never_more_than_enough(
    made_nodes: Callable[[], Allocator], request_of: Callable[[Random], PodRequest]
):
    equal = several = tried = 0
    for seed in range(CLUSTERS):
        random, full = Random(seed), made_nodes()
        for number in range(12):
            what = request_of(random)
            placement = full.place(what)
            if placement is not None:
                full.take(f"old-{number}", placement)
        asked = request_of(random)
        least, exact = bounds(full, asked)["a"], fewest(full, "a", asked)
        assert least <= exact, seed
        if exact > 0:
            tried += 1
            equal += least == exact
            several += exact > 1
    assert several > CLUSTERS / 20
    assert equal > 0.5 * tried > CLUSTERS / 8


def test_pods_that_have_one_card_each_have_to_go_for_as_many_cards():
    allocator = cluster(node("a", [card(at, memory=10_000) for at in range(4)]))
    for at in range(4):
        take(allocator, vgpu(1, 10_000), f"old-{at}")
    assert bounds(allocator, vgpu(3, 1_000)) == {"a": 3}
    assert bounds(allocator, vgpu(5, 1_000)) == {"a": NEVER_ENOUGH}
    assert bounds(allocator, vgpu(1, 20_000)) == {"a": NEVER_ENOUGH}


def test_slots_are_used_again():
    allocator = cluster(node("a", [card(at, memory=10_000) for at in range(2)]))
    take(allocator, vgpu(2, 10_000), "large")
    removals = allocator.removals()
    removals.reserve(2)
    ((_, holding),) = allocator.holdings_on("a")
    for turn in range(200):
        removals.put(turn % 2, "a", holding)
        removals.drop(1 - turn % 2)
        able = np.ones(2, dtype=np.bool_)
        assert allocator.least_removals(vgpu(2, 10_000), removals, able).tolist() == [1]
    assert len(removals._shares) < 100
