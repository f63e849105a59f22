"""Annotations and environment of Ascend vNPUs in HAMi's format: written for a pod, and read back."""

import json

import pytest
from deviceshare.allocation import Allocator
from deviceshare.families import HeldInPart
from deviceshare.model import PodRequest
from deviceshare.objects import decode_node
from msgspec.structs import replace
from support.builders import ask, conf, container
from support.hami_vnpu import B3, DEVICES, FAMILY, allocator, chips, limits, npu, npu_node, shared, written

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


def test_unreadable_annotations_raise_and_still_hold_the_chip() -> None:
    with pytest.raises(HeldInPart) as caught:
        FAMILY.held({KEY: "D0,Ascend310P,much,0:;"}, npu(), "ns/a")
    one = allocator(npu_node(chips(2)))
    one.hold("n1", "a", caught.value.grants, ())
    assert [used.memory for used in one.used_cards("n1")] == [21527, 0]
    assert caught.value.problem.subject == "Pod ns/a"


# What a user sees


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


def test_the_refusal_names_the_argument_that_enables_the_family() -> None:
    one = Allocator(replace(conf(), devices=DEVICES, families=frozenset()))
    one.set_node(npu_node(chips()))
    (refusal,) = one.why_not(npu(1, 3072)).refusals
    assert refusal.line == (
        "the pod requests huawei.com/Ascend310P-memory: "
        "set deviceshare.AscendHAMiVNPUEnable: true in volcano-scheduler.conf"
    )


def test_a_node_with_a_register_that_cannot_be_read_keeps_its_cpu_and_has_no_chips() -> None:
    raw = {
        "metadata": {"name": "n1", "annotations": {"hami.io/node-register-Ascend310P": "{"}},
        "status": {"allocatable": {"cpu": "4", "pods": "10"}},
    }
    fact = decode_node(json.dumps(raw).encode())
    assert (fact.cards, fact.allocatable["cpu"]) == ((), 4000)
    assert fact.problems[0].field == "metadata.annotations[hami.io/node-register-Ascend310P]"
