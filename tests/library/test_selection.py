"""Which models a wanted type means, and which cards indexes and ids choose."""

import pytest
from deviceshare.families.selection import type_matches
from deviceshare.formats.card_lists import items
from support.builders import card, chosen, cluster, node, vgpu

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


def test_without_an_a10_the_word_matches_longer_names():
    assert type_matches("A10", ["NVIDIA-A100-SXM4-40GB", "Tesla-T4"]) == [True, False]


def test_empty_items_of_a_list_do_not_count():
    assert items(" H100,, T4 ,") == ("H100", "T4")
    assert items(None) == ()


@pytest.mark.parametrize(
    ("wishes", "cards"),
    [
        ({"volcano.sh/gpu-index": "2,0"}, [2, 0]),
        ({"volcano.sh/gpu-unhealthy-ids": "GPU-3, 2"}, [1, 0]),
        ({"volcano.sh/gpu-index": "1,2,3", "volcano.sh/vgpu-nouse-gpuuuid": "GPU-2"}, [3, 1]),
        ({"volcano.sh/gpu-index": "1,2", "volcano.sh/vgpu-use-gpuuuid": "GPU-2,GPU-3"}, None),
    ],
)
def test_vgpus_are_chosen_by_index_and_id_together(wishes, cards):
    four = cluster(node("n1", [card(at) for at in range(4)]))
    placement = four.place(vgpu(2, 100, annotations=wishes))
    assert (chosen(placement) if placement else None) == cards


def test_each_choice_that_leaves_no_card_is_named():
    wishes = {"volcano.sh/gpu-index": "1", "volcano.sh/vgpu-use-gpuuuid": "GPU-0", "volcano.sh/gpu-unhealthy-ids": "1"}
    refusals = cluster(node("n1", [card(0), card(1)])).why_not(vgpu(1, 100, annotations=wishes)).refusals
    assert [(refusal.line, refusal.cards) for refusal in refusals] == [
        ("1 node(s) had cards other than volcano.sh/vgpu-use-gpuuuid GPU-0", 1),
        ("1 node(s) had cards other than volcano.sh/gpu-index 1", 1),
        ("1 node(s) had cards that the pod excludes: 1", 1),
    ]


@pytest.mark.parametrize("index", ["GPU-0", "0,0", "-1", "1.5"])
def test_indexes_that_are_none_are_a_problem_of_the_pod(index):
    problem = cluster(node("n1", [card(0)])).why_not(vgpu(annotations={"volcano.sh/gpu-index": index})).problem
    assert (problem.field, problem.value) == ("metadata.annotations[volcano.sh/gpu-index]", index)


@pytest.mark.parametrize("name", ["volcano.sh/vgpu-use-gpuuuid", "volcano.sh/gpu-index", "nvidia.com/use-gputype"])
def test_reasons_have_the_first_items_of_long_lists(name):
    wishes = {name: ",".join(map(str, range(200, 700)))}
    (refusal,) = cluster(node("n1", [card(0)])).why_not(vgpu(1, 100, annotations=wishes)).refusals
    assert refusal.line.endswith(f"{name} 200,201,202,203 and 496 more")
