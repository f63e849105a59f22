"""hami-core vGPU: which cards a pod gets, and why none."""

import pytest
from deviceshare.families import BY_NAME, caveats
from deviceshare.model import ContainerGrant, DeviceGrant, unavailable
from support.builders import (
    MEMORY,
    NUMBER,
    ask,
    card,
    cards,
    chosen,
    claim_of,
    cluster,
    codes,
    container,
    devices,
    node,
    problem,
    take,
    vgpu,
)
from support.mig import read

FAMILY = BY_NAME["hami-core"]
USE, NOUSE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_ID, NOUSE_ID = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"


def test_the_annotations_of_the_guide() -> None:
    what = vgpu(1, 3000, 50)
    placement = cluster(node("gpu-1", cards(1))).place(what)
    assert FAMILY.annotations(claim_of(placement), "gpu-1", ["c0"], 1700000000.9) == {
        "volcano.sh/vgpu-node": "gpu-1",
        "volcano.sh/vgpu-time": "1700000000",
        "volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,3000,50:",
        "volcano.sh/devices-to-allocate": "GPU-0,NVIDIA,3000,50:",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1700000000",
    }


def test_a_container_without_a_request_has_an_empty_slot() -> None:
    what = ask(container("web"), container("model", **{NUMBER: 1}))
    placement = cluster(node(cards=cards(1, memory=100))).place(what)
    annotations = FAMILY.annotations(claim_of(placement), "n1", ["web", "model"], 1.0)
    assert annotations["volcano.sh/vgpu-ids-new"] == ";GPU-0,NVIDIA,100,0:"


def test_held_is_the_inverse_of_annotations() -> None:
    what = ask(container("web"), container("model", **{NUMBER: 2}))
    placement = cluster(node(cards=cards(2))).place(what)
    written = FAMILY.annotations(claim_of(placement), "n1", ["web", "model"], 1.0)
    (grant,) = FAMILY.held(written, what, "ns/a")
    assert (grant.container, grant.position) == ("model", 1)
    assert [(each.id, each.memory) for each in grant.devices] == [("GPU-1", 32768), ("GPU-0", 32768)]


def test_held_reads_pods_with_invalid_requests() -> None:
    odd = ask(container("a"), container("b", **{NUMBER: 0, "volcano.sh/vgpu-cores": 500}))
    (grant,) = FAMILY.held({"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,7,0:"}, odd, "ns/a")
    assert grant.container == "b"


REQUESTS = {
    "whole card": (vgpu(1), (32768, 0)),
    "number defaults to 1": (vgpu(None, 100), (100, 0)),
    "memory 0 is not set": (vgpu(1, 0), (32768, 0)),
    "percentage wins": (vgpu(1, 100, percentage=50), (16384, 0)),
    "floor": (vgpu(1, percentage=33), (10813, 0)),
    "percentage 0 is none": (vgpu(1, percentage=0), (32768, 0)),
    "percentage 0 beside memory": (vgpu(1, 100, percentage=0), (100, 0)),
    "cores alone": (vgpu(None, cores=20), (32768, 20)),
}


@pytest.mark.parametrize(("what", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_what_a_request_means(what, expected) -> None:
    ((_, memory, cores),) = devices(cluster(node(cards=cards(1))).place(what))
    assert (memory, cores) == expected


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (vgpu(1, 20000), vgpu(1, 12769), "CardInsufficientMemory"),
        (vgpu(1, 1, 60), vgpu(1, 1, 41), "CardInsufficientCore"),
        (vgpu(1, 1), vgpu(1, 1, 100), "ExclusiveDeviceAllocateConflict"),
        (vgpu(1, 1, 100), vgpu(1, 1), "CardComputeUnitsExhausted"),
    ],
)
def test_what_does_not_fit_beside(first, second, code) -> None:
    one = cluster(node(cards=cards(1)))
    take(one, first, "first")
    assert code in codes(one, second)


def test_what_just_fits_beside() -> None:
    one = cluster(node(cards=cards(1)))
    take(one, vgpu(1, 20000, 60), "first")
    take(one, vgpu(1, 12768, 40), "second")


def test_slots_limit_how_many_share() -> None:
    one = cluster(node(cards=cards(1, slots=2)))
    take(one, vgpu(1, 1), "a")
    take(one, vgpu(1, 1), "b")
    assert codes(one, vgpu(1, 1)) == {"CardTimeSlicingExhausted"}


def test_a_containers_devices_are_distinct_and_more_than_there_are_are_refused() -> None:
    four = cluster(node(cards=cards(4)))
    assert chosen(four.place(vgpu(4, 1))) == [3, 2, 1, 0]
    (refusal,) = four.why_not(vgpu(5, 1)).refusals
    assert refusal.line == "1 Insufficient volcano.sh/vgpu-number (asked 5, at most 4 usable, 1 missing)"
    assert four.place(vgpu(500, 1)) is None


def test_containers_may_share_a_card_and_see_each_other() -> None:
    one = cluster(node(cards=cards(1)))
    assert chosen(one.place(vgpu(1, 16384, containers=2))) == [0, 0]
    assert one.place(vgpu(1, 16385, containers=2)) is None


def test_cards_are_sorted_anew_for_each_container() -> None:
    assert chosen(cluster(node(cards=cards(2)), policy="spread").place(vgpu(1, 1, containers=3))) == [0, 1, 0]
    assert chosen(cluster(node(cards=cards(2)), policy="binpack").place(vgpu(1, 1, containers=3))) == [0, 0, 0]


@pytest.mark.parametrize(("policy", "expected"), [("", 3), ("binpack", 1), ("spread", 0)])
def test_the_policy_chooses_the_card(policy, expected) -> None:
    four = cluster(node(cards=cards(4)), policy=policy)
    for index, memory in enumerate((0, 900, 500, 1)):
        if memory:
            grants = (ContainerGrant("c0", 0, "hami-core", (DeviceGrant(f"GPU-{index}", index, memory, 0),)),)
            four.hold("n1", f"holder-{index}", grants, ())
    assert chosen(four.place(vgpu(1, 1))) == [expected]


@pytest.mark.parametrize("weight", [0, 1, 10])
def test_binpack_fills_a_node_and_spread_takes_an_empty_one(weight) -> None:
    nodes = [node(name, cards(2, node=name)) for name in "abc"]
    packed = cluster(*nodes, policy="binpack", weight=weight)
    assert [take(packed, vgpu(1, 1000), f"p{at}").node for at in range(4)] == ["a"] * 4
    spread = cluster(*nodes, policy="spread", weight=weight)
    assert [take(spread, vgpu(1, 1000), f"p{at}").node for at in range(6)] == [*"abc", *"abc"]


def test_a_score_is_added_up_card_by_card_as_volcano_does() -> None:
    one = cluster(node(cards=cards(8, memory=23034)), policy="binpack")
    take(one, vgpu(1, 14846), "before")
    assert one.place(vgpu(8, 4606)).score == 224.42476339324475  # recorded; added in pairs it is ...477


@pytest.mark.parametrize(("first", "more"), [(1000, 700), (4606, 999), (3000, 500)])
def test_a_score_is_added_up_over_all_containers(first, more) -> None:
    what = ask(container("a", **{NUMBER: 2, MEMORY: first}), container("b", **{NUMBER: 2, MEMORY: more}))
    total = 0.0
    for used in (first, first, first + more, first + more):
        total += 100.0 * (used / 23034)
    assert cluster(node(cards=cards(2, memory=23034)), policy="binpack").place(what).score == total


@pytest.mark.parametrize("shares", [0, 1, 2, 7])
def test_the_score_of_spread_is_100_by_one_more_than_the_shares_of_the_node(shares) -> None:
    one = cluster(node(cards=cards(2)), policy="spread")
    for at in range(shares):
        take(one, vgpu(1, 100), f"p{at}")
    assert one.place(vgpu(1, 100)).score == 100.0 / (1 + shares)


def test_spread_distinguishes_crowded_nodes_under_a_weight() -> None:
    both = cluster(*(node(name, cards(8, node=name, slots=100), pods=500) for name in "ab"), policy="spread", weight=1)
    placed = [take(both, vgpu(1, 1), f"p{at}").node for at in range(100)]
    assert placed == ["a", "b"] * 50


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({USE: "a10"}, {"A10"}),
        ({USE: "A100"}, {"A100"}),
        ({USE: "H100, a10"}, {"A10"}),
        ({USE: "A100,"}, {"A100"}),
        ({NOUSE: "A10"}, {"A100", "T4"}),
        ({USE: "A10,A100", NOUSE: "A10"}, {"A100"}),
        ({USE: "NVIDIA-NVIDIA A10"}, {"A10"}),
        ({USE: "A1"}, set()),
        ({USE_ID: " GPU-1 ,"}, {"A100"}),
        ({USE_ID: "GPU-1,GPU-2", NOUSE_ID: "GPU-1"}, {"T4"}),
        ({NOUSE_ID: "GPU"}, {"A10", "A100", "T4"}),
        ({"volcano.sh/vgpu-mode": "hami-core"}, {"A10", "A100", "T4"}),
    ],
)
def test_which_cards_a_pod_accepts(annotations, expected) -> None:
    models = ("A10", "A100", "T4")
    accepted = set()
    for only in range(3):
        # The others are full, so that only one card is left to accept or not.
        three = cluster(node(cards=[card(at, model=f"NVIDIA-NVIDIA {model}") for at, model in enumerate(models)]))
        for at in {0, 1, 2} - {only}:
            three.hold(
                "n1", f"h{at}", (ContainerGrant("c", 0, "hami-core", (DeviceGrant(f"GPU-{at}", at, -1, 0),)),), ()
            )
        if three.place(vgpu(1, 1, annotations=annotations)) is not None:
            accepted.add(models[only])
    assert accepted == expected


def test_the_mode_must_be_the_nodes() -> None:
    mixed = cluster(node("a", [card(0, node="a", mode="mig")]), node("b", [card(0, node="b")]))
    assert mixed.place(vgpu(1, 1)).node == "b"
    assert codes(mixed, vgpu(1, 1, annotations={"volcano.sh/vgpu-mode": "mps"})) == {"ModeNotFit"}
    assert problem(vgpu(annotations={"volcano.sh/vgpu-mode": "mics"})).expected == "one of hami-core, mig, mps"


@pytest.mark.parametrize(
    ("what", "field"),
    [
        (vgpu(0, 100), "spec.containers[c0].resources.limits[volcano.sh/vgpu-number]"),
        (vgpu(1, 1, 101), "spec.containers[c0].resources.limits[volcano.sh/vgpu-cores]"),
        (vgpu(1, percentage=101), "spec.containers[c0].resources.limits[volcano.sh/vgpu-memory-percentage]"),
    ],
)
def test_a_request_that_cannot_be_meant_names_its_field(what, field) -> None:
    assert problem(what).field == field


def test_memory_that_is_missing_is_counted_on_cards_that_lack_it() -> None:
    # The emptier card is out of slots; only the other one lacks memory.
    two = cluster(node(cards=[card(0, slots=0), card(1, memory=4000)]))
    take(two, vgpu(1, 3000), "holder")
    refusals = {refusal.code: refusal.line for refusal in two.why_not(vgpu(1, 2500)).refusals}
    assert refusals["CardInsufficientMemory"] == (
        "1 Insufficient volcano.sh/vgpu-memory on a card (asked 2500 MiB, at most 1000 MiB free, 1500 MiB missing)"
    )


def test_part_of_a_card_is_missing_in_percent() -> None:
    cards_of_two_sizes = cluster(node(cards=[card(0, memory=1000), card(1, memory=4000)]))
    take(cards_of_two_sizes, vgpu(2, 600), "holder")
    (refusal,) = cards_of_two_sizes.why_not(vgpu(2, percentage=50)).refusals
    assert refusal.line == (
        "1 Insufficient volcano.sh/vgpu-memory-percentage on a card "
        "(2 cards with 50% each are needed; at most 40% free, 10% missing)"
    )


def test_reasons_are_one_line_without_node_names() -> None:
    both = cluster(node("alpha", cards(2, memory=100, node="x")), node("beta"))
    why = both.why_not(vgpu(1, 101))
    assert unavailable(why.nodes, why.first_failing) == (
        "0/2 nodes are unavailable: "
        "1 Insufficient volcano.sh/vgpu-memory on a card "
        "(asked 101 MiB, the largest card that the pod may use has 100 MiB), "
        "1 node(s) had no vGPU cards."
    )


def test_the_environment_of_the_container() -> None:
    four = cluster(node(cards=cards(2)))
    (grant,) = four.place(vgpu(2, 3000, 50)).grants
    assert FAMILY.environment(grant, ()) == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-0",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "50",
    }


def test_vgpus_in_two_containers_come_with_a_warning() -> None:
    both = cluster(node(cards=cards(2))).place(ask(container("a", **{NUMBER: 1}), container("b", **{NUMBER: 1})))
    (caveat,) = caveats(both.grants)
    assert caveat == "vGPUs in 2 containers (a, b): the vGPU device plugin serves one container of a pod"
    one = cluster(node(cards=cards(2))).place(ask(container("a", **{NUMBER: 2})))
    assert caveats(one.grants) == ()


# Where Volcano goes wrong


def test_devices_released_by_a_gang_are_free_again() -> None:
    # Volcano keeps it for the rest of the session: what it gives back it looks up in annotations not written yet.
    one = cluster(node(cards=cards(1, memory=100)))
    take(one, vgpu(1, 60), "a")
    one.release("n1", "a")
    assert one.used_cards("n1") == [(0, 0, 0)]
    take(one, vgpu(1, 100), "b")


def test_a_query_charges_nothing() -> None:
    # Volcano's session keeps what it tried where the node's lock is not to be had.
    one = cluster(node(cards=cards(2, memory=100)))
    assert one.place(vgpu(2, 60)) is not None
    assert one.place(ask(container("a", **{MEMORY: 60}), container("b", **{MEMORY: 101}))) is None
    assert one.used_cards("n1") == [(0, 0, 0)] * 2


def test_two_containers_on_one_card_are_both_charged_after_a_restart() -> None:
    # Volcano counts the first, once it reads them from the annotation.
    one = cluster(node(cards=cards(1)))
    one.hold("n1", "a", read({"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,10,5:;GPU-0,NVIDIA,20,6:"}, vgpu()), ())
    assert one.used_cards("n1") == [(30, 11, 2)]


def test_the_number_0_takes_nothing_and_is_refused_beside_an_amount() -> None:
    # Volcano charges a card for it, and gives none.
    one = cluster(node(cards=cards(1)))
    assert one.place(vgpu(0)).grants == ()
    assert problem(vgpu(0, 100)).value == "0"


def test_a_card_is_known_by_its_whole_name() -> None:
    # Volcano takes the first card whose name is a part of the device's.
    one = cluster(node(cards=[card(at) for at in (1, 10)]))
    one.hold("n1", "a", read({"volcano.sh/vgpu-ids-new": "GPU-10,NVIDIA,10,5:"}, vgpu()), ())
    assert one.used_cards("n1") == [(0, 0, 0), (10, 5, 1)]


# What a pod holds


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("GPU-0,NVIDIA,1,0:", ["model"]),
        (";GPU-0,NVIDIA,1,0:", ["model"]),
        ("GPU-0,NVIDIA,1,0:;GPU-1,NVIDIA,1,0:", ["web", "model"]),
        ("GPU-0,NVIDIA,1,0:;;GPU-1,NVIDIA,1,0:", ["web", ""]),
    ],
    ids=["Volcano's slots", "a slot each", "more than ask", "more than there are"],
)
def test_slots_are_those_of_the_containers_that_request(text, names) -> None:
    what = ask(container("web"), container("model", **{NUMBER: 1}))
    assert [grant.container for grant in read({"volcano.sh/vgpu-ids-new": text}, what)] == names
