"""vGPUs of all modes, after any sequence of steps: no device is allocated twice, and annotations restore the state."""

from collections import Counter

import hypothesis.strategies as st
from deviceshare.allocation import Allocator
from deviceshare.conf import FIRST_FIT
from deviceshare.conf.model import BEST_FIT
from deviceshare.model import INIT
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from support.builders import CORES, MEMORY, PERCENTAGE, ask, card, conf, container, node, vgpu
from support.mig import A30, A100_40, A100_80, DOCS, PLUGIN, mig_card, read, written

NAMES = ("a", "b")
MODES = {"a": ("mig", "mig", "hami-core"), "b": ("mig", "mps", "mig")}
"""How each card is cut: a card in use is not turned into another kind."""
AMOUNTS = st.sampled_from([1, 3000, 5120, 6000, 9000, 12000, 20000, 40000])
limits = st.one_of(
    st.fixed_dictionaries({MEMORY: AMOUNTS}, optional={CORES: st.sampled_from([0, 20, 60, 100])}),
    st.fixed_dictionaries({PERCENTAGE: st.sampled_from([10, 14, 50, 100])}),
    st.fixed_dictionaries({MEMORY: AMOUNTS, "volcano.sh/vgpu-number": st.integers(1, 3)}),
    st.just({}),
)
QUESTIONS = [vgpu(1, 3000), vgpu(2, 9000), vgpu(1), vgpu(1, 100, containers=3), vgpu(1, percentage=50)]


@st.composite
def asks(draw):
    """Draw a pod with up to two containers and two init containers, some of them sidecars."""
    mode = draw(st.sampled_from(["", "", "mig", "hami-core", "mps"]))
    mains = [container(f"c{at}", **draw(limits)) for at in range(draw(st.integers(1, 2)))]
    inits = [container(f"i{at}", sidecar=draw(st.booleans()), **draw(limits)) for at in range(draw(st.integers(0, 2)))]
    return ask(*mains, init_containers=tuple(inits), annotations={"volcano.sh/vgpu-mode": mode} if mode else {})


@st.composite
def nodes(draw, name: str):
    """Draw a node with up to three cards of any modes."""
    cards = []
    for at in range(draw(st.integers(1, 3))):
        slots, model = draw(st.sampled_from([2, 10])), draw(st.sampled_from([A30, A100_40, A100_80]))
        mode = MODES[name][at]
        cards.append(
            mig_card(at, model, slots=slots, node=name)
            if mode == "mig"
            else card(at, memory=40960, slots=slots, mode=mode, node=name)
        )
    if draw(st.integers(0, 4)) == 0:
        cards[0] = replace(cards[0], healthy=False)
    return node(name, cards, pods=50)


def _cut(allocator: Allocator, name: str) -> list[int]:
    return allocator.card_state(name, "mig-cut")


def _used(allocator: Allocator, name: str) -> list[int]:
    return allocator.card_state(name, "mig-used")


class Vgpus(RuleBasedStateMachine):
    """Pods and nodes come and go; each answer is that of an allocator that reads annotations and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict = {}
        self.pods: dict = {}
        self.expected: list = []
        self.count = 0

    @initialize(
        policy=st.sampled_from(["", "binpack", "spread"]),
        geometry=st.sampled_from([BEST_FIT, FIRST_FIT]),
        devices=st.sampled_from([DOCS, PLUGIN]),
        first=nodes("a"),
    )
    def start(self, policy, geometry, devices, first) -> None:
        self.conf = replace(conf(policy, 10), devices=devices, mig_geometry=geometry)
        self.allocator = Allocator(self.conf)
        self.set_node(first)

    @rule(new=st.sampled_from(NAMES).flatmap(nodes))
    def set_node(self, new) -> None:
        self.nodes[new.name] = new
        self.allocator.set_node(new)

    @rule(mix=st.lists(st.tuples(asks(), st.integers(1, 9)), max_size=3))
    def expect(self, mix) -> None:
        self.expected = mix
        self.allocator.expect(mix)

    @rule(devices=st.sampled_from([DOCS, PLUGIN]))
    def configure(self, devices) -> None:
        self.conf = replace(self.conf, devices=devices)
        self.allocator.set_configuration(self.conf)

    @rule(several=st.lists(asks(), min_size=1, max_size=6), by_annotations=st.booleans())
    def place_some(self, several, by_annotations) -> None:
        for what in several:
            self.place(what, by_annotations)

    def place(self, what, by_annotations) -> None:
        before, mixed_up = self.wrong(), self.mixed_up()
        placement = self.allocator.place(what)
        if placement is None:
            why = self.allocator.why_not(what)
            assert why.problem or why.refusals
            return
        self.count += 1
        uid, annotations = f"p{self.count}", {}
        if placement.grants:
            annotations = written(placement, *(each.name for each in what.containers))
        grants = read(annotations, what) if by_annotations else placement.grants
        self.allocator.hold(placement.node, uid, grants, placement.resources)
        self.pods[uid] = (placement.node, what, annotations)
        assert self.wrong() <= before, f"{placement} was too much"
        assert not mixed_up & {(placement.node, device.id) for each in placement.grants for device in each.devices}

    @precondition(lambda self: self.pods)
    @rule(at=st.integers(0, 20))
    def release(self, at) -> None:
        uid = sorted(self.pods)[at % len(self.pods)]
        where, _, annotations = self.pods.pop(uid)
        assert self.allocator.release(where, uid) or not annotations

    def cards(self):
        """Yield node, card, what is taken of it, its geometry."""
        for name, each in self.nodes.items():
            used, cuts = self.allocator.used_cards(name), self.allocator.card_state(name, "mig-cut")
            for of, taken, cut in zip(each.cards, used, cuts, strict=True):
                yield name, of, taken, cut

    def mixed_up(self) -> set[tuple[str, str]]:
        return {(name, of.id) for name, of, _, cut in self.cards() if cut < 0}

    def wrong(self) -> set[object]:
        """Return what no placement may add to: overdrawn cards, cards cut in two ways, instances of two pods."""
        wrong: set[object] = {
            (name, of.id)
            for name, of, (memory, cores, slots), _ in self.cards()
            if cores > 100 or slots > of.slots or (memory > of.memory and of.mode != "mig")
        }
        wrong |= self.mixed_up()
        holders: Counter = Counter()
        for where, what, annotations in self.pods.values():
            given = [
                (grant.stage, (where, device.id, device.detail))
                for grant in read(annotations, what)
                for device in grant.devices
                if device.detail
            ]
            mains = [instance for stage, instance in given if stage != INIT]
            # An init container runs before the others of its pod do.
            holders.update([*mains, *({instance for _, instance in given} - set(mains))])
        return wrong | {instance for instance, times in holders.items() if times > 1}

    @invariant()
    def annotations_alone_restore_the_state(self) -> None:
        if not hasattr(self, "allocator"):
            return
        fresh = Allocator(self.conf)
        fresh.expect(self.expected)
        for uid, (where, what, annotations) in self.pods.items():
            fresh.hold(where, uid, read(annotations, what), fresh.amounts(what))
        for name in reversed(NAMES):
            if name in self.nodes:
                fresh.set_node(self.nodes[name])
        for name in self.nodes:
            for read_state in (Allocator.used_cards, _cut, _used):
                assert read_state(self.allocator, name) == read_state(fresh, name)
        for what in QUESTIONS:
            assert self.allocator.place(what) == fresh.place(what)
            assert self.allocator.why_not(what) == fresh.why_not(what)


Vgpus.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=20,
    deadline=None,
    # Shrinking takes minutes here; the seed is printed.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
TestVgpus = Vgpus.TestCase
