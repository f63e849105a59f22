"""The room of nominated pods: what is charged is the most of all courses that things may take.

Each nomination is open or not: its pods are there, or those in whose place they come. An allocator without nominations
is charged with each of these courses.
"""

from collections.abc import Mapping
from itertools import product
from random import Random

import pytest
from deviceshare.allocation import Allocator, Placement
from deviceshare.families import FAMILIES
from deviceshare.model import HostPort, NodeFact
from deviceshare.state import Trial, Usage
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import ask, card, cluster, container, node, vgpu
from support.hami_vnpu import DEVICES as NPU_DEVICES
from support.hami_vnpu import chips, npu, npu_node
from support.mig import A30, mig_card
from support.mig import DOCS as MIG_DEVICES
from support.mindcluster import asks, npus
from support.random_clusters import ask_of, conf_of, node_of
from support.whole_state import whole_state

COUNTED = frozenset[str]().union(*(family.modes for family in FAMILIES if family.accounting))


class Scene:
    """One node: pods that stay, and nominations of pods that come in the place of others."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.conf = conf_of(rng)
        self.fact = replace(node_of(rng, "n", None), ready=True)
        self.others: dict[str, Placement] = {}
        self.nominations: list[tuple[dict[str, Placement], dict[str, Placement]]] = []
        """For each the pods that go, and those that come."""
        usual = self.empty()
        for number in range(8):
            if (placement := usual.place(ask_of(rng, None))) is not None:
                self.others[f"pod-{number}"] = placement
                usual.take(f"pod-{number}", placement)
        uids = sorted(self.others)
        rng.shuffle(uids)
        self.allocator = self.taking(self.others)
        for number in range(rng.randint(1, 3)):
            going = {uid: self.others.pop(uid) for uid in uids[3 * number : 3 * number + rng.randint(1, 3)]}
            if not going:
                break
            coming: dict[str, Placement] = {}
            with Trial(self.allocator.undo_log):
                for uid in going:
                    self.allocator.release("n", uid)
                for pod in range(rng.randint(1, 3)):
                    if (placement := self.allocator.place(ask_of(rng, None))) is not None:
                        coming[f"new-{number}-{pod}"] = placement
                        self.allocator.take(f"new-{number}-{pod}", placement)
            for uid, placement in coming.items():
                nominate(self.allocator, uid, placement, tuple(sorted(going)))
            self.nominations.append((going, coming))

    def empty(self) -> Allocator:
        allocator = Allocator(self.conf)
        allocator.set_node(self.fact)
        return allocator

    def taking(self, placed: dict[str, Placement]) -> Allocator:
        allocator = self.empty()
        for uid, placement in placed.items():
            allocator.take(uid, placement)
        return allocator

    def courses(self, gone: frozenset[str] = frozenset()) -> list[Allocator]:
        """Return an allocator for each course; ``gone``: pods that are gone in all of them."""
        found = []
        for course in product((0, 1), repeat=len(self.nominations)):
            placed = dict(self.others)
            for at, nomination in zip(course, self.nominations, strict=True):
                placed |= nomination[at]
            found.append(self.taking({uid: each for uid, each in placed.items() if uid not in gone}))
        return found


def nominate(allocator: Allocator, uid: str, placement: Placement, waits_for: tuple[str, ...]) -> None:
    amounts = placement.resources + placement.counted
    allocator.hold(placement.node, uid, placement.grants, amounts, ports=placement.ports, waits_for=waits_for)


def most(courses: list[Allocator], fact: NodeFact, closed: frozenset[str]) -> tuple[list[Usage], dict[str, int]]:
    cards = [
        Usage(*map(max, zip(*used, strict=True))) for used in zip(*(c.used_cards("n") for c in courses), strict=True)
    ]
    cards = [
        Usage(*map(max, used, (each.memory, each.cores, each.slots))) if each.id in closed else used
        for each, used in zip(fact.cards, cards, strict=True)
    ]
    names = {name for each in courses for name in each.used("n")}
    return cards, {name: max(each.used("n").get(name, 0) for each in courses) for name in names}


def check(scene: Scene, gone: frozenset[str] = frozenset()) -> None:
    coming = [placement for _, new in scene.nominations for placement in new.values()]
    named = {device.id for each in coming for grant in each.grants for device in grant.devices}
    closed = frozenset(each.id for each in scene.fact.cards if each.id in named and each.mode in COUNTED)
    cards, amounts = most(scene.courses(gone), scene.fact, closed)
    found = scene.allocator.used_cards("n")
    for each, used, wanted in zip(scene.fact.cards, found, cards, strict=True):
        if each.id in closed:
            assert used.slots >= each.slots
        elif each.mode not in COUNTED:
            assert used == wanted
    assert in_use(scene.allocator.used("n")) == in_use(amounts)


def in_use(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_what_is_charged_is_the_most_of_all_courses(seed: int) -> None:
    scene = Scene(seed)
    check(scene)
    rng, gone = Random(seed), set[str]()
    going = sorted(uid for old, _ in scene.nominations for uid in old)
    rng.shuffle(going)
    for uid in going:
        scene.allocator.release("n", uid)
        gone.add(uid)
        check(scene, frozenset(gone))


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_a_pod_that_fits_beside_a_nomination_fits_in_all_courses(seed: int) -> None:
    scene = Scene(seed)
    rng = Random(seed)
    for number in range(4):
        request = ask_of(rng, None)
        placement = scene.allocator.place(request)
        if placement is not None:
            assert all(each.place(request) is not None for each in scene.courses())
            scene.allocator.take(f"third-{number}", placement)
            scene.others[f"third-{number}"] = placement
            check(scene)


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_trials_leave_nothing_behind_and_order_does_not_matter(seed: int) -> None:
    scene = Scene(seed)
    allocator, rng = scene.allocator, Random(seed)
    requests = [ask_of(rng, None) for _ in range(3)]
    for request in requests:
        allocator.place(request)  # which keeps what it has read
        if (placement := scene.empty().place(request)) is not None:
            allocator.take("first", placement)  # which adds the columns of its resources
            allocator.release("n", "first")
    before = whole_state(allocator)
    holdings = dict(allocator.holdings_on("n"))
    with Trial(allocator.undo_log):
        uids = sorted(holdings)
        rng.shuffle(uids)
        for uid in uids:
            allocator.release("n", uid)
            if rng.random() < 0.3 and (placement := allocator.place(rng.choice(requests))) is not None:
                allocator.take(f"tried-{uid}", placement)
        for uid in uids[: rng.randint(0, len(uids))]:
            held = holdings[uid]
            allocator.hold("n", uid, held.grants, held.resources, held.tenant, held.ports, held.waits_for)
    assert whole_state(allocator) == before
    again = scene.empty()
    uids = sorted(holdings)
    rng.shuffle(uids)
    for uid in uids:
        held = holdings[uid]
        again.hold("n", uid, held.grants, held.resources, held.tenant, held.ports, held.waits_for)
    again.remove_node("n")
    again.set_node(scene.fact)
    again.set_node(replace(scene.fact, cards=scene.fact.cards[:1]))
    again.set_node(scene.fact)
    again.set_configuration(scene.conf)
    assert again.used_cards("n") == allocator.used_cards("n")
    assert in_use(again.used("n")) == in_use(allocator.used("n"))
    for uid in uids:
        again.release("n", uid)
    assert again.used_cards("n") == scene.empty().used_cards("n")
    assert not any(again.used("n").values())
    assert not again._nominated


@pytest.mark.parametrize(
    ("fact", "old", "new", "devices"),
    [
        (node("n", [mig_card(0, A30, node="n")]), vgpu(1, 18000), vgpu(1, 5000), MIG_DEVICES),
        (npu_node(chips(1), "n"), npu(1), npu(1, 3072), NPU_DEVICES),
        (npus("n"), asks(8), asks(2), None),
    ],
)
def test_a_card_that_changes_its_geometry_is_closed_until_the_nomination_is_open(fact, old, new, devices) -> None:
    allocator = cluster(fact, **({} if devices is None else {"devices": devices}))
    first = allocator.place(old)
    assert first is not None
    with Trial(allocator.undo_log):
        second = allocator.place(new)
        assert second is not None
    allocator.take("old", first)
    full = allocator.place(new) is None
    with Trial(allocator.undo_log):
        allocator.release("n", "old")
        assert allocator.place(new) is not None
    nominate(allocator, "new", second, ("old",))
    assert allocator.place(new) is None
    allocator.release("n", "old")
    assert allocator.place(new) is None
    allocator.take("new", second)
    assert full
    assert allocator.place(new) is not None


def test_the_room_that_a_pod_leaves_belongs_to_the_nominated_one() -> None:
    allocator = cluster(node("n", [card(0, node="n", memory=1000)]))
    large, small = vgpu(1, 1000), vgpu(1, 300)
    old = allocator.place(large)
    new = replace_memory(old, small, allocator)
    allocator.take("old", old)
    nominate(allocator, "new", new, ("old",))
    assert allocator.place(small) is None
    allocator.release("n", "old")
    for number in range(2):
        third = allocator.place(small)
        assert third is not None
        allocator.take(f"third-{number}", third)
    assert allocator.place(small) is None
    allocator.take("new", new)
    assert [used.memory for used in allocator.used_cards("n")] == [900]


def replace_memory(old: Placement, request, allocator: Allocator) -> Placement:
    found = allocator.place(request)
    assert found.node == old.node
    return found


def test_host_ports_of_both_are_in_use() -> None:
    allocator = cluster(node("n"))

    def port(number: int):
        return replace(ask(container(cpu=1)), host_ports=(HostPort("0.0.0.0", "TCP", number),))

    old, new = allocator.place(port(80)), allocator.place(port(90))
    allocator.take("old", old)
    nominate(allocator, "new", new, ("old",))
    assert allocator.place(port(80)) is None
    assert allocator.place(port(90)) is None
    assert allocator.place(port(70)) is not None
    allocator.release("n", "old")
    assert allocator.place(port(80)) is not None
    assert allocator.place(port(90)) is None
