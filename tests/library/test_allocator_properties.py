"""Whatever happened before, the allocator answers like one that sees only how things stand."""

import hypothesis.strategies as st
import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import NodeOrder
from deviceshare.conf.node_plugins import Binpack
from deviceshare.model import HostPort, Preference, Requirement, Taint
from deviceshare.queueing import Group, decide
from hypothesis import Phase, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from support.builders import (
    GIB,
    ask,
    card,
    chosen,
    cluster,
    conf,
    container,
    node,
    pod,
    share,
    share_cards,
    take,
    vgpu,
    weighted_scores,
    whole,
)

NAMES = ("a", "b", "c", "d")
SOFT = Taint("b", "", "PreferNoSchedule")
MODELS = ("NVIDIA-A10", "NVIDIA-A100", "NVIDIA-T4")
ASKS = [
    vgpu(1, 30),
    vgpu(2, 60, 50),
    vgpu(1, 10, 100),
    vgpu(2),
    vgpu(1, percentage=40),
    vgpu(1, 30, containers=2),
    vgpu(5, 1),
    vgpu(1, 5, annotations={"nvidia.com/use-gputype": "A10"}),
    vgpu(1, 5, annotations={"nvidia.com/nouse-gputype": "A100"}),
    vgpu(1, 5, annotations={"volcano.sh/vgpu-use-gpuuuid": "GPU-a0,GPU-b1"}),
    share(40),
    share(70, index="1"),
    whole(1),
    whole(2),
    ask(container(cpu=3000, memory=GIB)),
    ask(container(cpu=100), node_selector=(("zone", "1"),)),
    ask(container(cpu=100), host_ports=(HostPort("0.0.0.0", "TCP", 80),)),
    replace(vgpu(1, 10), preferences=(Preference(7, (Requirement("zone", "Exists", ()),)),)),
]


@st.composite
def nodes(draw, name: str | None = None):
    name = name or draw(st.sampled_from(NAMES))
    if draw(st.booleans()):
        cards = [
            card(
                at, node=name, memory=draw(st.sampled_from([50, 100])), slots=draw(st.integers(1, 3)),
                model=draw(st.sampled_from(MODELS)), healthy=draw(st.integers(0, 5)) > 0,
            )
            for at in range(draw(st.integers(0, 4)))
        ]  # fmt: skip
    else:
        cards = share_cards(draw(st.integers(1, 3)), memory=100, unhealthy=draw(st.sets(st.integers(0, 2), max_size=1)))
    return node(
        name,
        cards,
        cpu=draw(st.sampled_from([2000, 8000])),
        pods=draw(st.integers(1, 6)),
        ready=draw(st.integers(0, 5)) > 0,
        labels=draw(st.sampled_from([{}, {"zone": "1"}])),
        taints=draw(st.lists(st.sampled_from([Taint("a", "", "PreferNoSchedule"), SOFT]), max_size=2)),
    )


def answers(allocator: Allocator) -> list:
    return [(allocator.place(what), weighted_scores(allocator, what), allocator.why_not(what)) for what in ASKS]


class Incremental(RuleBasedStateMachine):
    """Nodes and pods come and go; each answer is that of an allocator made anew."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict = {}
        self.held: dict = {}
        self.count = 0

    @initialize(
        policy=st.sampled_from(["", "binpack", "spread"]), weight=st.sampled_from([0, 1, 10]), scored=st.booleans()
    )
    def start(self, policy, weight, scored) -> None:
        self.conf = conf(policy, weight)
        if scored:
            packing = Binpack(resources=(("cpu", 1), ("memory", 1), ("volcano.sh/vgpu-number", 2)))
            self.conf = replace(self.conf, nodeorder=NodeOrder(), binpack=packing)
        self.allocator = Allocator(self.conf)

    @rule(new=nodes())
    def set_node(self, new) -> None:
        self.nodes[new.name] = new
        self.allocator.set_node(new)

    @precondition(lambda self: self.nodes)
    @rule(at=st.integers(0, 3))
    def remove_node(self, at) -> None:
        name = sorted(self.nodes)[at % len(self.nodes)]
        del self.nodes[name]
        self.allocator.remove_node(name)

    @rule(what=st.sampled_from(ASKS))
    def place(self, what) -> None:
        placement = self.allocator.place(what)
        if placement is not None:
            self.count += 1
            before = self.overdrawn()
            uid = f"p{self.count}"
            self.allocator.take(uid, placement)
            self.held[uid] = placement
            assert self.overdrawn() <= before, "a placement overdrew a card"

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0, 20))
    def release(self, at) -> None:
        uid = sorted(self.held)[at % len(self.held)]
        assert self.allocator.release(self.held.pop(uid).node, uid)

    @rule(policy=st.sampled_from(["", "binpack", "spread"]))
    def configure(self, policy) -> None:
        self.conf = replace(self.conf, policy=policy)
        self.allocator.set_configuration(self.conf)

    def overdrawn(self) -> set[tuple[str, int]]:
        """Cards with more taken than they have: only nodes that shrank may have some."""
        return {
            (name, at)
            for name, each in self.nodes.items()
            for at, (of, (memory, cores, slots)) in enumerate(
                zip(each.cards, self.allocator.used_cards(name), strict=True)
            )
            if memory > of.memory or cores > of.cores or slots > of.slots
        }

    def fresh(self, names) -> Allocator:
        allocator = Allocator(self.conf)
        for uid, placement in self.held.items():
            allocator.take(uid, placement)
        for name in names:
            allocator.set_node(self.nodes[name])
        return allocator

    @invariant()
    def answers_are_those_of_a_fresh_allocator(self) -> None:
        if hasattr(self, "allocator"):
            known = answers(self.allocator)
            assert known == answers(self.fresh(sorted(self.nodes)))
            assert known == answers(self.fresh(sorted(self.nodes, reverse=True)))

    def teardown(self) -> None:
        for uid, placement in self.held.items():
            self.allocator.release(placement.node, uid)
        for name in self.nodes:
            assert set(self.allocator.used_cards(name)) <= {(0, 0, 0)}
            assert not any(self.allocator.used(name).values())


Incremental.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=15,
    deadline=None,
    # Shrinking takes minutes here; the seed is printed.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
TestIncremental = Incremental.TestCase


@given(st.permutations(NAMES), st.sampled_from(["", "binpack", "spread"]))
@settings(max_examples=20, deadline=None)
def test_ties_go_to_the_lowest_name_in_whatever_order_nodes_came(names, policy) -> None:
    four = cluster(*(node(name, [card(0, node=name)]) for name in names), policy=policy)
    assert four.place(vgpu(1, 1)).node == "a"


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    asked=st.lists(st.sampled_from(ASKS[:4]), min_size=1, max_size=6),
    minimum=st.integers(0, 6),
    placed=st.integers(0, 3),
)
@settings(max_examples=100, deadline=None)
def test_a_gang_is_placed_with_its_minimum_or_leaves_no_trace(sizes, asked, minimum, placed) -> None:
    several = cluster(
        *(node(f"n{at}", [card(i, node=f"{at}-", memory=100) for i in range(size)]) for at, size in enumerate(sizes))
    )
    take(several, ASKS[0], "before") if several.place(ASKS[0]) else None
    before = answers(several)
    pods = tuple(pod(f"p{at}", what, gang="g") for at, what in enumerate(asked))
    group = Group(key="ns/g", pods=pods, minimum=minimum, placed=placed)
    decision = decide(several, group)
    if decision.placed:
        assert len(decision.placed) == max(1, minimum - placed), "more than the minimum come in turns of their own"
        assert decision.waiting == ()
    else:
        assert sorted(each.uid for each, _ in decision.waiting) == sorted(each.uid for each in pods)
        assert answers(several) == before
    for each, placement in decision.placed:
        assert several.release(placement.node, each.uid)
    assert answers(several) == before


def test_a_gang_that_does_not_fit_says_what_keeps_the_others() -> None:
    one = cluster(node(cards=[card(0, memory=100)]))
    pods = tuple(pod(f"p{at}", vgpu(1, 60), gang="g") for at in range(2))
    decision = decide(one, Group(key="ns/g", pods=pods, minimum=2))
    assert decision.placed == ()
    assert decision.fitted == 1
    (first, why_first), (second, why_second) = decision.waiting
    assert (first.name, why_first) == ("p0", None)
    assert second.name == "p1"
    assert why_second.refusals[0].free == 40


@pytest.mark.parametrize("came_later", ["NVIDIA-A10", "NVIDIA-T4"])
def test_a_model_that_comes_or_goes_changes_nothing_of_what_a_name_means(came_later) -> None:
    what = vgpu(1, 1, annotations={"nvidia.com/use-gputype": "A10"})
    several = cluster(node("a", [card(0, node="a", model="NVIDIA-A100")]))
    assert several.place(what) is None
    several.set_node(node("b", [card(0, node="b", model=came_later)]))
    placement = several.place(what)
    assert (placement and placement.node) == ("b" if came_later == "NVIDIA-A10" else None)
    several.remove_node("b")
    assert several.place(what) is None


def test_what_is_held_on_a_node_that_goes_is_still_held_when_it_comes_back() -> None:
    one = cluster(node(cards=[card(0, memory=100)]))
    take(one, vgpu(1, 60), "a")
    one.remove_node("n1")
    one.release("n1", "absent")
    one.set_node(node("n0"))
    one.set_node(node(cards=[card(0, memory=100)]))
    assert one.place(vgpu(1, 60)) is None
    assert chosen(one.place(vgpu(1, 40))) == [0]
