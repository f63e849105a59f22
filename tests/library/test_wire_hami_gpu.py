"""The annotations of HAMi's NVIDIA device plugin, with the cases of HAMi's own tests."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from deviceshare.families import HamiGpu
from deviceshare.families.hami_gpu import wire
from deviceshare.model import ContainerGrant, DeviceGrant, FormatError
from deviceshare_metrics.api import whole_cards
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

RECORDED = json.loads((Path(__file__).parents[1] / "data/hami/nvidia.json").read_text())


def read(text: str, handshake: str = ""):
    return wire.read_register({wire.REGISTER: text, wire.HANDSHAKE: handshake}, "gpu-1")


def case_id(case) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", RECORDED["registers"], ids=case_id)
def test_both_forms_of_the_register_are_read_as_hami_reads_them(case):
    if case["cards"] is None:
        with pytest.raises(FormatError) as caught:
            read(case["text"])
        assert caught.value.problem.subject == "Node gpu-1"
        assert wire.REGISTER in caught.value.problem.field
        return
    assert [
        {
            "id": card.id, "index": card.index, "count": card.slots, "devmem": card.memory, "devcore": card.cores,
            "type": card.type, "mode": "hami-core", "health": card.healthy,
        }
        for card in read(case["text"])
    ] == case["cards"]  # fmt: skip
    assert all(card.mode == wire.SHARED for card in read(case["text"]))


@pytest.mark.parametrize("case", RECORDED["pods"], ids=case_id)
def test_the_devices_of_a_pod_are_read_as_hami_reads_them(case):
    if case["slots"] is None:
        with pytest.raises(FormatError):
            wire.read_slots(case["text"], "ns/p")
        return
    found = wire.read_slots(case["text"], "ns/p")
    assert [[[each.id, each.memory, each.cores] for each in slot] for slot in found] == case["slots"]
    assert wire.write_slots(found) == case["text"]


def test_json_leaves_out_zero_values():
    (card,) = read('[{"id":"GPU-0","count":10,"devmem":8192,"devcore":100,"type":"T4","mode":"hami-core"}]')
    assert (card.index, card.healthy) == (0, False)


@pytest.mark.parametrize(
    ("mode", "shown"), [("mig", "hami-gpu-mig"), ("mps", "hami-gpu-mps"), ("x", "hami-gpu-unknown")]
)
def test_cards_in_other_modes_are_known_by_their_mode(mode, shown):
    for text in (f"GPU-0,10,8192,100,T4,0,true,0,{mode}:", json.dumps([registered(mode=mode)])):
        (card,) = read(text)
        assert card.mode == shown


def registered(**changes):
    return {"id": "GPU-0", "count": 10, "devmem": 8192, "devcore": 100, "type": "T4", "health": True, **changes}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[{", "JSON list"),
        ('{"id": "GPU-0"}', "JSON list"),
        (json.dumps([registered(id="")]), "UUID"),
        (json.dumps([registered(id="a;b")]), "UUID"),
        (json.dumps([registered(), registered()]), "no other card"),
        (json.dumps([registered(devmem=-1)]), "devmem"),
        (json.dumps([registered(devcore=50)]), "at least 100 as devcore"),
        (json.dumps([registered(count=2**70)]), ""),
    ],
)
def test_a_malformed_register_is_an_error(text, hint):
    with pytest.raises(FormatError) as caught:
        read(text)
    assert hint in caught.value.problem.expected


def test_more_than_all_cores_are_all_cores():
    (card,) = read(json.dumps([registered(devcore=200)]))
    assert card.cores == 100


def test_a_handshake_without_an_answer_ends_the_registration_of_an_old_plugin():
    text = "GPU-0,10,8192,100,T4,0,true,0,hami-core:"
    for handshake in ("", "Reported 2026-01-01 10:00:00 +0000 UTC", "Requesting_2026-01-01 10:00:00"):
        assert len(read(text, handshake)) == 1
    with pytest.raises(FormatError) as caught:
        read(text, "Deleted_2026-01-01 10:00:00")
    assert wire.HANDSHAKE in caught.value.problem.field


@pytest.mark.parametrize("offered", [0, 20])
def test_a_plugin_that_is_back_is_used_although_hami_leaves_deleted(offered):
    """HAMi's scheduler 2.8 marks a node whose GPUs are 0 for a moment, and no part of HAMi 2.8 removes the mark."""
    text = json.dumps([registered(), registered(id="GPU-1")])
    deleted = {wire.REGISTER: text, wire.HANDSHAKE: "Deleted_2026-01-01 10:00:00"}
    assert len(wire.read_register(deleted, "gpu-1", offered)) == 2


def test_whole_gpus_of_another_plugin_are_no_shares_of_a_deleted_registration():
    text = json.dumps([registered(), registered(id="GPU-1")])
    deleted = {wire.REGISTER: text, wire.HANDSHAKE: "Deleted_2026-01-01 10:00:00"}
    with pytest.raises(FormatError) as caught:
        wire.read_register(deleted, "gpu-1", 2)
    assert wire.HANDSHAKE in caught.value.problem.field
    assert "20 GPUs, not 2" in caught.value.problem.expected


def test_registers_of_other_vendors_are_named():
    annotations = {
        "hami.io/node-dcu-register": "DCU-0,1,1024,100,DCU,0,true,0,test:",
        "hami.io/node-MLU370-register": "[]",
        "hami.io/node-nvidia-register": "x",
        "hami.io/node-nvidia-score": "[]",
        "hami.io/node-handshake-dcu": "Reported",
    }
    assert wire.other_registers(annotations) == ["hami.io/node-dcu-register"]


ids = st.text("abcGPU-0123456789", min_size=1, max_size=8)
amounts = st.integers(0, 10**6)


@given(st.lists(st.lists(st.builds(DeviceGrant, ids, st.just(-1), amounts, amounts), max_size=3), max_size=4))
def test_slots_are_read_as_they_were_written(slots):
    assert wire.read_slots(wire.write_slots(slots), "ns/p") == slots


@given(st.one_of(st.text(), st.text('[]{}":,;GPU0123-tru fals', max_size=60)))
def test_any_text_is_read_or_an_error(text):
    for read_text in (read, lambda value: wire.read_slots(value, "ns/p"), lambda value: read("x", value)):
        with suppress(FormatError):
            read_text(text)


def test_the_number_of_whole_gpus_is_that_of_shares_where_the_family_granted_them() -> None:
    resources, vgpus = (("nvidia.com/gpu", 2),), ContainerGrant("c", 0, "hami-core", (DeviceGrant("GPU-0", 0, 1, 1),))
    assert len(whole_cards(resources, [vgpus])) == 2
    assert whole_cards(resources, [vgpus, replace(vgpus, family=HamiGpu().name)]) == ()
