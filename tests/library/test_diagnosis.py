"""Why not, in numbers: counted over nodes, and in full for the nodes and cards that come closest."""

from deviceshare.allocation.diagnosis import CLOSEST
from deviceshare.model import NearCard, NearNode, Taint
from support.builders import ask, card, cluster, codes, container, node, share_cards, take, vgpu, whole_cards

MEMORY = "volcano.sh/vgpu-memory"


def closest(allocator, what) -> tuple[NearNode, ...]:
    assert allocator.place(what) is None
    return allocator.why_not(what).closest


def lacks(near: NearNode) -> dict[str, tuple[int, int, str, int]]:
    """Return asked, free, unit and failing cards, by code."""
    return {each.code: (each.asked, each.free, each.unit, each.cards) for each in near.refusals}


def test_the_node_that_lacks_least_comes_first_with_all_that_it_lacks() -> None:
    three = cluster(
        node("a"),
        node("b", [card(0, memory=1000, node="b"), card(1, memory=600, node="b", healthy=False)]),
        node("c", [card(0, memory=1500, node="c")]),
        node("d", [card(0, memory=1500, node="d")], taints=[Taint("team", "blue", "NoSchedule")]),
    )
    near = closest(three, vgpu(1, 2000))
    assert [each.node for each in near] == ["c", "b", "d"], "a, which has no GPUs, is the farthest"
    assert lacks(near[0]) == {"CardInsufficientMemory": (2000, 1500, "MiB", 1)}
    assert lacks(near[2]) == {"TaintNotTolerated": (0, 0, "", 0), "CardInsufficientMemory": (2000, 1500, "MiB", 1)}
    assert lacks(near[1]) == {"CardNotHealth": (0, 0, "", 1), "CardInsufficientMemory": (2000, 1000, "MiB", 1)}


def test_of_several_cards_the_node_that_lacks_fewer_comes_first_and_says_how_many_pass() -> None:
    full = [card(at, memory=2000, node="a") for at in range(7)]
    almost = [card(at, memory=1990, node="b") for at in range(8)]
    sick = [card(at, memory=2000, node="c", healthy=at > 1) for at in range(8)]
    few = [card(at, memory=2000, node="d") for at in range(2)]
    nodes = (node("a", [*full, card(7, memory=100, node="a")]), node("b", almost), node("c", sick), node("d", few))
    near = closest(cluster(*nodes), vgpu(8, 2000))
    assert [each.node for each in near] == ["a", "c", "d"]
    assert [each.line for each in near[0].refusals] == [
        "1 Insufficient volcano.sh/vgpu-memory on a card "
        "(8 cards with 2000 MiB each are needed; 7 of 8 have that; at most 100 MiB free on each of 8, 1900 MiB missing)"
    ]
    assert near[1].refusals[0].line == "1 node(s) had unhealthy cards (8 cards are needed; 6 of 8 left)"
    near = closest(cluster(nodes[1], nodes[3]), vgpu(8, 2000))
    assert [each.node for each in near] == ["d", "b"]


def test_an_amount_of_memory_in_bytes_gets_a_hint() -> None:
    one = cluster(node("a"))
    assert one.why_not(vgpu(1, 2**31)).caveats[0].endswith("(did you mean '2048'?)")
    assert one.why_not(vgpu(1, 90000)).caveats == ()


def test_free_amounts_are_those_of_nodes_that_the_pod_may_use() -> None:
    blue = (("team", "blue"),)
    two = cluster(
        node("a", [card(0, memory=500, node="a")], labels={"team": "blue"}), node("b", [card(0, memory=1990, node="b")])
    )
    what = ask(container(**{"volcano.sh/vgpu-number": 1, MEMORY: 2000}), node_selector=blue)
    (memory,) = (each for each in two.why_not(what).refusals if each.code == "CardInsufficientMemory")
    assert (memory.nodes, memory.free, memory.nearest) == (2, 500, "a")
    assert [each.node for each in closest(two, what)] == ["a", "b"]
    two.remove_node("a")
    (memory,) = (each for each in two.why_not(what).refusals if each.code == "CardInsufficientMemory")
    assert (memory.nodes, memory.free, memory.nearest) == (1, 1990, "b")


def test_each_card_says_what_is_left_of_it_and_every_check_that_it_fails() -> None:
    cards = [card(0, memory=1000), card(1, memory=900, model="NVIDIA T4"), card(2, memory=4000, healthy=False)]
    one = cluster(node("n1", [*cards, card(3, memory=4000, slots=1)]))
    take(one, vgpu(1, 700, 30, annotations={"volcano.sh/vgpu-use-gpuuuid": "GPU-3"}), "sharer")
    (near,) = closest(one, vgpu(1, 1200, annotations={"nvidia.com/use-gputype": "V100"}))
    assert near.cards == (
        NearCard(id="GPU-0", index=0, codes=("CardInsufficientMemory",), memory=1000, cores=100, slots=10),
        NearCard(id="GPU-1", index=1, codes=("CardTypeMismatch",), memory=900, cores=100, slots=10),
        NearCard(id="GPU-2", index=2, codes=("CardNotHealth",), memory=4000, cores=100, slots=10),
        NearCard(id="GPU-3", index=3, codes=("CardTimeSlicingExhausted",), memory=3300, cores=70, slots=0),
    )


def test_the_number_of_nodes_in_detail_is_bounded() -> None:
    many = cluster(*(node(f"n{at:02}", [card(0, memory=100 + at, node=str(at))]) for at in range(20)))
    why = many.why_not(vgpu(1, 500))
    assert [near.node for near in why.closest] == [f"n{at}" for at in range(19, 19 - CLOSEST, -1)]
    (refusal,) = why.refusals
    assert (refusal.nodes, refusal.free, refusal.nearest) == (20, 119, "n19")


def test_nodes_of_several_families_that_lack_the_same_are_counted_together() -> None:
    three = cluster(
        node("a", [card(0, memory=100)]), node("b", [card(0, memory=200)]), node("c", [card(0, memory=300, mode="mps")])
    )
    (refusal,) = three.why_not(vgpu(1, 500)).refusals
    assert (refusal.code, refusal.nodes, refusal.free, refusal.nearest, refusal.cards) == (
        "CardInsufficientMemory", 3, 300, "c", 3,
    )  # fmt: skip


def test_without_devices_no_cards_are_listed() -> None:
    (near,) = closest(cluster(node("n1", share_cards(2), cpu=1000)), ask(container(cpu=2000)))
    assert (lacks(near), near.cards) == ({"InsufficientResource": (2000, 1000, "millicores", 0)}, ())


def test_what_forbids_every_node_names_none() -> None:
    why = cluster(node("n1")).why_not(ask(container(), unsupported=("spec.resourceClaims",)))
    assert (why.closest, [refusal.code for refusal in why.refusals]) == ((), ["NotEvaluated"])
    assert cluster().why_not(vgpu()).closest == ()


def test_whole_cards_in_use_are_listed_by_card() -> None:
    one = cluster(node("n1", whole_cards(3)))
    take(one, ask(container(**{"volcano.sh/gpu-number": 1})), "owner")
    what = ask(container(**{"volcano.sh/gpu-number": 3}))
    (near,) = closest(one, what)
    assert lacks(near) == {"NodeInsufficientDevice": (3, 2, "", 1)}
    assert [each.codes for each in near.cards] == [("NodeInsufficientDevice",), (), ()]
    assert codes(one, what) == {"NodeInsufficientDevice"}
