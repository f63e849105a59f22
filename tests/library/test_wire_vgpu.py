import pytest
from deviceshare.families.vgpu import wire
from deviceshare.model import Card, ContainerGrant, DeviceGrant, FormatError
from hypothesis import given
from hypothesis import strategies as st

V100 = "NVIDIA-Tesla V100-PCIE-32GB"
TWO = f"GPU-03f6,10,32768,{V100},true,hami-core:GPU-7aa1,10,32768,{V100},false,mig:"


def test_a_register_is_read_card_by_card():
    assert wire.read_register(TWO, "gpu-1") == (
        Card("GPU-03f6", 0, 10, 32768, 100, V100, True, "hami-core"),
        Card("GPU-7aa1", 1, 10, 32768, 100, V100, False, "mig"),
    )


def test_a_plugin_without_cards_registers_none():
    assert wire.read_register("", "gpu-1") == ()
    assert wire.read_register("  ", "gpu-1") == ()


def test_more_fields_an_empty_mode_and_blanks_are_accepted():
    (card,) = wire.read_register(" GPU-1 , 10, 100 ,T4,True,,numa0", "n")
    assert card == Card("GPU-1", 0, 10, 100, 100, "T4", True, "hami-core")


@pytest.mark.parametrize(
    ("text", "value", "hint"),
    [
        ("GPU-1,10,100,T4,true:", "GPU-1,10,100,T4,true", "six fields"),
        ("GPU-1,ten,100,T4,true,hami-core:", "ten", "how many pods"),
        ("GPU-1,10,-100,T4,true,hami-core:", "-100", "memory in MiB"),
        ("GPU-1,10,1e3,T4,true,hami-core:", "1e3", "memory in MiB"),
        ("GPU-1,10,99999999999999999999,T4,true,hami-core:", "99999999999999999999", "memory in MiB"),
        ("GPU-1,10,100,T4,yes,hami-core:", "yes", "true or false"),
        (",10,100,T4,true,hami-core:", "", "the UUID"),
        ("GPU;1,10,100,T4,true,hami-core:", "GPU;1", "the UUID"),
        ("GPU-1,10,100,T4,true,hami-core:x:GPU-2,10,100,T4,true,hami-core:", "x", "six fields"),
        ("GPU-1,10,100,T4,true,hami-core::GPU-2,10,100,T4,true,hami-core:", "", "six fields"),
        ("GPU-1,10,100,T4,true,mig:GPU-1,10,100,T4,true,mig:", "GPU-1", "no other card"),
        ("[]", "[]", "six fields"),
    ],
)
def test_a_malformed_register_names_node_key_value_and_expected_value(text, value, hint):
    with pytest.raises(FormatError) as caught:
        wire.read_register(text, "gpu-1")
    problem = caught.value.problem
    assert problem.subject == "Node gpu-1"
    assert wire.REGISTER in problem.field
    assert problem.value == value
    assert hint in problem.expected


def grant(position: int, *devices: DeviceGrant) -> ContainerGrant:
    return ContainerGrant(f"c{position}", position, "hami-core", devices)


A, B = DeviceGrant("GPU-a", 0, 3000, 50), DeviceGrant("GPU-b", 1, 1024, 0)


@pytest.mark.parametrize(
    ("grants", "containers", "text"),
    [
        ([grant(0, DeviceGrant("UUID", 3, 3000, 50))], 1, "UUID,NVIDIA,3000,50:"),
        ([grant(0, A, B)], 1, "GPU-a,NVIDIA,3000,50:GPU-b,NVIDIA,1024,0:"),
        ([grant(1, A)], 2, ";GPU-a,NVIDIA,3000,50:"),
        ([grant(0, A)], 3, "GPU-a,NVIDIA,3000,50:;;"),
        ([grant(2, B), grant(0, A)], 3, "GPU-a,NVIDIA,3000,50:;;GPU-b,NVIDIA,1024,0:"),
        ([grant(0, DeviceGrant("GPU-m", 0, 3000, 0, "1-0"))], 1, "GPU-m[1-0],NVIDIA,3000,0:"),
        ([grant(0, DeviceGrant("GPU-m", 0, 5120, 0, "1-0", asked=3000))], 1, "GPU-m[1-0],NVIDIA,3000,0:"),
        ([], 1, ""),
    ],
)
def test_each_container_has_its_slot(grants, containers, text):
    assert wire.write_ids(grants, containers) == text


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("", []),
        ("GPU-a,NVIDIA,3000,50:", [["GPU-a"]]),
        ("GPU-a,NVIDIA,3000,50", [["GPU-a"]]),
        ("GPU-a,NVIDIA,3000,50:;", [["GPU-a"], []]),
        (";GPU-a,NVIDIA,3000,50:GPU-b,NVIDIA,1,0:", [[], ["GPU-a", "GPU-b"]]),
        (",,0,0:;GPU-a,NVIDIA,3000,50:;", [[], ["GPU-a"], []]),
        ("GPU-a,NVIDIA,3000,50,{}:", [["GPU-a"]]),
        ("GPU-a[group1-0],NVIDIA,3000,50:", [["GPU-a"]]),
        ("GPU-a[,NVIDIA,3000,50:GPU-b[],NVIDIA,1,0:GPU-c[x,NVIDIA,1,0:", [["GPU-a", "GPU-b", "GPU-c"]]),
    ],
)
def test_other_writers_forms_are_read(text, slots):
    assert [[device.id for device in slot] for slot in wire.read_ids(text, "default/a")] == slots


def test_an_id_with_brackets_is_no_whole_card():
    ((one, two, three),) = wire.read_ids("GPU-a[group1-0],NVIDIA,1,0:GPU-b[],NVIDIA,1,0:GPU-c[x,NVIDIA,1,0:", "ns/a")
    assert (one.detail, two.detail, three.detail) == ("group1-0", "[]", "x")


def test_the_annotation_of_init_containers_is_named_in_its_errors():
    with pytest.raises(FormatError, match=r"deviceshare\.io/vgpu-init-ids"):
        wire.read_ids("x", "ns/a", wire.INIT_IDS)


@pytest.mark.parametrize(
    "text",
    [
        "GPU-a",
        "[group1-0],NVIDIA,0,0:",
        "GPU-a,NVIDIA,3000:",
        "GPU-a,NVIDIA,x,50:",
        "GPU-a,NVIDIA,-1,50:",
        ",NVIDIA,1,1:",
    ],
)
def test_malformed_ids_name_the_pod(text):
    with pytest.raises(FormatError, match=r"Pod default/a: metadata\.annotations\[volcano\.sh/vgpu-ids-new\]"):
        wire.read_ids(text, "default/a")


names = st.text("abcdefGPU0123456789-", min_size=1, max_size=12)
devices = st.builds(
    DeviceGrant,
    names,
    st.just(-1),
    st.integers(0, 10**6),
    st.integers(0, 100),
    st.one_of(st.just(""), st.just("0-3"), st.just("12-0")),
)


@given(st.lists(st.lists(devices, max_size=3), min_size=1, max_size=4))
def test_what_is_written_is_read_back_slot_for_slot(slots):
    grants = [grant(index, *slot) for index, slot in enumerate(slots) if slot]
    text = wire.write_ids(grants, len(slots))
    assert wire.read_ids(text, "default/a") == (slots if text else [])


@given(
    st.lists(
        st.tuples(names, st.integers(0, 10**6), st.integers(0, 10**6), st.booleans()), unique_by=lambda item: item[0]
    )
)
def test_any_well_formed_register_is_read(items):
    text = "".join(
        f"{uuid},{slots},{memory},T4,{str(healthy).lower()},hami-core:" for uuid, slots, memory, healthy in items
    )
    cards = wire.read_register(text, "n")
    assert [(card.id, card.slots, card.memory, card.healthy) for card in cards] == items
    assert [card.index for card in cards] == list(range(len(items)))


positions = st.integers(0, len(TWO))
damaged = st.builds(lambda start, end: TWO[:start] + TWO[end:], positions, positions)


@given(st.one_of(st.text(max_size=60), st.text("GPU-1,:;[]0true \u0663²", max_size=60), damaged))
def test_nothing_but_a_format_error_ever_comes_out(text):
    for read in (wire.read_register, wire.read_ids):
        try:
            read(text, "n")
        except FormatError as error:
            assert error.problem.subject.endswith(" n")  # noqa: PT017
