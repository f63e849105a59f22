"""Ascend vNPUs in HAMi's way: which chips a pod gets, what is written for it, and why it gets none."""

import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import VnpuChip, VnpuTemplate, parse_conf, parse_devices
from deviceshare.families import BY_NAME, HeldInPart
from deviceshare.model import Card, Claim, DeviceGrant, NodeFact, PodRequest, unavailable
from deviceshare.objects import decode_node, decode_pod
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from support.builders import ask, chosen, codes, conf, container, node, take

FAMILY = BY_NAME["hami-vnpu"]
PUBLISHED = parse_devices(
    (Path(__file__).parents[2] / "examples" / "configmaps" / "hami-scheduler-device.yaml").read_text(), "published"
)
SMALL = VnpuChip(
    name="small", word="Ascend910X", resource="huawei.com/Ascend910X", memory_resource="huawei.com/Ascend910X-memory",
    core_resource="huawei.com/Ascend910X-core", memory_allocatable=100, memory_capacity=110, ai_cores=20, ai_cpus=7,
    templates=(VnpuTemplate("half-cores", 10, 10, 1), VnpuTemplate("many-cpus", 20, 1, 3)),
)  # fmt: skip
"""Of these chips AI cores and AI CPUs run out before the memory does."""
DEVICES = replace(PUBLISHED, chips=(*PUBLISHED.chips, SMALL))
SHARED = {"huawei.com/vnpu-mode": "hami-core"}
B3, P310 = "Ascend910B3", "Ascend310P"
SIZES = {chip.word: chip.memory_allocatable for chip in DEVICES.chips}


def chips(
    count: int = 1, word: str = P310, *, slots: int = 10, healthy: bool = True, mode: str = "vnpu",
    networks: tuple[int, ...] = (), of: str = "",
) -> list[Card]:  # fmt: skip
    cores = 100 if mode == "vnpu-hami-core" else 20
    return [
        Card(f"{of}D{at}", at, slots, SIZES[word], cores, word, healthy, mode, network)
        for at, network in zip(range(count), (*networks, *[-1] * count), strict=False)
    ]


def npu_node(cards: list[Card], name: str = "n1", offered: int | None = None) -> NodeFact:
    total = sum(card.slots for card in cards) if offered is None else offered
    return node(name, cards, **{f"huawei.com/{word}": total for word in {card.type for card in cards}})


def allocator(*nodes: NodeFact, policy: str = "", **rest: object) -> Allocator:
    found = Allocator(replace(conf(policy), devices=DEVICES, **rest))
    for each in nodes:
        found.set_node(each)
    return found


def limits(
    number: int | None = 1, memory: int | None = None, cores: int | None = None, word: str = P310
) -> dict[str, int]:
    amounts = {"": number, "-memory": memory, "-core": cores}
    return {f"huawei.com/{word}{end}": amount for end, amount in amounts.items() if amount is not None}


def npu(
    number: int | None = 1, memory: int | None = None, cores: int | None = None, word: str = P310,
    *, annotations: dict[str, str] | None = None, containers: int = 1,
) -> PodRequest:  # fmt: skip
    asked = limits(number, memory, cores, word)
    return ask(*(container(f"c{at}", **asked) for at in range(containers)), annotations=annotations)


def shared(number: int | None = 1, memory: int | None = None, cores: int | None = None, word: str = P310) -> PodRequest:
    return npu(number, memory, cores, word, annotations=SHARED)


def written(placement, what: PodRequest) -> dict[str, str]:
    claim = Claim(id="1", uid="u", namespace="ns", name="a", grants=placement.grants)
    names, inits = ([each.name for each in part] for part in (what.containers, what.init_containers))
    return FAMILY.annotations(claim, placement.node, names, 1700000000.9, inits)


def cuts(placement) -> list[tuple[str, str, int]]:
    """Return for each device its container, how it is cut, and what is charged."""
    return [(grant.container, device.detail, device.memory) for grant in placement.grants for device in grant.devices]


# What is written


def test_the_annotations_of_the_guide() -> None:
    what = npu(1, 4096)
    assert written(allocator(npu_node(chips())).place(what), what) == {
        "hami.io/Ascend310P-devices-to-allocate": "D0,Ascend310P,6144,0:;",
        "hami.io/Ascend310P-devices-allocated": "D0,Ascend310P,6144,0:;",
        "huawei.com/Ascend310P": '[{"UUID":"D0","temp":"vir02"}]',
        "predicate-time": "1700000000",
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "1700000000",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1700000000",
    }


def test_whole_chips_have_no_template() -> None:
    what = npu(2, word=B3)
    text = written(allocator(npu_node(chips(2, B3))).place(what), what)
    assert text["hami.io/Ascend910B3-devices-allocated"] == "D0,Ascend910B3,65536,0:D1,Ascend910B3,65536,0:;"
    assert text["huawei.com/Ascend910B3"] == '[{"UUID":"D0"},{"UUID":"D1"}]'


def test_a_share_is_written_with_memory_and_cores() -> None:
    what = shared(1, 4096, 30, B3)
    text = written(allocator(npu_node(chips(1, B3, mode="vnpu-hami-core"))).place(what), what)
    assert text["hami.io/Ascend910B3-devices-allocated"] == "D0,Ascend910B3,4096,30:;"
    assert text["huawei.com/Ascend910B3"] == '[{"UUID":"D0","memory":4096,"core":30}]'


def test_there_is_a_slot_for_each_init_container_and_each_container() -> None:
    what = ask(
        container("web"), container("model", **limits(1, 4096)),
        init_containers=(container("fetch"), container("warm", **limits(1, 4096)), container("log", sidecar=True)),
    )  # fmt: skip
    placement = allocator(npu_node(chips(2))).place(what)
    assert written(placement, what)["hami.io/Ascend310P-devices-allocated"] == (
        ";D0,Ascend310P,6144,0:;;;D0,Ascend310P,6144,0:;"
    )
    assert FAMILY.held(written(placement, what), what, "ns/a") == tuple(
        replace(grant, devices=tuple(replace(device, index=-1) for device in grant.devices))
        for grant in sorted(placement.grants, key=lambda grant: grant.stage == "")
    )


# Which part of a chip

TEMPLATES = [
    ("Ascend910A", [("vir02", 2184), ("vir04", 4369), ("vir08", 8738), ("vir16", 17476)], 32768, 32768),
    ("Ascend910B2", [("vir03_1c_8g", 8192), ("vir06_1c_16g", 16384), ("vir12_3c_32g", 32768)], 65536, 65536),
    ("Ascend910B3", [("vir05_1c_16g", 16384), ("vir10_3c_32g", 32768)], 65536, 65536),
    ("Ascend910B4", [("vir05_1c_8g", 8192), ("vir10_3c_16g", 16384)], 32768, 32768),
    ("Ascend910B4-1", [("vir05_1c_16g", 16384), ("vir10_3c_32g", 32768)], 65536, 65536),
    ("Ascend310P", [("vir01", 3072), ("vir02", 6144), ("vir04", 12288)], 21527, 24576),
]
"""Of each published chip: its templates by memory, what of its memory can be given, and what it is sold with."""


def boundaries() -> list[tuple[str, int, str, int]]:
    rows = []
    for word, templates, allocatable, capacity in TEMPLATES:
        least = 1
        for name, memory in templates:
            rows += [(word, least, f"{word}/{name}", memory), (word, memory, f"{word}/{name}", memory)]
            least = memory + 1
        rows += [(word, least, word, allocatable), (word, capacity, word, allocatable)]
    return rows


@pytest.mark.parametrize(("word", "memory", "detail", "charged"), boundaries())
def test_memory_is_rounded_up_to_a_template_or_the_whole_chip(word, memory, detail, charged) -> None:
    placement = allocator(npu_node(chips(1, word))).place(npu(1, memory, word=word))
    assert cuts(placement) == [("c0", detail, charged)]


@pytest.mark.parametrize(("word", "capacity"), [(word, capacity) for word, _, _, capacity in TEMPLATES])
def test_more_memory_than_a_chip_has_is_refused(word, capacity) -> None:
    """hami-over-capacity-becomes-zero: Volcano takes it for no memory at all, and the pod gets the least template."""
    problem = allocator(npu_node(chips(1, word))).why_not(npu(1, capacity + 1, word=word)).problem
    assert problem is not None
    assert (problem.value, problem.expected) == (
        str(capacity + 1), f"at most {capacity} MiB, which is all of a {word}",
    )  # fmt: skip


def test_the_nominal_memory_means_the_whole_chip_and_the_user_hears_of_it() -> None:
    (grant,) = allocator(npu_node(chips())).place(npu(1, 24576)).grants
    assert grant.devices == (DeviceGrant("D0", 0, 21527, 0, P310, 24576),)
    assert FAMILY.caveats([grant]) == ("container c0 asks 24576 MiB and has a whole chip: 21527 MiB of it can be used",)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (npu(None, 3072), [("c0", "Ascend310P/vir01", 3072)]),
        (npu(1), [("c0", P310, 21527)]),
        (npu(1, 0), [("c0", P310, 21527)]),
        (npu(2, 12289), [("c0", P310, 21527)] * 2),
    ],
    ids=["memory alone means one", "nothing means all", "memory 0 is not set", "several whole chips"],
)
def test_what_a_request_means(what, expected) -> None:
    assert cuts(allocator(npu_node(chips(2))).place(what)) == expected


@pytest.mark.parametrize(
    ("what", "field", "expected"),
    [
        (npu(0), "Ascend310P", "1 to 128 chips, or none of its resources"),
        (npu(10**15), "Ascend310P", "1 to 128 chips, or none of its resources"),
        (npu(2, 6144), "Ascend310P-memory", "more than 12288 MiB or nothing: 2 chips can only be had whole"),
        (npu(1, 100, 50), "Ascend310P-core", "nothing: without the annotation huawei.com/vnpu-mode: hami-core"),
        (shared(1, 100, 101), "Ascend310P-core", "0 to 100 (percent of each chip)"),
        (shared(None, None, 50), "Ascend310P-core", "huawei.com/Ascend310P beside it"),
        (npu(1, word="Ascend999"), "Ascend999", "a chip of device-config.yaml (huawei.com/Ascend910A, "),
        (ask(container(**{"huawei.com/ascend310p-core": 1})), "ascend310p-core", "a chip of device-config.yaml"),
        (
            ask(container("a", **limits()), container("b", **limits(word=B3))),
            "Ascend910B3",
            "huawei.com/Ascend310P alone: no node has two kinds of Ascend chips",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_field(what, field, expected) -> None:
    problem = allocator(npu_node(chips(2))).why_not(what).problem
    assert problem is not None
    assert problem.field.endswith(f".resources.limits[huawei.com/{field}]")
    assert problem.expected.startswith(expected)


def test_a_mode_that_is_none_is_refused() -> None:
    what = npu(annotations={"huawei.com/vnpu-mode": "hami"})
    problem = allocator(npu_node(chips())).why_not(what).problem
    assert str(problem) == (
        "Pod: metadata.annotations[huawei.com/vnpu-mode]: 'hami' is not valid: "
        "expected hami-core, or nothing for a template"
    )


# What a chip has room for


@pytest.mark.parametrize(
    ("memory", "taken", "code", "line"),
    [
        (5, 2, "CardInsufficientCore", "Insufficient AI cores on a chip (asked 10 AI cores, at most 0 AI cores free, "),
        (20, 2, "CardInsufficientCpu", "Insufficient AI CPUs on a chip (asked 3 AI CPUs, at most 1 AI CPUs free, "),
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


def test_a_whole_chip_is_one_that_nobody_has_a_part_of() -> None:
    one = allocator(npu_node(chips(1, "Ascend910X")))
    take(one, npu(1, 20, word="Ascend910X"), "part")
    assert codes(one, npu(1, word="Ascend910X")) == {
        "CardInsufficientMemory", "CardInsufficientCore", "CardInsufficientCpu",
    }  # fmt: skip
    one.release("n1", "part")
    take(one, npu(1, word="Ascend910X"), "whole")
    assert one.card_state("n1", "vnpu_ai_cores") == [20]
    assert one.place(npu(1, 10, word="Ascend910X")) is None


def test_too_little_memory_is_told_in_numbers() -> None:
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


def test_unhealthy_chips_are_never_given() -> None:
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
    assert refusal.line == "1 Insufficient Ascend310P chips (asked 3, at most 2 free, 1 missing)"
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
    one = Allocator(replace(conf(), devices=replace(DEVICES, hami_vnpu_core=configured)))
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


# What pods hold


def on_node(annotations: dict[str, str], what: PodRequest) -> list[tuple[str, str, int, list[str]]]:
    return [
        (grant.container, grant.stage, grant.position, [device.id for device in grant.devices])
        for grant in FAMILY.held(annotations, what, "ns/a")
    ]


KEY = "hami.io/Ascend310P-devices-allocated"
THREE = ask(
    container("a"),
    container("b", **limits()),
    container("c", **limits()),
    init_containers=(container("i", **limits()),),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D9,x,1,0:;;D0,x,1,0:;D1,x,1,0:;", [("i", "init", 0, ["D9"]), ("b", "", 1, ["D0"]), ("c", "", 2, ["D1"])]),
        (";D0,x,1,0:;D1,x,1,0:;", [("b", "", 1, ["D0"]), ("c", "", 2, ["D1"])]),
        ("D0,x,1,0:;D1,x,1,0:;", [("b", "", 1, ["D0"]), ("c", "", 2, ["D1"])]),
        ("D0,x,1,0:;D1,x,1,0:;D2,x,1,0:;D3,x,1,0:;D4,x,1,0:;", [
            ("b", "", 1, ["D0"]), ("c", "", 2, ["D1"]), *(("c", "", 2, [f"D{at}"]) for at in (2, 3, 4)),
        ]),
    ],
    ids=["HAMi and we", "HAMi before init containers", "Volcano", "more than there are containers"],
)  # fmt: skip
def test_whose_a_slot_is(text, expected) -> None:
    assert on_node({KEY: text}, THREE) == expected


def test_without_the_json_a_template_is_known_by_its_memory() -> None:
    one = allocator(npu_node(chips()))
    one.hold("n1", "a", FAMILY.held({KEY: "D0,Ascend310P,6144,0:;"}, npu(1, 5000), "ns/a"), ())
    assert one.card_state("n1", "vnpu_ai_cores") == [2]


def test_what_cannot_be_read_is_told_and_held_all_the_same() -> None:
    with pytest.raises(HeldInPart) as caught:
        FAMILY.held({KEY: "D0,Ascend310P,much,0:;"}, npu(), "ns/a")
    one = allocator(npu_node(chips(2)))
    one.hold("n1", "a", caught.value.grants, ())
    assert [used.memory for used in one.used_cards("n1")] == [21527, 0]
    assert caught.value.problem.subject == "Pod ns/a"


# What a user is told


def test_the_environment_that_the_plugin_injects() -> None:
    one = allocator(npu_node(chips(2, B3)))
    (grant,) = one.place(npu(1, 16384, word=B3)).grants
    assert FAMILY.environment(grant, chips(1, B3)) == {
        "ASCEND_VISIBLE_DEVICES": "0", "ASCEND_VNPU_SPECS": "vir05_1c_16g",
    }  # fmt: skip
    (grant,) = one.place(npu(2, word=B3)).grants
    assert FAMILY.environment(grant, chips(2, B3)) == {"ASCEND_VISIBLE_DEVICES": "0,1"}


@pytest.mark.parametrize(("cores", "priority"), [(30, {"NPU_PRIORITY": "30"}), (None, {})])
def test_the_environment_of_a_share(cores, priority) -> None:
    cards = chips(mode="vnpu-hami-core")
    (grant,) = allocator(npu_node(cards)).place(shared(1, 4096, cores)).grants
    assert FAMILY.environment(grant, cards) == {
        "ASCEND_VISIBLE_DEVICES": "0",
        "NPU_MEM_QUOTA": "4096",
        **priority,
        "NPU_GLOBAL_SHM_PATH": "/hami-shared-region/0_global_registry",
        "NPU_LOCAL_SHM_PATH": "/hami-vnpu-shmem/vnpu_local_shmem",
    }


def test_vnpus_in_several_containers_come_with_a_warning() -> None:
    grants = allocator(npu_node(chips(2))).place(npu(1, 3072, containers=2)).grants
    assert FAMILY.caveats(grants[:1]) == ()
    (caveat,) = FAMILY.caveats(grants)
    assert "(c0, c1)" in caveat


def test_a_pod_is_told_which_argument_turns_the_family_on() -> None:
    one = Allocator(replace(conf(), devices=DEVICES, families=frozenset()))
    one.set_node(npu_node(chips()))
    (refusal,) = one.why_not(npu(1)).refusals
    assert refusal.line == (
        "the pod asks huawei.com/Ascend310P: set deviceshare.AscendHAMiVNPUEnable: true in volcano-scheduler.conf"
    )


def test_a_node_with_a_register_that_cannot_be_read_keeps_its_cpu_and_has_no_chips() -> None:
    raw = {
        "metadata": {"name": "n1", "annotations": {"hami.io/node-register-Ascend310P": "{"}},
        "status": {"allocatable": {"cpu": "4", "pods": "10"}},
    }
    fact = decode_node(json.dumps(raw).encode())
    assert (fact.cards, fact.allocatable["cpu"]) == ((), 4000)
    assert fact.problems[0].field == "metadata.annotations[hami.io/node-register-Ascend310P]"


# Whatever happens


ASKS = [
    *(npu(1, memory, word="Ascend910X") for memory in (5, 15, None)),
    npu(2, word="Ascend910X"),
    npu(1, 5, word="Ascend910X", containers=2),
    shared(1, 30, 40, "Ascend910X"),
    shared(1, 30, word="Ascend910X"),
    shared(2, 10, 100, "Ascend910X"),
    ask(
        container("main", **limits(1, 5, word="Ascend910X")),
        init_containers=(
            container("init", **limits(1, 15, word="Ascend910X")),
            container("side", sidecar=True, **limits(1, 5, word="Ascend910X")),
        ),
    ),
]
MODES = {None: "vnpu", "true": "vnpu-hami-core", "false": "vnpu-template"}


def pod_on(node_name: str, uid: str, what: PodRequest, annotations: dict[str, str]) -> bytes:
    """Return a bound pod as the API server has it."""

    def containers(part) -> list[dict]:
        return [
            {
                "name": each.name,
                "resources": {"limits": {name: str(amount) for name, amount in each.resources}},
                **({"restartPolicy": "Always"} if each.sidecar else {}),
            }
            for each in part
        ]

    metadata = {"namespace": "ns", "name": uid, "uid": uid, "annotations": dict(what.annotations) | annotations}
    spec = {
        "nodeName": node_name,
        "containers": containers(what.containers),
        "initContainers": containers(what.init_containers),
    }
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


class Cluster(RuleBasedStateMachine):
    """Pods come and go, nodes change; what stands is what a scheduler that starts anew reads from the annotations."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, NodeFact] = {}
        self.pods: dict[str, tuple[str, bytes]] = {}
        self.count = 0

    @initialize(policy=st.sampled_from(["", "binpack", "spread"]), mixed=st.booleans())
    def start(self, policy, mixed) -> None:
        self.one = allocator(policy=policy, mixed_chips=mixed)

    @rule(
        name=st.sampled_from("ab"), count=st.integers(0, 4), slots=st.integers(1, 4), healthy=st.booleans(),
        mode=st.sampled_from(sorted(MODES.values())), linked=st.booleans(), offered=st.sampled_from([None, None, 0, 3]),
    )  # fmt: skip
    def set_node(self, name, count, slots, healthy, mode, linked, offered) -> None:
        cards = chips(
            count,
            "Ascend910X",
            slots=slots,
            healthy=healthy,
            mode=mode,
            networks=(0, 1, 0, 1) if linked else (),
            of=name,
        )
        self.nodes[name] = npu_node(cards, name, offered)
        self.one.set_node(self.nodes[name])

    @precondition(lambda self: self.nodes)
    @rule(what=st.sampled_from(ASKS))
    def place(self, what) -> None:
        placement = self.one.place(what)
        if placement is None:
            assert self.one.why_not(what).refusals
            return
        before = self.overdrawn()
        self.count += 1
        raw = pod_on(placement.node, f"p{self.count}", what, written(placement, what))
        self.pods[f"p{self.count}"] = (placement.node, raw)
        self.one.hold(placement.node, f"p{self.count}", placement.grants, placement.resources)
        assert self.overdrawn() <= before, "a placement overdrew a chip"

    @precondition(lambda self: self.pods)
    @rule(at=st.integers(0, 20))
    def release(self, at) -> None:
        uid = sorted(self.pods)[at % len(self.pods)]
        assert self.one.release(self.pods.pop(uid)[0], uid)

    def overdrawn(self) -> set[tuple[str, str]]:
        """Chips with more taken than they have: only nodes that shrank may have some."""
        found = set()
        for name, each in self.nodes.items():
            amounts = zip(
                each.cards,
                self.one.used_cards(name),
                self.one.card_state(name, "vnpu_ai_cores"),
                self.one.card_state(name, "vnpu_ai_cpus"),
                self.one.card_state(name, "vnpu_shares"),
                strict=True,
            )
            for card, (memory, cores, slots), ai_cores, ai_cpus, shares in amounts:
                over = memory > card.memory or cores > 100 or slots > card.slots or ai_cores > 20 or ai_cpus > 7
                if over or (0 < shares < slots and not self.one.conf.mixed_chips):
                    found.add((name, card.id))
        return found

    @invariant()
    def a_restart_reads_the_same_from_the_annotations(self) -> None:
        if not hasattr(self, "one"):
            return
        anew = Allocator(self.one.conf)
        for node_name, raw in self.pods.values():
            fact = decode_pod(raw)
            assert not fact.problems
            anew.hold(node_name, fact.uid, fact.held, anew.amounts(fact.ask))
        for each in self.nodes.values():
            anew.set_node(each)
        for name in self.nodes:
            assert anew.used_cards(name) == self.one.used_cards(name)
            for state in FAMILY.state:
                assert anew.card_state(name, state) == self.one.card_state(name, state)
        for what in ASKS:
            assert anew.place(what) == self.one.place(what)

    def teardown(self) -> None:
        if hasattr(self, "one"):
            for uid, (node_name, _) in self.pods.items():
                self.one.release(node_name, uid)
            for name in self.nodes:
                assert all(used == (0, 0, 0) for used in self.one.used_cards(name))
                assert not any(sum(self.one.card_state(name, state)) for state in FAMILY.state)


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
