"""MindCluster vNPUs under any sequence of steps: no chip is overcommitted, and a restart restores the state."""

import hypothesis.strategies as st
from deviceshare.families.mindcluster.chips import STATE
from deviceshare.model import PodRequest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.builders import cluster
from support.mindcluster import CONTAINERS, MINDCLUSTER, REAL, annotations, asks, made, npus, taken

SIZES = [asks(1), asks(2), asks(2, "high"), asks(4), asks(4, "high"), asks(4, dvpp="yes"), asks(4, dvpp="no"), asks(8)]
SIZES += [asks(16), CONTAINERS[1], CONTAINERS[3]]


class Chips(RuleBasedStateMachine):
    """Pods come, are bound, served and deleted, and chips become unhealthy."""

    def __init__(self):
        super().__init__()
        self.placed: dict[str, tuple[str, PodRequest, dict[str, str]]] = {}
        self.count = 0

    @initialize()
    def start(self):
        self.nodes = {name: npus(name, count) for name, count in (("a", 1), ("b", 3))}
        self.allocator = cluster(*self.nodes.values())

    @rule(what=st.sampled_from(SIZES))
    def place(self, what):
        placement = self.allocator.place(what)
        if placement is None:
            assert self.allocator.why_not(what).refusals
            return
        self.count += 1
        uid = f"p{self.count}"
        self.placed[uid] = placement.node, what, annotations(placement)
        self.hold(uid)

    @precondition(lambda self: self.placed)
    @rule(at=st.integers(0, 20), group=st.integers(0, 3))
    def serve(self, at, group):
        uid = sorted(self.placed)[at % len(self.placed)]
        where, what, written = self.placed[uid]
        self.placed[uid] = where, what, written | {REAL: made("x", group)}
        self.hold(uid)

    @precondition(lambda self: self.placed)
    @rule(at=st.integers(0, 20))
    def release(self, at):
        uid = sorted(self.placed)[at % len(self.placed)]
        where, _, _ = self.placed.pop(uid)
        assert self.allocator.release(where, uid)

    @rule(name=st.sampled_from("ab"), sick=st.sets(st.integers(0, 2), max_size=1))
    def fall_sick(self, name, sick):
        self.nodes[name] = npus(name, len(self.nodes[name].cards), sick=sick)
        self.allocator.set_node(self.nodes[name])

    def hold(self, uid):
        hold(self.allocator, uid, *self.placed[uid])

    @invariant()
    def no_chip_gives_more_than_it_has(self):
        for name in self.nodes if hasattr(self, "nodes") else ():
            assert all(cores <= 8 and cpus <= 7 for cores, cpus in taken(self.allocator, name))

    @invariant()
    def an_allocator_made_anew_from_the_annotations_knows_the_same(self):
        if not hasattr(self, "nodes"):
            return
        anew = cluster(*self.nodes.values())
        for uid, held in self.placed.items():
            hold(anew, uid, *held)
        for name in self.nodes:
            assert anew.used_cards(name) == self.allocator.used_cards(name)
            for key in STATE:
                assert anew.card_state(name, key) == self.allocator.card_state(name, key)
        assert [anew.place(what) for what in SIZES] == [self.allocator.place(what) for what in SIZES]


def hold(allocator, uid, where, what, written):
    allocator.hold(where, uid, MINDCLUSTER.held(written, what, "ns/a"), ())


Chips.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestChips = Chips.TestCase
