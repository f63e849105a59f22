"""gpu-share and gpu-number: parts of cards and whole cards of one node, side by side."""

import pytest
from deviceshare.families import BY_NAME
from deviceshare.model import PodRequest
from msgspec.structs import replace
from support.builders import (
    SHARE,
    WHOLE_CARDS,
    ask,
    chosen,
    claim_of,
    cluster,
    codes,
    container,
    devices,
    node,
    share,
    share_cards,
    take,
    whole,
    whole_cards,
)  # fmt: skip


def written(placement, family: str) -> dict[str, str]:
    return BY_NAME[family].annotations(claim_of(placement), placement.node, ["main"], 1.5)


def test_two_pods_of_the_guide_share_one_card_and_see_their_part() -> None:
    two = cluster(node(cards=share_cards(2, memory=11178)))
    first, second = take(two, share(1024), "a"), take(two, share(1024), "b")
    assert chosen(first) == chosen(second) == [0]
    (grant,) = second.grants
    assert BY_NAME["gpu-share"].environment(grant, share_cards(1, memory=11178)) == {
        "NVIDIA_VISIBLE_DEVICES": "0",
        "VOLCANO_GPU_ALLOCATED": "1024",
        "VOLCANO_GPU_MEMORY_TOTAL": "11178",
    }


def test_what_is_written() -> None:
    three = cluster(node(cards=share_cards(3)))
    time = {"volcano.sh/predicate-time": "1500000000"}
    assert written(three.place(share(1)), "gpu-share") == {"volcano.sh/gpu-index": "0", **time}
    number = cluster(node(cards=whole_cards(3)))
    assert written(number.place(whole(2)), "gpu-number") == {"volcano.sh/gpu-index": "0,1", **time}


@pytest.mark.parametrize(("policy", "expected"), [("", 0), ("binpack", 1), ("spread", 2)])
def test_the_policy_chooses_the_card(policy, expected) -> None:
    three = cluster(node(cards=share_cards(3)), policy=policy)
    for index, memory in ((0, 100), (1, 500)):
        take(three, share(memory, index=str(index)), f"h{index}")
    assert chosen(three.place(share(10))) == [expected]


def test_one_card_must_have_all_the_memory() -> None:
    two = cluster(node(cards=share_cards(2, memory=1000)))
    assert chosen(two.place(share(1000))) == [0]
    (refusal,) = two.why_not(share(1001)).refusals
    assert refusal.line == (
        "1 Insufficient volcano.sh/gpu-memory on one card "
        "(asked 1001 MiB, the largest card that the pod may use has 1000 MiB)"
    )


def test_containers_are_summed_on_one_card() -> None:
    two = cluster(node(cards=share_cards(2, memory=1000)))
    both = ask(container("a", **{SHARE: 600}), container("b"), container("c", **{SHARE: 300}))
    assert devices(two.place(both)) == [("0", 600, 0), ("0", 300, 0)]


@pytest.mark.parametrize(
    ("inits", "taken"),
    [
        ([("i", 800, False)], 800),
        ([("i", 800, False), ("j", 900, False)], 900),
        ([("i", 250, False)], 300),
        ([("s", 250, True)], 550),
        ([("s", 250, True), ("i", 540, False)], 550),
        ([("i", 560, False), ("s", 250, True)], 560),
    ],
)
def test_a_card_is_charged_the_largest_init_container_or_the_sum_of_all_others(inits, taken) -> None:
    two = cluster(node(cards=share_cards(2, memory=1000)))
    first = tuple(container(name, sidecar=sidecar, **{SHARE: amount}) for name, amount, sidecar in inits)
    what = ask(container("a", **{SHARE: 300}), init_containers=first)
    placement = take(two, what, "pod")
    assert two.used_cards("n1")[0].memory == taken
    asked = {"a": 300} | {name: amount for name, amount, _ in inits}
    assert {grant.container: grant.devices[0].memory for grant in placement.grants} == asked
    assert two.place(share(1000 - taken + 1, index="0")) is None
    assert two.place(share(1000 - taken, index="0")) is not None


def test_an_init_container_has_the_first_of_the_pods_whole_cards_and_a_sidecar_has_its_own() -> None:
    first = (container("i", **{WHOLE_CARDS: 3}), container("s", sidecar=True, **{WHOLE_CARDS: 1}))
    four = cluster(node(cards=whole_cards(4)))
    placement = take(four, ask(container("a", **{WHOLE_CARDS: 1}), init_containers=first), "pod")
    assert [(grant.container, grant.stage, [each.index for each in grant.devices]) for grant in placement.grants] == [
        ("a", "", [0]),
        ("s", "sidecar", [1]),
        ("i", "init", [0, 1, 2]),
    ]
    assert written(placement, "gpu-number")["volcano.sh/gpu-index"] == "0,1,2"
    assert [used.cores for used in four.used_cards("n1")] == [100, 100, 100, 0]


@pytest.mark.parametrize("family", ["gpu-share", "gpu-number"])
@pytest.mark.parametrize("sidecar", [False, True])
def test_held_is_the_inverse_of_annotations_with_init_containers(family, sidecar) -> None:
    resource, amount = (SHARE, 100) if family == "gpu-share" else (WHOLE_CARDS, 1)
    before = container("i", sidecar=sidecar, **{resource: 3 * amount})
    what = ask(container("a", **{resource: amount}), init_containers=(before,))
    four = cluster(node(cards=share_cards(4) if family == "gpu-share" else whole_cards(4)))
    placement = four.place(what)
    held = BY_NAME[family].held(written(placement, family), what, "ns/a")
    four.hold("n1", "placed", placement.grants, ())
    charged = four.used_cards("n1")
    four.release("n1", "placed")
    four.hold("n1", "held", held, ())
    assert four.used_cards("n1") == charged


def test_a_node_whose_plugin_shares_memory_gives_no_whole_cards() -> None:
    """kubelet knows no plugin for them there: the container would run without a GPU."""
    both = cluster(node("a", share_cards(2)), node("b", whole_cards(1)))
    assert take(both, whole(1), "first").node == "b"
    assert [(refusal.code, refusal.line) for refusal in both.why_not(whole(1)).refusals] == [
        (
            "ModeNotFit",
            "1 node(s) had a device plugin that shares volcano.sh/gpu-memory and does not serve volcano.sh/gpu-number",
        ),
        ("NodeInsufficientDevice", "1 Insufficient volcano.sh/gpu-number (asked 1, at most 0 free, 1 missing)"),
    ]
    assert cluster(node("a", share_cards(2)), number_on_shared_nodes=True).place(whole(1)).node == "a"


def test_whole_cards_of_a_shared_node_are_unused_and_exclusive() -> None:
    three = cluster(node(cards=share_cards(3, memory=1000)), number_on_shared_nodes=True)
    take(three, share(1), "sharer")
    assert chosen(take(three, whole(1), "owner")) == [1]
    assert chosen(take(three, share(1000), "other")) == [2]
    (refusal,) = three.why_not(whole(2)).refusals
    assert refusal.line == "1 Insufficient volcano.sh/gpu-number (asked 2, at most 0 free, 2 missing)"
    three.release("n1", "owner")
    assert chosen(three.place(whole(1))) == [1]


def test_containers_take_whole_cards_in_turn() -> None:
    what = ask(container("a", **{WHOLE_CARDS: 1}), container("b", **{WHOLE_CARDS: 2}))
    placement = cluster(node(cards=whole_cards(4))).place(what)
    assert [(grant.container, [each.index for each in grant.devices]) for grant in placement.grants] == [
        ("a", [0]),
        ("b", [1, 2]),
    ]


def test_a_pod_may_choose_its_cards() -> None:
    four = cluster(node(cards=share_cards(4)))
    assert chosen(four.place(share(1, index="2,3"))) == [2]
    number = cluster(node(cards=whole_cards(4)))
    assert chosen(number.place(whole(2, index="3,1"))) == [1, 3]
    assert "CardUuidMismatch" in codes(number, whole(2, index="3"))
    assert four.why_not(share(1, index="two")).problem.field == "metadata.annotations[volcano.sh/gpu-index]"


@pytest.mark.parametrize("named", ["0", "GPU-0,0", " 0 , 1"])
def test_a_pod_may_exclude_cards_as_a_node_does(named) -> None:
    four = cluster(node(cards=share_cards(4)))
    excluding = ask(container(**{SHARE: 1}), annotations={"volcano.sh/gpu-unhealthy-ids": named})
    assert chosen(four.place(excluding)) == [2 if "1" in named else 1]
    all_of_them = ask(container(**{SHARE: 1}), annotations={"volcano.sh/gpu-unhealthy-ids": "0,1,2,3"})
    (refusal,) = four.why_not(all_of_them).refusals
    assert (refusal.code, refusal.line) == ("CardUuidMismatch", "1 node(s) had cards that the pod excludes: 0,1,2,3")


def test_what_a_pod_excludes_it_does_not_get_though_it_chose_it() -> None:
    wishes = {"volcano.sh/gpu-index": "2,3", "volcano.sh/gpu-unhealthy-ids": "2"}
    assert chosen(cluster(node(cards=share_cards(4))).place(ask(container(**{SHARE: 1}), annotations=wishes))) == [3]


@pytest.mark.parametrize("resource", [SHARE, WHOLE_CARDS])
def test_a_pod_may_choose_among_models(resource) -> None:
    models = {"a": "NVIDIA-A100-SXM4-40GB", "b": "Tesla-T4", "c": ""}
    (card,) = share_cards(1) if resource == SHARE else whole_cards(1)
    three = cluster(*(node(name, [replace(card, type=model)]) for name, model in models.items()))

    def asking(use: str = "", nouse: str = "") -> PodRequest:
        wishes = {"nvidia.com/use-gputype": use, "nvidia.com/nouse-gputype": nouse}
        return ask(container(**{resource: 1}), annotations=wishes)

    def where(use: str = "", nouse: str = "") -> str:
        return three.place(asking(use, nouse)).node

    assert (where(use="T4"), where(use="tesla,a100"), where(nouse="A100"), where(nouse="A100,T4")) == (
        "b",
        "a",
        "b",
        "c",
    )
    asked = "nvidia.com/use-gputype A100,T4 and nvidia.com/nouse-gputype A100,T4"
    assert [refusal.line for refusal in three.why_not(asking("A100,T4", "A100, T4")).refusals] == [
        f"2 node(s) had cards of type NVIDIA-A100-SXM4-40GB, Tesla-T4 for {asked}",
        f"1 node(s) had cards of unknown type for {asked}",
    ]


def test_unhealthy_cards_are_never_allocated() -> None:
    two = cluster(node(cards=share_cards(2, unhealthy=[0])))
    assert chosen(two.place(share(1))) == [1]
    number = cluster(node(cards=whole_cards(2, unhealthy=[0])))
    assert chosen(number.place(whole(1))) == [1]
    assert "CardNotHealth" in codes(number, whole(2))


def test_one_pod_requests_one_of_the_two() -> None:
    what = ask(container(**{SHARE: 1, WHOLE_CARDS: 1}))
    assert "either volcano.sh/gpu-number or volcano.sh/gpu-memory" in (
        cluster(node(cards=share_cards(2))).why_not(what).problem.expected
    )


@pytest.mark.parametrize("policy", ["", "binpack", "spread"])
@pytest.mark.parametrize("what", [share(1), whole(1)])
def test_a_cluster_without_cards_gives_its_reason(policy, what) -> None:
    assert codes(cluster(node(), policy=policy), what) == {"CardNotFound"}


@pytest.mark.parametrize(("policy", "expected"), [("binpack", "aaaa"), ("spread", "abab")])
@pytest.mark.parametrize(("what", "cards"), [(share(100), share_cards(4)), (whole(1), whole_cards(4))])
def test_the_policy_chooses_the_node(policy, expected, what, cards) -> None:
    both = cluster(*(node(name, cards) for name in "ab"), policy=policy)
    assert "".join(take(both, what, f"p{at}").node for at in range(4)) == expected


def test_more_cards_than_any_node_has_are_refused_before_anybody_looks():
    allocator = cluster(node(cards=share_cards(8)))
    assert allocator.place(whole(10**9)) is None
    assert str(allocator.why_not(whole(10**9)).problem) == (
        "Pod: spec: cards of gpu-number: '1000000000' is not valid: expected at most 128 of one node: "
        "more pods, of a gang"
    )
