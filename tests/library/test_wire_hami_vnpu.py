"""The annotations of HAMi's ascend-device-plugin, as it, HAMi, Volcano and we write them."""

import json

import hypothesis.strategies as st
import pytest
from deviceshare.families.hami_vnpu import wire
from deviceshare.model import WHOLE, Card, DeviceGrant, FormatError
from hypothesis import given

REGISTER = "hami.io/node-register-Ascend910B3"
ALLOCATED = "hami.io/Ascend910B3-devices-allocated"
PLUGIN_WRITES = (
    '[{"id":"5FB8-80C0","count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3","health":true,'
    '"custominfo":{"NetworkID":0},"devicepairscore":{}},'
    '{"id":"A656-23DF","index":1,"count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3",'
    '"custominfo":{"NetworkID":1},"devicepairscore":{}}]'
)


def registered(text: str, **annotations: str) -> tuple[Card, ...]:
    return wire.read_registers({REGISTER: text, **annotations}, "n1")


def test_what_the_plugin_registers_where_go_leaves_out_zero_and_false() -> None:
    assert registered(PLUGIN_WRITES) == (
        Card("5FB8-80C0", 0, 4, 65536, 20, "Ascend910B3", True, "vnpu", 0),
        Card("A656-23DF", 1, 4, 65536, 20, "Ascend910B3", False, "vnpu", 1),
    )


@pytest.mark.parametrize(
    ("answer", "mode"),
    [(None, "vnpu"), ("true", "vnpu-hami-core"), ("false", "vnpu-template"), ("yes", "vnpu-template")],
)
def test_the_node_says_how_its_chips_are_cut(answer, mode) -> None:
    said = {} if answer is None else {"hami-vnpu-core": answer}
    assert {card.mode for card in registered(PLUGIN_WRITES, **said)} == {mode}


def test_chips_stand_by_index_and_those_of_all_kinds_are_read() -> None:
    shuffled = '[{"id":"b","index":2},{"id":"a","index":1},{"id":"c"}]'
    cards = registered(shuffled, **{"hami.io/node-register-Ascend310P": '[{"id":"p","health":true}]'})
    assert [(card.id, card.type) for card in cards] == [
        ("p", "Ascend310P"), ("c", "Ascend910B3"), ("a", "Ascend910B3"), ("b", "Ascend910B3"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["[]", "null"])
def test_a_node_may_register_no_chips(text) -> None:
    assert registered(text) == ()


@pytest.mark.parametrize(
    ("custom", "network"),
    [
        ("{}", -1), ('{"NetworkID":3}', 3), ('{"NetworkID":3.0}', 3), ("null", -1),
        ('{"NetworkID":"a"}', -1), ('{"NetworkID":-2}', -1), ('{"NetworkID":true}', -1), ('{"NetworkID":1048576}', -1),
    ],
)  # fmt: skip
def test_a_network_is_a_number(custom, network) -> None:
    (card,) = registered(f'[{{"id":"a","custominfo":{custom}}}]')
    assert card.network == network


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a JSON list of devices"),
        ("{}", "a JSON list of devices"),
        ('[{"id":"a"', "a JSON list of devices"),
        ('[{"id":7}]', "a JSON list of devices"),
        ('[{"count":4}]', "the UUID of a chip as id"),
        ('[{"id":"a,b"}]', "the UUID of a chip as id"),
        ('[{"id":"a","count":-1}]', "a whole number of at least 0 as count of a"),
        ('[{"id":"a","devmem":1e99}]', "a JSON list of devices"),
        ('[{"id":"a"},{"id":"a","index":1}]', "a UUID that no other chip of the node has"),
        ("\ud800", "a JSON list of devices"),
    ],
)
def test_a_register_that_cannot_be_read_names_node_and_annotation(text, expected) -> None:
    with pytest.raises(FormatError) as caught:
        registered(text)
    problem = caught.value.problem
    assert (problem.subject, problem.field) == ("Node n1", f"metadata.annotations[{REGISTER}]")
    assert problem.expected.startswith(expected)


def test_one_chip_cannot_be_of_two_kinds() -> None:
    with pytest.raises(FormatError, match="no other chip of the node has"):
        registered('[{"id":"a"}]', **{"hami.io/node-register-Ascend310P": '[{"id":"a"}]'})


def device(uuid: str, memory: int, cores: int = 0, cut: str = "") -> DeviceGrant:
    return DeviceGrant(uuid, -1, memory, cores, str(wire.Detail("Ascend910B3", cut)))


SLOTS = [[device("a", 16384, cut="vir05_1c_16g")], [], [device("b", 65536), device("c", 65536)]]


def test_each_container_ends_in_a_semicolon_also_the_last_and_one_without_devices() -> None:
    assert wire.write_slots(SLOTS) == "a,Ascend910B3,16384,0:;;b,Ascend910B3,65536,0:c,Ascend910B3,65536,0:;"


def test_the_runtime_information_names_templates_or_the_amounts_of_a_share() -> None:
    devices = [device for slot in SLOTS for device in slot]
    assert wire.write_runtime(devices) == '[{"UUID":"a","temp":"vir05_1c_16g"},{"UUID":"b"},{"UUID":"c"}]'
    shares = [device("a", 4096, 30, "hami-core"), device("b", 4096, 0, "hami-core")]
    assert wire.write_runtime(shares) == '[{"UUID":"a","memory":4096,"core":30},{"UUID":"b","memory":4096}]'


def read(text: str, runtime: str = "", **annotations: str) -> list[list[DeviceGrant]]:
    written = {ALLOCATED: text, "huawei.com/Ascend910B3": runtime, **annotations}
    slots, error = wire.read_slots(written, "Ascend910B3", "ns/a")
    assert error is None
    return slots


def test_what_was_written_is_read_again() -> None:
    flat = [device for slot in SLOTS for device in slot]
    assert read(wire.write_slots(SLOTS), wire.write_runtime(flat)) == SLOTS
    share = device("a", 4096, 30, "hami-core")
    assert read(wire.write_slots([[share]]), wire.write_runtime([share]), **{wire.MODE: "hami-core"}) == [[share]]


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("", []),
        ("a,Ascend910B3,1,0", [["a"]]),
        ("a,Ascend910B3,1,0:;b,Ascend910B3,1,0:", [["a"], ["b"]]),
        (",,0,0:;a,Ascend910B3,1,0:;", [[], ["a"]]),
        (" a , Ascend910B3 , 1 , 0 :;", [["a"]]),
        ("a,Ascend910B3,1,0,more:;", [["a"]]),
    ],
    ids=["none", "no separators", "no last semicolon", "HAMi's empty device", "blanks", "fields to come"],
)
def test_forms_of_other_writers(text, slots) -> None:
    assert [[each.id for each in slot] for slot in read(text)] == slots


def test_the_kinds_of_chips_that_a_pod_holds() -> None:
    keys = ["hami.io/Ascend910B4-1-devices-allocated", "hami.io/Ascend310P-devices-to-allocate", "hami.io/vgpu-node"]
    assert list(wire.words_held(dict.fromkeys(keys, ""))) == ["Ascend910B4-1"]


@pytest.mark.parametrize(
    ("text", "memories"),
    [
        ("a,Ascend910B3", [WHOLE]),
        ("a,Ascend910B3,many,0:", [WHOLE]),
        ("a,Ascend910B3,-5,0:b,Ascend910B3,7,0:;", [WHOLE, 7]),
        (",Ascend910B3,7,0:b,Ascend910B3,8,0:;", [8]),
    ],
)
def test_a_device_of_which_only_the_uuid_can_be_read_is_all_of_the_chip(text, memories) -> None:
    (slot,), error = wire.read_slots({ALLOCATED: text}, "Ascend910B3", "ns/a")
    assert [each.memory for each in slot] == memories
    assert (error.problem.subject, error.problem.field) == ("Pod ns/a", f"metadata.annotations[{ALLOCATED}]")


def test_runtime_information_that_cannot_be_read_leaves_the_devices() -> None:
    written = {ALLOCATED: "a,Ascend910B3,16384,0:;", "huawei.com/Ascend910B3": "{"}
    slots, error = wire.read_slots(written, "Ascend910B3", "ns/a")
    assert slots == [[device("a", 16384)]]
    assert error.problem.field == "metadata.annotations[huawei.com/Ascend910B3]"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "index", "count", "custominfo", "NetworkID", "health"]), inner)
    ),
    max_leaves=12,
)


@given(text=st.text(max_size=40) | JSON.map(json.dumps))
def test_nothing_that_a_node_registers_raises_anything_else(text) -> None:
    try:
        cards = registered(text)
    except FormatError:
        return
    assert len({card.id for card in cards}) == len(cards)


@given(text=st.text(alphabet="ab,;: 019-x", max_size=40), runtime=st.text(max_size=10) | JSON.map(json.dumps))
def test_nothing_that_a_pod_carries_raises_at_all(text, runtime) -> None:
    slots, error = wire.read_slots({ALLOCATED: text, wire.runtime("Ascend910B3"): runtime}, "Ascend910B3", "ns/a")
    assert all(each.id and each.memory >= WHOLE for slot in slots for each in slot)
    assert error is None or isinstance(error, FormatError)
