"""Placing of Ascend vNPUs in HAMi's format: the chips of a pod, the score of a node, and refusals."""

import json

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import parse_conf
from deviceshare.families.hami_vnpu.section import VnpuConf
from deviceshare.model import DeviceGrant, unavailable
from deviceshare.objects import decode_pod
from msgspec.structs import replace
from support.builders import ask, chosen, codes, conf, container, take
from support.hami_vnpu import B3, DEVICES, FAMILY, P310, allocator, chips, cuts, limits, npu, npu_node, shared, written

# What a chip has room for


@pytest.mark.parametrize(
    ("memory", "taken", "code", "line"),
    [
        (5, 2, "CardInsufficientCore", "Insufficient AI cores on a chip (asked 10 AI cores, at most 0 AI cores free, "),
        (20, 2, "CardInsufficientCpu", "Insufficient AI CPUs on a chip (asked 3 AI CPUs, at most 1 AI CPU free, "),
    ],
)
def test_ai_cores_and_ai_cpus_of_templates_count(memory, taken, code, line) -> None:
    one = allocator(npu_node(chips(1, "Ascend910X")))
    for number in range(taken):
        take(one, npu(1, memory, word="Ascend910X"), f"p{number}")
    (refusal,) = one.why_not(npu(1, memory, word="Ascend910X")).refusals
    assert refusal.code == code
    assert refusal.line.startswith(f"1 {line}")


def test_a_910b2_has_ai_cpus_for_six_of_its_smallest_parts() -> None:
    one = allocator(npu_node(chips(1, "Ascend910B2")))
    for number in range(6):
        take(one, npu(1, 8192, word="Ascend910B2"), f"p{number}")
    assert codes(one, npu(1, 8192, word="Ascend910B2")) == {"CardInsufficientCpu"}


def test_a_whole_chip_has_no_part_in_use() -> None:
    one = allocator(npu_node(chips(1, "Ascend910X")))
    take(one, npu(1, 20, word="Ascend910X"), "part")
    assert codes(one, npu(1, word="Ascend910X")) == {
        "CardInsufficientMemory", "CardInsufficientCore", "CardInsufficientCpu",
    }  # fmt: skip
    one.release("n1", "part")
    take(one, npu(1, word="Ascend910X"), "whole")
    assert one.card_state("n1", "vnpu_ai_cores") == [20]
    assert one.place(npu(1, 10, word="Ascend910X")) is None


def test_the_refusal_for_memory_has_the_amounts() -> None:
    one = allocator(npu_node(chips()))
    take(one, npu(1, 12288), "first")
    unplaceable = one.why_not(npu(1, 12288))
    assert "1 Insufficient huawei.com/Ascend310P-memory on a chip (asked 12288 MiB, at most 9239 MiB free, " in (
        unavailable(unplaceable.nodes, unplaceable.refusals)
    )


def test_slots_limit_how_many_share() -> None:
    one = allocator(npu_node(chips(slots=2), offered=10))
    take(one, npu(1, 3072), "a")
    take(one, npu(1, 3072), "b")
    assert codes(one, npu(1, 3072)) == {"CardTimeSlicingExhausted"}


def test_unhealthy_chips_are_never_allocated() -> None:
    """hami-unhealthy-allocated: Volcano does not look at the health of a chip."""
    assert "CardNotHealth" in codes(allocator(npu_node(chips(2, healthy=False))), npu())
    mixed = [replace(card, healthy=card.index == 1) for card in chips(2)]
    assert chosen(allocator(npu_node(mixed)).place(npu())) == [1]


@pytest.mark.parametrize("what", [npu(1), npu(None, 3072)], ids=["by number", "by memory"])
def test_no_chip_where_the_kubelet_offers_none(what) -> None:
    assert "CardNotFound" in codes(allocator(npu_node(chips(2), offered=0)), what)


def test_the_kubelets_count_of_devices_holds() -> None:
    one = allocator(npu_node(chips(2), offered=1))
    take(one, npu(1, 3072), "first")
    assert codes(one, npu(1, 3072)) == {"InsufficientResource"}


def test_more_chips_than_a_node_has_are_refused_and_no_chips_are_named() -> None:
    (refusal,) = [
        each for each in allocator(npu_node(chips(2))).why_not(npu(3)).refusals if each.code == "NodeInsufficientDevice"
    ]
    assert refusal.line == "1 Insufficient Ascend310P chips (asked 3, at most 2 usable, 1 missing)"
    (refusal, *_) = allocator(npu_node(chips(2, B3))).why_not(npu(None, 3072)).refusals
    assert refusal.line == "1 node(s) had no Ascend310P"


# Containers


def test_every_container_is_charged_also_after_a_restart() -> None:
    """hami-multi-container-undercount: Volcano loses the first device of each container but the first."""
    what = npu(1, 6144, containers=2)
    one = allocator(npu_node(chips(2)))
    placement = take(one, what, "a")
    restarted = allocator(npu_node(chips(2)))
    restarted.hold("n1", "a", FAMILY.held(written(placement, what), what, "ns/a"), placement.resources)
    assert one.used_cards("n1") == restarted.used_cards("n1") == [(6144, 0, 1), (6144, 0, 1)]
    assert one.card_state("n1", "vnpu_ai_cores") == restarted.card_state("n1", "vnpu_ai_cores") == [2, 2]


def test_containers_have_chips_of_their_own() -> None:
    what = npu(1, 3072, containers=2)
    assert chosen(allocator(npu_node(chips(3)), policy="binpack").place(what)) == [0, 1]
    (refusal,) = allocator(npu_node(chips(1))).why_not(what).refusals
    assert refusal.text == "Insufficient Ascend310P chips, each container has chips of its own"


@pytest.mark.parametrize(
    ("init", "indexes", "memory", "ai_cores"),
    [
        (container("init", **limits(1, 5000)), [0, 0], [6144, 0], [2, 0]),
        (container("init", **limits(1, 12288)), [0, 1], [6144, 12288], [2, 4]),
        (container("init", sidecar=True, **limits(1, 5000)), [0, 1], [6144, 6144], [2, 2]),
    ],
    ids=["cut alike: the same chip, charged once", "cut otherwise", "a sidecar stays"],
)
def test_an_init_container_has_a_chip_of_the_pod_only_where_it_is_cut_alike(init, indexes, memory, ai_cores) -> None:
    what = ask(container("main", **limits(1, 4096)), init_containers=(init,))
    one = allocator(npu_node(chips(2)))
    assert chosen(take(one, what, "a")) == indexes
    assert [used.memory for used in one.used_cards("n1")] == memory
    assert one.card_state("n1", "vnpu_ai_cores") == ai_cores


def test_an_init_container_does_not_share_with_a_sidecar_that_is_cut_alike() -> None:
    sidecar = container("side", sidecar=True, **limits(1, 3072))
    what = ask(container("main"), init_containers=(sidecar, container("init", **limits(1, 3072))))
    assert allocator(npu_node(chips(1))).place(what) is None
    assert chosen(allocator(npu_node(chips(2))).place(what)) == [0, 1]


# Which chip, and how good a node is


@pytest.mark.parametrize(
    ("policy", "index", "score"),
    [("", 0, 0.0), ("binpack", 2, 100 * 12288 / 21527), ("spread", 0, 100.0)],
)
def test_the_policy_chooses_by_how_chips_stand_before(policy, index, score) -> None:
    one = allocator(npu_node(chips(4)), policy=policy)
    for number, memory in ((1, 3072), (2, 12288)):
        held = (DeviceGrant(f"D{number}", number, memory, 0, P310),)
        (grant,) = allocator(npu_node(chips(4))).place(npu(1, memory)).grants
        one.hold("n1", f"p{number}", [replace(grant, devices=held)], ())
    placement = one.place(npu(1, 3072))
    assert chosen(placement) == [index]
    assert placement.score == pytest.approx(score)


def test_the_policy_holds_without_a_weight() -> None:
    """hami-policy-unset-without-weight: Volcano remembers the policy only where nodes are scored."""
    one = allocator(npu_node(chips(2)), policy="spread", weight=0)
    take(one, npu(1, 3072), "first")
    assert chosen(one.place(npu(1, 3072))) == [1]


def test_spread_takes_used_chips_by_index_where_none_is_unused() -> None:
    one = allocator(npu_node(chips(2)), policy="spread")
    for name in ("a", "b"):
        take(one, npu(1, 3072), name)
    placement = one.place(npu(1, 3072))
    assert (chosen(placement), placement.score) == ([0], 0.0)


def test_the_score_is_that_of_each_containers_first_chip() -> None:
    one = allocator(npu_node(chips(3)), policy="binpack")
    take(one, npu(1, 6144), "a")
    placement = one.place(npu(1, 3072, containers=2))
    assert chosen(placement) == [0, 1]
    assert placement.score == pytest.approx(100 * 6144 / 21527)


def test_linked_chips_come_from_the_network_with_most_that_fit() -> None:
    networks = (0, 0, 0, 1, 1, 1, 1)
    one = allocator(npu_node(chips(7, B3, networks=networks)))
    placement = take(one, npu(2, word=B3), "a")
    assert (chosen(placement), placement.score) == ([3, 4], 10.0)
    placement = take(one, npu(4, word=B3), "b")
    assert chosen(placement) == [0, 1, 2, 5]


def test_of_networks_with_as_many_chips_the_lower_number_goes_first() -> None:
    one = allocator(npu_node(chips(4, B3, networks=(5, 2, 5, 2))))
    assert chosen(one.place(npu(1, word=B3))) == [1]


def test_the_network_goes_before_the_policy() -> None:
    one = allocator(npu_node(chips(4, B3, networks=(0, 1, 1, 1))), policy="binpack")
    held = replace(one.place(npu(1, 16384, word=B3)).grants[0], devices=(DeviceGrant("D0", 0, 32768, 0, B3),))
    one.hold("n1", "half", [held], ())
    placement = one.place(npu(1, 16384, word=B3))
    assert (chosen(placement), placement.score) == ([1], 10.0)


def test_containers_in_several_networks_score_the_share_of_the_largest() -> None:
    one = allocator(npu_node(chips(3, B3, networks=(0, 1, 1))))
    assert one.place(npu(1, 16384, word=B3, containers=3)).score == pytest.approx(10 * 2 / 3)


@pytest.mark.parametrize(
    ("word", "networks"), [(P310, (1, 0)), (B3, (1, -1))], ids=["a 310P is not linked", "a network is not known"]
)
def test_without_networks_the_index_decides(word, networks) -> None:
    one = allocator(npu_node(chips(2, word, networks=networks)))
    assert chosen(one.place(npu(1, word=word))) == [0]


USE, NOUSE = "hami.io/use-Ascend310P-uuid", "hami.io/no-use-Ascend310P-uuid"


@pytest.mark.parametrize(
    ("annotations", "index"),
    [({USE: "D1, D2"}, 1), ({NOUSE: "D0,D1"}, 2), ({USE: "D1,D2", NOUSE: "D1"}, 2), ({USE: ""}, 0)],
)
def test_uuids_that_a_pod_chose_or_refused_are_honoured(annotations, index) -> None:
    limit = {"huawei.com/Ascend310P": "1"}
    raw = {
        "metadata": {"namespace": "ns", "name": "a", "uid": "u", "annotations": annotations},
        "spec": {"containers": [{"name": "c0", "resources": {"limits": limit}}]},
    }
    what = decode_pod(json.dumps(raw).encode()).ask
    assert chosen(allocator(npu_node(chips(3))).place(what)) == [index]


def test_a_uuid_that_no_chip_has_is_the_reason() -> None:
    assert "CardUuidMismatch" in codes(allocator(npu_node(chips(2))), npu(annotations={USE: "D7"}))


# HAMi-core


@pytest.mark.parametrize(
    ("mode", "configured", "fits"),
    [
        ("vnpu", False, False), ("vnpu", True, True),
        ("vnpu-template", True, False), ("vnpu-hami-core", False, True),
    ],
)  # fmt: skip
def test_shares_are_had_where_the_node_or_else_the_configuration_says_so(mode, configured, fits) -> None:
    devices = DEVICES.having(replace(DEVICES.section(VnpuConf), hami_vnpu_core=configured))
    one = Allocator(replace(conf(), devices=devices))
    one.set_node(npu_node(chips(1, mode=mode)))
    assert (one.place(shared(1, 100)) is not None) == fits
    assert one.place(npu(1, 100)) is not None
    if not fits:
        assert "ModeNotFit" in codes(one, shared(1, 100))


def test_several_chips_can_be_shared_in_part() -> None:
    one = allocator(npu_node(chips(2, mode="vnpu-hami-core")))
    placement = take(one, shared(2, 4000, 40), "a")
    assert cuts(placement) == [("c0", "Ascend310P/hami-core", 4000)] * 2
    assert one.used_cards("n1") == [(4000, 40, 1), (4000, 40, 1)]
    assert one.card_state("n1", "vnpu_ai_cores") == [0, 0]


def test_a_share_without_memory_is_all_of_it() -> None:
    assert cuts(allocator(npu_node(chips(mode="vnpu-hami-core"))).place(shared())) == [
        ("c0", "Ascend310P/hami-core", 21527)
    ]


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (shared(1, 1, 60), shared(1, 1, 41), "CardInsufficientCore"),
        (shared(1, 1), shared(1, 1, 100), "ExclusiveDeviceAllocateConflict"),
        (shared(1, 1, 100), shared(1, 1), "CardComputeUnitsExhausted"),
        (shared(1, 20000), shared(1, 1528), "CardInsufficientMemory"),
        (shared(1, 1), npu(1, 3072), "ModeNotFit"),
        (npu(1, 3072), shared(1, 1), "ModeNotFit"),
    ],
)
def test_what_does_not_fit_beside_a_share(first, second, code) -> None:
    one = allocator(npu_node(chips(mode="vnpu-hami-core")))
    take(one, first, "first")
    assert codes(one, second) == {code}


def test_the_configuration_says_whether_chips_are_mixed() -> None:
    text = "[{name: deviceshare, arguments: {deviceshare.AscendMixedChips: %s}}]"
    assert parse_conf(text % "true", "test").mixed_chips
    assert not parse_conf(text % "false", "test").mixed_chips
    assert not conf().mixed_chips


def test_a_chip_is_cut_in_two_ways_where_the_configuration_lets_it() -> None:
    one = allocator(npu_node(chips(mode="vnpu-hami-core")), mixed_chips=True)
    take(one, shared(1, 3072, 50), "a")
    take(one, npu(1, 3072), "b")
    take(one, shared(1, 3072, 20), "c")
    assert one.used_cards("n1") == [(9216, 70, 3)]
