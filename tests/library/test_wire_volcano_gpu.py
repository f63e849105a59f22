import pytest
from deviceshare.families.card_lists import mark_unhealthy
from deviceshare.families.volcano_gpu import wire
from deviceshare.model import Card, FormatError
from hypothesis import given
from hypothesis import strategies as st

SEED = {wire.MEMORY: 89424, wire.NUMBER: 8}


def test_the_seeds_node_has_eight_cards_of_11178():
    cards = wire.read_cards(SEED, "gpu-1")
    assert cards[0] == Card("0", 0, 11178, 11178, 100, "", True, "gpu-share")
    assert [card.id for card in cards] == list("01234567")
    assert {card.memory for card in cards} == {11178}


def test_memory_that_does_not_divide_is_rounded_down():
    assert {card.memory for card in wire.read_cards({wire.MEMORY: 100, wire.NUMBER: 3}, "n")} == {33}


def test_a_node_without_the_plugin_has_no_cards():
    assert wire.read_cards({"cpu": 4000}, "n") == ()
    assert wire.read_cards({wire.MEMORY: 0, wire.NUMBER: 0}, "n") == ()


def test_cards_that_are_only_counted_can_be_taken_by_one_pod_each():
    cards = wire.read_cards({wire.NUMBER: 2}, "n")
    assert [(card.slots, card.memory) for card in cards] == [(1, 0), (1, 0)]


@pytest.mark.parametrize("capacity", [{wire.MEMORY: 100}, {wire.MEMORY: 100, wire.NUMBER: 0}, {wire.NUMBER: 10**9}])
def test_memory_without_cards_and_absurd_numbers_are_refused(capacity):
    with pytest.raises(FormatError, match=r"Node n: status\.capacity\[volcano\.sh/gpu-number\]"):
        wire.read_cards(capacity, "n")


@pytest.mark.parametrize(
    ("text", "sick"),
    [
        ("", []),
        ("0", [0]),
        ("3,0", [0, 3]),
        (" 1 , ,2,", [1, 2]),
        ("07", [7]),
        ("9", []),
        ("GPU-xxxx-1234,5", [5]),
        ("-1,x", []),
    ],
)
def test_unhealthy_cards_are_named_by_index_and_unknown_items_ignored(text, sick):
    assert [card.index for card in mark_unhealthy(wire.read_cards(SEED, "n"), text) if not card.healthy] == sick


def test_cards_with_a_uuid_are_unhealthy_by_uuid_too():
    cards = (Card("GPU-a", 0, 1, 1, 100), Card("GPU-b", 1, 1, 1, 100), Card("GPU-c", 2, 1, 1, 100))
    assert [card.healthy for card in mark_unhealthy(cards, "GPU-a, 2")] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "indexes"), [("0", (0,)), ("0,3", (0, 3)), (" 3, 0 ", (3, 0)), ("2,", (2,)), ("", ()), (" ", ())]
)
def test_the_index_is_read_in_its_order(text, indexes):
    assert wire.read_index(text, "default/a") == indexes


@pytest.mark.parametrize("text", ["x", "0,-1", "1.5", "0,0", "GPU-a", "0 1", "٣"])
def test_a_wrong_index_names_the_pod(text):
    with pytest.raises(FormatError, match=r"Pod default/a: metadata\.annotations\[volcano\.sh/gpu-index\]"):
        wire.read_index(text, "default/a")


@given(st.lists(st.integers(0, 1000), unique=True))
def test_a_written_index_is_read_back(indexes):
    assert wire.read_index(wire.write_index(indexes), "p") == tuple(indexes)


def test_the_time_is_in_nanoseconds():
    assert wire.write_predicate_time(1593764466.5) == "1593764466500000000"
