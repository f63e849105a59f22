"""Which models a wanted type means."""

import pytest
from deviceshare.families.selection import type_matches
from deviceshare.formats.card_lists import items

MODELS = [
    "",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA A10",
    "NVIDIA-NVIDIA L4",
    "NVIDIA-L40S",
    "Tesla-T4",
    "NVIDIA H100 80GB HBM3",
]


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("A10", ["NVIDIA A10"]),
        ("a100", ["NVIDIA-A100-SXM4-40GB"]),
        ("L4", ["NVIDIA-NVIDIA L4"]),
        ("tesla t4", ["Tesla-T4"]),
        ("H100-80GB", ["NVIDIA H100 80GB HBM3"]),
        ("40GB", ["NVIDIA-A100-SXM4-40GB"]),
        ("L40", ["NVIDIA-L40S"]),
        ("H200", []),
        ("-", []),
    ],
)  # fmt: skip
def test_whole_words_first_and_parts_of_words_where_there_is_none(wanted, meant):
    assert [name for name, matches in zip(MODELS, type_matches(wanted, MODELS), strict=True) if matches] == meant


def test_without_an_a10_that_word_means_what_begins_so():
    assert type_matches("A10", ["NVIDIA-A100-SXM4-40GB", "Tesla-T4"]) == [True, False]


def test_empty_items_of_a_list_do_not_count():
    assert items(" H100,, T4 ,") == ("H100", "T4")
    assert items(None) == ()
