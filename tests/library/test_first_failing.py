"""Each node counts once, under its first failing check; all numbers equal those of one card at a time."""

from random import Random

import hypothesis.strategies as st
from deviceshare.allocation import Allocator, Unplaceable, lasts
from deviceshare.model import ContainerGrant, DeviceGrant, NodeFact, PodRequest, Taint, Toleration, unavailable
from hypothesis import given, settings
from msgspec.structs import replace
from support.builders import (
    MEMORY,
    NUMBER,
    ask,
    card,
    cluster,
    conf,
    container,
    node,
    share,
    share_cards,
    take,
    vgpu,
    whole,
)
from support.mig import A30, A100_40, DOCS, mig_card
from support.plain_diagnosis import GEOMETRIES, Counted, Held, Key, PlainDiagnosis

NAMES = ("a", "b", "c", "d", "e")
MODELS = ("NVIDIA-T4", "NVIDIA-L4")
BLUE, RED = Taint("team", "blue", "NoSchedule"), Taint("owner", "red", "NoExecute")


def random_node(chance: Random, name: str) -> NodeFact:
    """Return a node with cards of one family, or vGPUs of several modes."""
    cards: list = []
    match chance.randrange(8):
        case 0:
            cards = list(share_cards(chance.randint(1, 4), memory=chance.choice((0, 0, 40000)), unhealthy={0}))
        case 1 | 2:
            cards = list(share_cards(chance.randint(1, 4), memory=chance.choice((0, 16384, 40000))))
        case 3:
            pass
        case _:
            modes = chance.choice((["hami-core"], ["hami-core"], ["mps"], ["mig"], ["hami-core", "mig", "mps"]))
            for at in range(chance.randint(1, 4)):
                mode, slots = chance.choice(modes), chance.choice((1, 2, 5))
                model = chance.choice((A30, A100_40, A100_40, "NVIDIA-unknown"))
                one = (
                    mig_card(at, model, node=name, slots=slots, memory=0 if model in GEOMETRIES else 9000)
                    if mode == "mig"
                    else card(at, memory=chance.choice((16000, 40001)), slots=slots, mode=mode, node=name,
                              model=chance.choice(MODELS))
                )  # fmt: skip
                cards.append(replace(one, healthy=chance.random() > 0.15))
    rooms = {"example.com/x": 2} if chance.random() < 0.3 else {}
    taints = [each for each in (BLUE, RED) if chance.random() < 0.12]
    return node(
        name, cards, cpu=chance.choice((1000, 9000)), pods=chance.choice((1, 9, 9)), taints=taints,
        labels={"pool": chance.choice(("x", "y", "y"))}, ready=chance.random() > 0.08,
        unschedulable=chance.random() < 0.08, **rooms,
    )  # fmt: skip


def random_holdings(chance: Random, nodes: list[NodeFact]) -> list[Held]:
    """Return pods that hold parts of cards, some of them more than there is."""
    found = []
    for number in range(chance.randrange(12)):
        fact = chance.choice(nodes)
        devices: tuple[DeviceGrant, ...] = ()
        family = "hami-core"
        if fact.cards and chance.random() < 0.9:
            on = chance.choice(fact.cards)
            family = on.mode
            detail, memory = "", chance.choice((1000, 8192, 20000))
            if on.mode == "mig":
                if on.type not in GEOMETRIES:
                    continue
                group = chance.choice(list(GEOMETRIES[on.type]))
                detail = f"{group}-{chance.randrange(len(GEOMETRIES[on.type][group]))}"
                taken = {(each.node, device.id, device.detail) for each in found for grant in each.grants
                         for device in grant.devices}  # fmt: skip
                if (fact.name, on.id, detail) in taken:
                    continue
            if on.mode == "gpu-share" and not on.memory:
                family, memory = "gpu-number", 0
            cores = chance.choice((0, 30, 100)) if on.mode != "gpu-share" else 0
            devices = (DeviceGrant(on.id, on.index, memory, cores, detail),)
        grants = (ContainerGrant("c0", 0, family, devices),) if devices else ()
        found.append(Held(fact.name, f"p{number}", grants, (("cpu", chance.choice((0, 500))),)))
    return found


def random_request(chance: Random) -> PodRequest:
    wishes: dict[str, str] = {}
    if chance.random() < 0.15:
        wishes["nvidia.com/use-gputype"] = chance.choice(("T4", "L4"))
    if chance.random() < 0.1:
        wishes["volcano.sh/gpu-index"] = "0,2"
    match chance.randrange(8):
        case 0:
            what = share(chance.choice((9000, 17000, 50000)))
        case 1:
            what = whole(chance.choice((1, 2, 3, 5)))
        case 2:
            what = ask(container(cpu=chance.choice((800, 9999))))
        case _:
            if chance.random() < 0.3:
                wishes["volcano.sh/vgpu-mode"] = chance.choice(("hami-core", "mig", "mps"))
            memory = chance.choice((None, 3000, 9000, 15000, 20000, 30000))
            percentage = chance.choice((None, 33, 60, 100)) if memory is None else None
            # Which instances the containers of one pod get is not a subject here.
            several = wishes.get("volcano.sh/vgpu-mode") in ("hami-core", "mps")
            what = vgpu(
                chance.choice((None, 1, 2, 2, 3, 5)) if memory or percentage else chance.choice((1, 2)), memory,
                chance.choice((None, 20, 60, 100)), percentage, containers=chance.choice((1, 2, 3)) if several else 1,
            )  # fmt: skip
            if chance.random() < 0.15:
                wishes["volcano.sh/vgpu-use-gpuuuid"] = "GPU-a0,GPU-b1,GPU-c0"
    resources = dict(what.containers[0].resources)
    resources |= {"cpu": chance.choice((100, 700))} if chance.random() < 0.4 else {}
    resources |= {chance.choice(("example.com/x", "example.com/y")): 1} if chance.random() < 0.1 else {}
    first = replace(what.containers[0], resources=tuple(sorted(resources.items())))
    return replace(
        what,
        containers=(first, *what.containers[1:]),
        annotations=tuple(sorted({**dict(what.annotations), **wishes}.items())),
        node_selector=(("pool", "y"),) if chance.random() < 0.2 else (),
        tolerations=(Toleration("team", "Exists", "", ""),) if chance.random() < 0.3 else (),
    )


def numbers_of(why: Unplaceable) -> dict[Key, Counted]:
    """Return the first failing checks with their numbers; those that differ only by text (taints, types) are merged."""
    found: dict[Key, Counted] = {}
    for each in why.first_failing:
        key = Key(each.code, "index" if "gpu-index" in each.text else "", each.asked, each.needed)
        new = Counted(each.nodes, each.nearest, each.free, each.left, each.considered, each.excluded, each.cards)
        known = found.get(key)
        if known is not None:
            best = min(known, new, key=lambda one: (-one.left, -one.free, one.nearest))
            new = best._replace(
                nodes=new.nodes + known.nodes, excluded=new.excluded + known.excluded, cards=new.cards + known.cards
            )
        found[key] = new
    return found


def compare(chance: Random) -> int:
    """Compare the explanations of some requests in a random cluster; return their number."""
    policy, on_shared = chance.choice(("", "binpack", "spread")), chance.random() < 0.3
    allocator = Allocator(replace(conf(policy), devices=DOCS, number_on_shared_nodes=on_shared))
    nodes = [random_node(chance, name) for name in NAMES[: chance.randint(1, len(NAMES))]]
    held = random_holdings(chance, nodes)
    for fact in nodes:
        allocator.set_node(fact)
    for each in held:
        allocator.hold(each.node, each.uid, each.grants, each.resources)
    plain = PlainDiagnosis(nodes, held, policy, whole_on_shared=on_shared)
    explained = 0
    for what in [random_request(chance) for _ in range(4)]:
        if allocator.place(what) is not None:
            assert any(plain.failure(fact, what) is None for fact in nodes)
            continue
        why = allocator.why_not(what)
        assert why.problem is None
        assert sum(each.nodes for each in why.first_failing) == len(nodes)
        assert numbers_of(why) == plain.first_failing(what), (what, nodes, held)
        explained += 1
    return explained


def test_the_numbers_of_2000_random_explanations_equal_those_of_one_card_at_a_time() -> None:
    explained = 0

    @settings(max_examples=800, deadline=None)
    @given(chance=st.randoms(use_true_random=True))
    def search(chance: Random) -> None:
        nonlocal explained
        explained += compare(chance)

    search()
    assert explained >= 2000


def test_a_node_with_a_lasting_first_failing_check_takes_the_pod_neither_with_nor_without_others() -> None:
    lasting = ended = 0
    for seed in range(1500):
        chance = Random(seed)
        nodes = [random_node(chance, "a")]
        full, empty = Allocator(replace(conf(), devices=DOCS)), Allocator(replace(conf(), devices=DOCS))
        for fact in nodes:
            full.set_node(fact)
            empty.set_node(fact)
        for each in random_holdings(chance, nodes):
            full.hold(each.node, each.uid, each.grants, each.resources)
        what = random_request(chance)
        if full.place(what) is not None:
            continue
        (first,) = full.why_not(what).first_failing
        if lasts(first):
            assert empty.place(what) is None, (seed, first)
            lasting += 1
        else:
            ended += empty.place(what) is not None
    assert lasting > 100
    assert ended > 100


def message(allocator: Allocator, what: PodRequest) -> str:
    """Return what a user reads in the condition of the pod."""
    assert allocator.place(what) is None
    why = allocator.why_not(what)
    return unavailable(why.nodes, why.first_failing)


def test_two_cards_are_needed_and_one_of_two_has_the_memory() -> None:
    one = cluster(node("n1", [card(0), card(1)]))
    take(one, vgpu(1, 24734), "u")
    assert message(one, vgpu(2, 20000)) == (
        "0/1 nodes are unavailable: 1 Insufficient volcano.sh/vgpu-memory on a card (2 cards with 20000 MiB each are "
        "needed; 1 of 2 has that; at most 8034 MiB free on each of 2, 11966 MiB missing)."
    )


def test_two_cards_are_needed_and_the_node_has_one() -> None:
    text = message(cluster(node("n1", [card(0)])), vgpu(2, 90000))
    assert "on each of 2" not in text
    why = cluster(node("n1", [card(0)])).why_not(vgpu(2, 90000))
    assert not any("on each of 2" in refusal.line for refusal in why.refusals)


def test_the_nodes_that_got_furthest_lead_and_each_counts_once() -> None:
    six = cluster(
        node("no-cards"),
        node("cordoned", [card(0, memory=100, node="a", healthy=False)], unschedulable=True, taints=[BLUE, RED]),
        node("tainted", [card(0, memory=100, node="b")], taints=[BLUE, RED], cpu=1),
        node("no-cpu", [card(0, memory=100, node="c")], cpu=10),
        node("no-cpu-either", cpu=900),
        node("full", [card(0, memory=100, node="d"), card(1, node="d", healthy=False)]),
    )
    what = ask(container(**{"cpu": 1000, NUMBER: 1, MEMORY: 200}))
    assert message(six, what) == (
        "0/6 nodes are unavailable: 1 Insufficient volcano.sh/vgpu-memory on a card (asked 200 MiB, at most 100 MiB "
        "free, 100 MiB missing; 1 other card fails earlier checks), 1 node(s) had no vGPU cards, 2 Insufficient cpu "
        "(asked 1, at most 900m free, 100m missing), 1 node(s) had untolerated taint {team: blue}, 1 node(s) were "
        "unschedulable."
    )
    everything = {each.code: each.nodes for each in six.why_not(what).refusals}
    assert everything["CardInsufficientMemory"] == 3
    assert sum(everything.values()) > 6, "a node counts under every check that it fails"


def test_a_node_that_one_family_suits_has_no_reasons_of_another() -> None:
    both = cluster(node("n1", [card(0, memory=100), card(1, mode="mps")], cpu=10))
    what = ask(container(**{"cpu": 1000, NUMBER: 1, MEMORY: 200}))
    assert [each.code for each in both.why_not(what).refusals] == ["InsufficientResource"]


def test_the_family_that_got_furthest_counts() -> None:
    both = cluster(node("n1", [card(0, healthy=False), card(1, memory=100, mode="mps")]))
    assert [each.code for each in both.why_not(vgpu(1, 200)).first_failing] == ["CardInsufficientMemory"]


def test_nodes_of_cordoned_cards_are_behind_one_whose_cards_are_full() -> None:
    cordoned = [node(name, [replace(card(0, node=name), cordoned=True)]) for name in ("a", "b")]
    three = cluster(*cordoned, node("full", [card(0, memory=100)]))
    codes = [refusal.code for refusal in three.why_not(vgpu(1, 200)).first_failing]
    assert codes == ["CardInsufficientMemory", "CardCordoned"]
