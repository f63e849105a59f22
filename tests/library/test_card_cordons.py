"""Cordoned cards: the annotation of a Node, the fact, and that no family gives them to pods."""

import json

import pytest
from deviceshare.families import card_cordons
from deviceshare.model import CardCordon, FormatError, NodeFact
from deviceshare.objects import decode_node
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import ask, card, cards, chosen, cluster, codes, container, node, share, share_cards, vgpu

REGISTER = "GPU-0,10,32000,V100,true,hami-core:GPU-1,10,32000,V100,true,hami-core:"
ENTRY = {"by": "alice", "reason": 'fan: broken, "loud"', "since": "2026-01-02T03:04:05Z"}


def fact(cordoned: str | None, **annotations: str) -> NodeFact:
    found = {"volcano.sh/node-vgpu-register": REGISTER, **annotations}
    if cordoned is not None:
        found[card_cordons.ANNOTATION] = cordoned
    return decode_node(json.dumps({"metadata": {"name": "n1", "annotations": found}}).encode())


def named(found: NodeFact) -> list[str]:
    return [each.id for each in found.cards if each.cordoned]


def test_a_node_without_the_annotation_has_no_cordons():
    assert fact(None).cordons == ()
    assert named(fact(None)) == []


@pytest.mark.parametrize("name", ["GPU-1", "1"])
def test_a_card_is_named_by_id_or_index(name):
    found = fact(json.dumps({name: ENTRY}))
    assert (named(found), found.problems) == (["GPU-1"], ())
    assert found.cordons == (CardCordon("GPU-1", **ENTRY),)


@pytest.mark.parametrize("text", ["GPU-1", " GPU-1 , ", "1", "1,GPU-1"])
def test_by_hand_a_list_suffices(text):
    found = fact(text)
    assert (named(found), found.cordons, found.problems) == (["GPU-1"], (CardCordon("GPU-1"),), ())


@pytest.mark.parametrize("text", ["{", '{"GPU-1": {"by": "a"}', '["GPU-1"]', "GPU-1 GPU-0", "[GPU-1]"])
def test_a_malformed_annotation_is_a_problem_and_cordons_nothing(text):
    found = fact(text)
    assert named(found) == []
    (problem,) = found.problems
    assert card_cordons.ANNOTATION in problem.field
    assert len(found.cards) == 2


@pytest.mark.parametrize(
    ("details", "part", "value", "reason"),
    [
        ("1", "", "1", ""),
        ("null", "", "null", ""),
        ('["fan"]', "", '["fan"]', ""),
        ('{"by": 3, "reason": "fan"}', ".by", "3", "fan"),
        ('{"by": "alice", "reason": 4711}', ".reason", "4711", ""),
    ],
)
def test_details_that_cannot_be_read_are_a_problem_and_the_cards_stay_cordoned(details, part, value, reason):
    found = fact(f'{{"GPU-0": {{"by": "bob"}}, "GPU-1": {details}}}')
    assert named(found) == ["GPU-0", "GPU-1"]
    assert (found.cordons[0].by, found.cordons[1].reason) == ("bob", reason)
    (problem,) = found.problems
    assert problem.field == f"metadata.annotations[{card_cordons.ANNOTATION}][GPU-1]{part}"
    assert problem.value == value


def test_an_unknown_card_is_a_problem_and_the_others_are_cordoned():
    found = fact(json.dumps({"GPU-9": ENTRY, "GPU-0": ENTRY}))
    assert named(found) == ["GPU-0"]
    (problem,) = found.problems
    assert problem.value == "GPU-9"


@pytest.mark.parametrize("write", [json.dumps, ",".join], ids=["json", "list"])
def test_too_many_cards_are_a_problem_and_the_first_ones_are_cordoned(write):
    names = {f"{at}": {} for at in range(card_cordons.MOST + 1)}
    found, (problem,) = card_cordons.read(write(names), "Node n1")
    assert [each.id for each in found] == list(names)[: card_cordons.MOST]
    assert problem.value == f"{card_cordons.MOST + 1} cards"
    assert named(fact(write(names))) == ["GPU-0", "GPU-1"]


def test_hamis_list_cordons_hamis_cards():
    register = (
        "GPU-0,10,7680,100,NVIDIA-Tesla P4,0,true,0,hami-core:GPU-1,10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:"
    )
    annotations = {"hami.io/node-nvidia-register": register, "hami.io/device-cordon": "GPU-1, GPU-gone,"}
    found = decode_node(json.dumps({"metadata": {"name": "n1", "annotations": annotations}}).encode())
    assert (named(found), found.problems) == (["GPU-1"], ())
    assert found.cordons[0].by == "hami.io/device-cordon"


texts = st.text(max_size=20)


@given(st.dictionaries(st.text("abc0-", min_size=1), st.tuples(texts, texts, texts), max_size=5))
def test_what_is_written_is_read(entries):
    cordons = tuple(CardCordon(name, *entry) for name, entry in entries.items())
    text = card_cordons.write(cordons)
    if not cordons:
        assert text is None
        return
    found, problems = card_cordons.read(text, "Node n1")
    assert (set(found), problems) == (set(cordons), [])


@given(st.text())
def test_any_text_is_read_or_an_error(text):
    try:
        found, _ = card_cordons.read(text, "Node n1")
    except FormatError:
        return
    assert len(found) <= card_cordons.MOST


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (cards(2), vgpu(1, 100)),
        (cards(2, mode="mps"), vgpu(1, 100)),
        (cards(2, mode="mig", model="A30", memory=24576), vgpu(1, 100)),
        (share_cards(2), share(100)),
        (share_cards(2, memory=0), ask(container(**{"volcano.sh/gpu-number": 1}))),
        (cards(2, mode="hami-gpu"), ask(container(**{"nvidia.com/gpu": 1}))),
    ],
    ids=["hami-core", "mps", "mig", "gpu-share", "gpu-number", "hami-gpu"],
)
def test_no_family_gives_cordoned_cards(kind, what):
    # Without geometries no card in MIG mode is allocated.
    first, second = kind
    allocator = cluster(node("n1", [first, second], **{"nvidia.com/gpu": 20}))
    if first.mode == "mig":
        assert "CardCordoned" not in codes(allocator, what)
    else:
        assert allocator.place(what) is not None
        allocator.set_node(node("n1", [replace(first, cordoned=True), second], **{"nvidia.com/gpu": 20}))
        assert chosen(allocator.place(what)) == [1]
    allocator.set_node(node("n1", [replace(each, cordoned=True) for each in kind], **{"nvidia.com/gpu": 20}))
    assert "CardCordoned" in codes(allocator, what)


def test_a_card_is_given_again_after_the_cordon():
    allocator = cluster(node("n1", [replace(card(0), cordoned=True)]))
    assert allocator.place(vgpu()) is None
    allocator.set_node(node("n1", [card(0)]))
    assert allocator.place(vgpu()) is not None
