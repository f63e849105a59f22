"""One rule of feasibility: on every node a family finds room exactly where none of its checks gives a reason.

Room is found by kernels, or in NumPy by the family's ``place``; the reasons are counted in NumPy. Both are compared on
random clusters with random holdings, whole demands against all reasons, and the cards of the first container one by
one: a node has room for it exactly where enough cards pass every check.
"""

from collections.abc import Callable
from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import FIRST_FIT
from deviceshare.conf.model import BEST_FIT
from deviceshare.families import BY_NAME, Check, HamiVnpu, Mig
from deviceshare.families.base import OneByOne
from deviceshare.families.hami_vnpu.checks import checks
from deviceshare.families.hami_vnpu.placing import ChipChooser
from deviceshare.families.mindcluster.wire import chip_id
from deviceshare.families.vgpu.cutting import Cutting
from deviceshare.model import Card, ContainerGrant, DeviceGrant, NodeFact, PodRequest, Tenant
from deviceshare.state import PODS
from hypothesis import given, settings
from msgspec.structs import replace
from support.builders import ask, card, conf, container, node, share, share_cards, vgpu, weighted_scores, whole
from support.mig import A30, A100_40, mig_card
from support.random_clusters import CHIP, DEVICES, MODELS, NPU_NODE, SHARED, node_of

NAMES = ("a", "b", "c", "d")
NPU_CORES = "huawei.com/npu-core"
Demands = Callable[[Random], PodRequest]


def software(mode: str, chance: Random, name: str) -> NodeFact:
    return node(
        name,
        [
            card(
                at, node=name, memory=chance.choice((50, 100)), slots=chance.randint(1, 3), mode=mode,
                model=chance.choice(MODELS), healthy=chance.random() > 0.15,
            )
            for at in range(chance.randint(1, 4))
        ],
    )  # fmt: skip


def mig(chance: Random, name: str) -> NodeFact:
    models = (A30, A100_40, "NVIDIA-unknown")
    return node(
        name,
        [
            mig_card(
                at, model, node=name, slots=chance.choice((1, 2, 7)), memory=0 if model in (A30, A100_40) else 9000
            )
            for at in range(chance.randint(1, 3))
            for model in [chance.choice(models)]
        ],
    )  # fmt: skip


def shared(chance: Random, name: str) -> NodeFact:
    unhealthy = (0,) if chance.random() < 0.2 else ()
    return node(name, share_cards(chance.randint(1, 4), memory=chance.choice((0, 1, 100)), unhealthy=unhealthy))


def chips(chance: Random, name: str) -> NodeFact:
    count = chance.randint(1, 3)
    cards = [
        Card(chip_id(at), at, 7, 0, 8, "310P3", healthy=chance.random() > 0.15, mode="mindcluster")
        for at in range(count)
    ]
    return node(name, cards, **{NPU_CORES: 8 * count if chance.random() < 0.8 else 4})


def vgpus(mode: str, chance: Random) -> PodRequest:
    amounts = (4000, 4500, 9000, 18000, 50000) if mode == "mig" else (5, 30, 45, 90, 200)
    wishes = {"volcano.sh/vgpu-mode": mode}
    if chance.random() < 0.2:
        wishes["nvidia.com/use-gputype"] = chance.choice(("A10", "A100", "A30"))
    if chance.random() < 0.2:
        wishes["volcano.sh/vgpu-use-gpuuuid"] = "GPU-a0,GPU-b1"
    memory = chance.choice((*amounts, None))
    cores = chance.choice((None, 0, 20, 50, 100))
    percentage = chance.choice((30, 100)) if memory is None and chance.random() < 0.7 else None
    found = vgpu(
        chance.choice((1, 1, 2, 3)), memory, cores, percentage,
        annotations=wishes, containers=chance.choice((1, 1, 1, 2)),
    )  # fmt: skip
    if chance.random() < 0.15:
        first = replace(found.containers[0], name="first", sidecar=chance.random() < 0.5)
        found = replace(found, init_containers=(first,))
    return found


def npus(chance: Random) -> PodRequest:
    memory, core = CHIP.memory_resource, CHIP.core_resource
    limits = {CHIP.resource: chance.choice((1, 1, 2))}
    if chance.random() < 0.5:
        limits |= {memory: chance.choice((20, 60, 96))} | ({core: chance.choice((20, 50, 100))})
        return ask(container(**limits), annotations=SHARED)
    if limits[CHIP.resource] == 1 and chance.random() < 0.8:
        limits[memory] = chance.choice((10, 24, 30, 48))
    containers = [container("main", **limits)]
    if chance.random() < 0.3:
        containers.append(container("second", **limits))
    return ask(*containers)


def parts(chance: Random) -> PodRequest:
    cores, labels = chance.choice((1, 2, 4, 8, 16)), {"ring-controller.atlas": "ascend-310P"}
    if cores in (2, 4) and chance.random() < 0.5:
        labels["vnpu-level"] = "high"
    if cores == 4 and chance.random() < 0.5:
        labels["vnpu-dvpp"] = chance.choice(("yes", "no"))
    return ask(container(**{NPU_CORES: cores}), labels=tuple(sorted(labels.items())))


def indexed(chance: Random) -> str | None:
    return chance.choice((None, None, "0", "1"))


FAMILIES = {
    "gpu-share": (shared, lambda chance: share(chance.choice((1, 20, 40, 70, 101)), index=indexed(chance))),
    "gpu-number": (shared, lambda chance: whole(chance.randint(1, 3), index=indexed(chance))),
    "hami-core": (lambda *of: software("hami-core", *of), lambda chance: vgpus("hami-core", chance)),
    "mps": (lambda *of: software("mps", *of), lambda chance: vgpus("mps", chance)),
    "mig": (mig, lambda chance: vgpus("mig", chance)),
    "hami-vnpu": (lambda chance, name: node_of(chance, name, NPU_NODE), npus),
    "mindcluster": (chips, parts),
}


def scene(family: str, chance: Random) -> Allocator:
    """Return nodes of the family, some of another one, on which pods hold something."""
    policy = chance.choice(("", "binpack", "spread"))
    configured = replace(
        conf(policy), devices=DEVICES, mig_geometry=chance.choice((BEST_FIT, FIRST_FIT)),
        mixed_chips=chance.random() < 0.3, number_on_shared_nodes=chance.random() < 0.5,
    )  # fmt: skip
    allocator = Allocator(configured)
    made, request = FAMILIES[family]
    others = [each for each, _ in FAMILIES.values() if each is not made]
    for name in NAMES:
        fact = made(chance, name) if chance.random() < 0.8 else chance.choice(others)(chance, name)
        allocator.set_node(replace(fact, ready=True))
    for number in range(chance.randrange(8)):
        placement = allocator.place(request(chance))
        if placement is not None:
            allocator.take(f"p{number}", placement, Tenant())
    for number in range(chance.randrange(4)):
        forge(family, allocator, chance, number)
    return allocator


def forge(family: str, allocator: Allocator, chance: Random, number: int) -> None:
    """Let a pod of another scheduler hold a part of a card, which may be more than is left."""
    fact = allocator.node(chance.choice(NAMES))
    assert fact is not None
    if family in ("hami-vnpu", "mindcluster") or not fact.cards:
        return
    on = chance.choice(fact.cards)
    detail = chance.choice(("group1-0", "group2-1", "")) if on.mode == "mig" else ""
    device = DeviceGrant(on.id, on.index, chance.randint(0, on.memory + 10), chance.choice((0, 30, 100)), detail)
    allocator.hold(fact.name, f"forged{number}", (ContainerGrant("main", 0, family, (device,)),), ())


def first_checks(family, demand, cards, view, configured) -> list[Check]:
    """Return the checks of the first container, whether or not it has room."""
    match family:
        case Mig():
            return Cutting(demand, view, configured).checks(cards)
        case HamiVnpu():
            return checks(ChipChooser(demand, view, configured), cards)
    assert isinstance(family, OneByOne)
    return family.failed(demand, cards, view, configured)


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=150)
@given(chance=st.randoms(use_true_random=False))
def test_a_node_has_room_exactly_where_no_check_gives_a_reason(name: str, chance: Random) -> None:
    family, allocator = BY_NAME[name], scene(name, chance)
    request = FAMILIES[name][1](chance)
    pod_class = allocator._refreshed(request)
    assert not pod_class.unschedulable, allocator.why_not(request)
    rows = np.arange(allocator.nodes)
    # The refusals of the family come only from nodes with enough of their own resources, and of what kubelet counts.
    wanted = ((PODS, 1), *pod_class.resources, *allocator._resources.limited(pod_class.of_devices))
    enough = np.logical_and.reduce([allocator._resources.free(rows, each) >= amount for each, amount in wanted])
    ((_, demand),) = [answer for each in pod_class.card_requests for answer in each.answers if answer[0] is family]

    feasible = weighted_scores(allocator, request)
    refused = np.zeros(len(rows), dtype=np.bool_)
    for check in family.checks(demand, allocator._view(rows), allocator.conf):
        refused |= check.nodes
    for row, each in enumerate(NAMES):
        if enough[row]:
            assert (each in feasible) == (not refused[row]), (each, request, allocator.why_not(request))

    if name == "mindcluster":
        # Its ``place`` and its checks have the rule for chips in common.
        return
    view, cards = allocator._view(rows), demand.cards[0]
    alone = replace(demand, cards=(cards,))
    passing = view.of_modes(family.modes)
    if isinstance(family, HamiVnpu):
        passing &= (view.type == view.kinds.types.find(CHIP.word)) & (view.allocatable(CHIP.resource) > 0)[:, None]
    for check in first_checks(family, alone, cards, allocator._view(rows), allocator.conf):
        if check.cards is not None:
            passing &= ~check.cards
    fits = family.place(alone, view, allocator.conf).fits
    assert fits.tolist() == (np.count_nonzero(passing, axis=1) >= cards.count).tolist()


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=100)
@given(chance=st.randoms(use_true_random=False))
def test_each_node_counts_under_one_check_that_leaves_too_few_cards(name: str, chance: Random) -> None:
    allocator = scene(name, chance)
    request = FAMILIES[name][1](chance)
    if allocator.place(request) is not None:
        return
    why = allocator.why_not(request)
    assert sum(each.nodes for each in why.first_failing) == allocator.nodes
    everything = {(each.code, each.text): each for each in why.refusals}
    for each in why.first_failing:
        assert each.nodes <= everything[each.code, each.text].nodes
        assert each.free < each.asked or not each.asked
        assert each.left < max(each.needed, 1)
