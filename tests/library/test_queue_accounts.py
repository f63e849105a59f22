"""The accounts of queues after any history are those of new ones that know only the present."""

from types import SimpleNamespace

import pytest
from deviceshare.conf import Extensions, default_conf, tiers
from deviceshare.conf.model import Plugin
from deviceshare.model import ContainerGrant, DeviceGrant, QueueFact
from deviceshare.queueing import Queues
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import MEMORY, ask, cards, container, node, pod, vgpu

PROPORTION = default_conf()
CAPACITY = replace(default_conf(), tiers=(*tiers("priority gang"), (Plugin("drf"), Plugin("capacity"))))
TREE = replace(default_conf(), tiers=(*tiers("priority gang"), (Plugin("drf"), Plugin("capacity", hierarchy=True))))
PATHS = replace(default_conf(), tiers=(*tiers("priority gang"), (Plugin("drf", hierarchy=True), Plugin("proportion"))))
VOLCANO = replace(
    TREE, extensions=Extensions(exact_shares=False, hierarchy_isolation=False, parent_shares=False, card_quotas=False)
)

ASKED = (
    ask(container(cpu=1000)), ask(container(cpu=2000, memory=2**30)), vgpu(1, 10), vgpu(2, 0), vgpu(1, None, 5, 50),
    ask(container()),
)  # fmt: skip
NODES = tuple(
    node(name, cards(count, memory=memory), cpu=cpu)
    for name, count, memory, cpu in (("m", 1, 100, 8000), ("m", 2, 100, 8000), ("n", 2, 300, 4000), ("n", 0, 0, 4000))
)
FACTS = (
    QueueFact(name="q", weight=2, capability={"cpu": 5000}, hierarchy=(("x", 1.0), ("y", 2.0))),
    QueueFact(name="q", weight=1, deserved={"cpu": 2000, MEMORY: 100}, parent="r"),
    QueueFact(name="r", weight=1, guarantee={"cpu": 1000}, hierarchy=(("x", 3.0),), created=1.0),
    QueueFact(name="r", weight=3, capability={MEMORY: 150}, parent="s", priority=2),
    QueueFact(name="s", hierarchy=(("z", 1.0),)),
    QueueFact(name="root"),
)
QUEUES = ("q", "r", "s", "default", "root")

actions = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 5), st.sampled_from(QUEUES), st.integers(0, 2), st.sampled_from(ASKED)),
    st.tuples(st.just("claim"), st.integers(0, 5), st.sampled_from([10, 60, 100])),
    st.tuples(st.sampled_from(["drop", "hold", "hold", "release", "other"]), st.integers(0, 5)),
    st.tuples(st.just("node"), st.sampled_from(NODES)),
    st.tuples(st.just("no node"), st.sampled_from("mn")),
    st.tuples(st.just("queue"), st.sampled_from(FACTS)),
    st.tuples(st.just("no queue"), st.sampled_from(QUEUES)),
    st.tuples(st.just("commit"), st.integers(1, 2), st.sampled_from(QUEUES), st.integers(0, 3)),
    st.tuples(st.just("release commitment"), st.integers(1, 2)),
    st.tuples(st.just("look")),
)


def gang(number: int) -> str:
    return "" if number == 0 else f"g{number}"


def claimed(memory: int) -> tuple[ContainerGrant, ...]:
    return (ContainerGrant("c0", 0, "hami-core", (DeviceGrant("GPU-0", 0, memory, 0),)),)


class Scene:
    """Queues with a history, and what is present in them."""

    def __init__(self, conf) -> None:
        self.conf, self.queues, self.gone = conf, Queues(conf), []
        self.nodes, self.facts, self.pods, self.held, self.others, self.commitments = {}, {}, {}, {}, {}, {}
        self.claims = {}

    def play(self, what, *args) -> None:
        getattr(self, what.replace(" ", "_"))(*args)

    def put(self, number, queue, group, asked) -> None:
        fact = pod(f"p{number}", asked, gang=gang(group))
        self.queues.put(fact, queue, fact.group)
        self.others.pop(number, None)
        self.claims.pop(number, None)
        if number not in self.pods:
            self.held[number] = False
        self.pods[number] = (fact, queue)

    def claim(self, number, memory) -> None:
        if number in self.pods:
            fact, queue = self.pods[number]
            self.claims[number] = claimed(memory)
            self.queues.put(fact, queue, fact.group, self.claims[number])
            self.hold(number)

    def drop(self, number) -> None:
        self.queues.drop(f"uid-p{number}")
        for known in (self.pods, self.held, self.others, self.claims):
            known.pop(number, None)

    def other(self, number) -> None:
        self.drop(number)
        self.others[number] = pod(f"p{number}", ASKED[number % len(ASKED)], node="m")
        self.queues.put_other(self.others[number])

    def hold(self, number) -> None:
        self.queues.hold(f"uid-p{number}")
        if number in self.held:
            self.held[number] = True

    def release(self, number) -> None:
        self.queues.release(f"uid-p{number}")
        if self.held.get(number):
            self.held[number] = False
            self.claims.pop(number, None)

    def node(self, fact) -> None:
        self.queues.set_node(fact)
        self.gone += [self.nodes[fact.name]] if fact.name in self.nodes else []
        self.nodes[fact.name] = fact

    def no_node(self, name) -> None:
        self.gone += [self.nodes[name]] if name in self.nodes else []
        self.queues.remove_node(name)
        self.nodes.pop(name, None)

    def queue(self, fact) -> None:
        self.queues.set_queue(fact)
        self.facts[fact.name] = fact

    def no_queue(self, name) -> None:
        self.queues.remove_queue(name)
        self.facts.pop(name, None)

    def commit(self, group, queue, cpus) -> None:
        self.queues.commit(f"ns/g{group}", queue, {"cpu": 1000 * cpus})
        self.commitments[group] = (queue, {"cpu": 1000 * cpus})

    def release_commitment(self, group) -> None:
        self.queues.release_commitment(f"ns/g{group}")
        self.commitments.pop(group, None)

    def look(self) -> None:
        self.queues.refresh()

    def new(self, *, forget: bool = False) -> Queues:
        """Return queues that know only what is present; with ``forget`` they forget placed pods."""
        queues = Queues(self.conf)
        # A resource that no node has any more is one of which the cluster has 0.
        for fact in self.gone:
            queues.set_node(fact)
            queues.remove_node(fact.name)
        for fact in self.nodes.values():
            queues.set_node(fact)
        for fact in self.facts.values():
            queues.set_queue(fact)
        for number, (fact, queue) in self.pods.items():
            queues.put(fact, queue, fact.group, self.claims.get(number))
            if self.held[number]:
                queues.hold(fact.uid)
                if forget:
                    queues.forget(fact.uid)
        for fact in self.others.values():
            queues.put_other(fact)
        for group, (queue, needs) in self.commitments.items():
            queues.commit(f"ns/g{group}", queue, needs)
        return queues


def seen(queues: Queues, scene: Scene) -> SimpleNamespace:
    """Return everything that the queues answer."""
    queues.refresh()
    known = {*scene.facts, *(queue for _, queue in scene.pods.values())}
    known |= {queue for queue, needs in scene.commitments.values() if any(needs.values())}
    names = [name for name in QUEUES if name in known]
    # Bounds of a queue that serves no pods mean nothing.
    serving = [name for name in names if not queues.unready and not queues.obstacle(name)]
    uids = [fact.uid for fact, queue in scene.pods.values() if queue in serving]
    return SimpleNamespace(
        unready=queues.unready,
        obstacles={name: queues.obstacle(name) for name in names},
        order=sorted(serving, key=queues.order),
        borrowing=sorted(serving, key=lambda name: queues.order(name, borrowing=True)),
        limits={(uid, how): queues.shortage(uid, borrowing=how) for uid in uids for how in (False, True)},
        committed=+queues.committed(),
        used={name: +queues.account(name).used for name in names},
        promised={name: +queues.account(name).promised for name in names},
        requested={name: +queues.account(name).requested for name in names},
        deserved={
            name: {each: round(amount, 6) for each, amount in queues.account(name).deserved.items() if amount}
            for name in serving
        },
        bounds={name: queues.account(name).bound for name in serving},
        groups={group: {k: v for k, v in queues.groups.allocated(f"ns/g{group}").items() if v} for group in (1, 2)},
        shares={group: queues.dominant_share(f"ns/g{group}") for group in (1, 2)},
        total=+queues.counting.total,
        profiles=queues.counting.profiles,
    )


CONFS = pytest.mark.parametrize(
    "conf", [PROPORTION, CAPACITY, TREE, PATHS, VOLCANO], ids=["proportion", "capacity", "tree", "paths", "volcano"]
)


@CONFS
@settings(max_examples=50)
@given(st.lists(actions, max_size=30))
def test_a_placed_pod_that_is_forgotten_still_counts(conf, history) -> None:
    scene = Scene(conf)
    for action in history:
        scene.play(*action)
    found = [seen(scene.new(forget=forget), scene) for forget in (False, True)]
    placed = {fact.uid for number, (fact, _) in scene.pods.items() if scene.held[number]}
    for each in found:
        each.limits = {key: limit for key, limit in each.limits.items() if key[0] not in placed}
    assert found[0] == found[1]


@CONFS
@settings(max_examples=100)
@given(st.lists(actions, max_size=30))
def test_accounts_after_any_history_are_those_of_new_ones(conf, history) -> None:
    scene = Scene(conf)
    for action in history:
        scene.play(*action)
    assert vars(seen(scene.queues, scene)) == vars(seen(scene.new(), scene))
    for number in list(range(6)):
        scene.drop(number)
    for group in (1, 2):
        scene.release_commitment(group)
    assert not +scene.queues.committed()
    assert [scene.queues.dominant_share(f"ns/g{group}") for group in (1, 2)] == [0.0, 0.0]
    scene.queues.refresh()
    assert set(scene.queues.names) <= {*scene.facts, "root"}, "accounts of queues that do not exist"


def test_only_pods_whose_amounts_depend_on_cards_are_counted_again_with_nodes_of_other_cards() -> None:
    queues = Queues(default_conf())
    for name, asked in {"cpu": ask(container(cpu=1000)), "part": vgpu(1, 10), "all": vgpu(1), "pair": vgpu(2)}.items():
        queues.put(pod(name, asked), "q", name)
    queues.put(pod("claimed", vgpu(1)), "q", "claimed", claimed(60))
    assert queues.set_node(node("a", cards(1, memory=100))) == {"all"}
    assert queues.set_node(node("b", cards(2, memory=100))) == {"pair"}
    assert queues.set_node(node("c", cards(2, memory=100))) == set()
    assert queues.set_node(node("c", cards(2, memory=50, model="T4"))) == set(), "not the largest cards"
    assert queues.set_node(node("c", cards(2, memory=200))) == {"all", "pair"}
    assert queues.remove_node("b") == set()
    assert queues.remove_node("c") == {"all", "pair"}
    assert queues.remove_node("a-that-never-was") == set()


def test_a_claimed_pod_counts_what_its_claim_gives_it_when_other_cards_come() -> None:
    queues = Queues(default_conf())
    queues.set_node(node("a", cards(1, memory=60)))
    fact = pod("p", vgpu(1))
    queues.put(fact, "q", fact.group, claimed(60))
    queues.hold(fact.uid)
    queues.set_node(node("b", cards(1, memory=100)))
    assert queues.account("q").used[MEMORY] == 60
    queues.release(fact.uid)
    queues.hold(fact.uid)
    assert queues.account("q").used[MEMORY] == 100, "the claim is gone"


def test_a_queue_is_saturated_once_its_other_pods_are_gone() -> None:
    """In drf's hierarchy: it has all that it requests, until more is requested."""
    queues = Queues(PATHS)
    queues.set_node(node("n", cpu=8000))
    queues.set_queue(QueueFact(name="q", hierarchy=(("x", 1.0),)))
    has, waits = (pod(name, ask(container(cpu=1000)), gang="g") for name in ("has", "waits"))

    def saturated() -> bool:
        queues.refresh()
        return queues.order("q")[0].levels[0][0]

    assert saturated(), "it requests nothing"
    for fact in (has, waits):
        queues.put(fact, "q", fact.group)
    queues.hold(has.uid)
    assert not saturated()
    queues.drop(waits.uid)
    assert saturated()
    queues.put(waits, "q", waits.group)
    assert not saturated()
    queues.hold(waits.uid)
    assert saturated()
    queues.release(has.uid)
    assert not saturated()


def test_a_path_counts_what_its_queue_has_already() -> None:
    queues = Queues(PATHS)
    queues.set_node(node("n", cpu=8000, memory=2**30))
    fact = pod("p", ask(container(cpu=2000)), gang="g")
    queues.put(fact, "q", fact.group)
    queues.hold(fact.uid)
    for path, weight in (("x", 1.0), ("y", 2.0)):
        queues.set_queue(QueueFact(name="q", hierarchy=((path, weight),)))
        queues.refresh()
        assert queues.order("q")[0].levels == ((True, 0.25 / weight),)
