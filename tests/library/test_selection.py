"""Which models a wanted type means, and which cards indexes and ids choose."""

import pytest
from deviceshare.conf import BUILT_IN
from deviceshare.families.card_lists import items
from deviceshare.families.selection import type_matches
from deviceshare.families.vgpu.section import MigGroup, MigInstance, MigModel, VgpuConf
from msgspec.structs import replace
from support.builders import ask, card, chosen, cluster, container, node, share, share_cards, vgpu, whole, whole_cards

ONE_GROUP = MigModel(("A100",), (MigGroup("group1", (MigInstance("1g.5gb", 5120, 7),)),))

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
        ("L40", []),
        ("H200", []),
        ("-", []),
    ],
)  # fmt: skip
def test_a_model_is_matched_by_whole_words(wanted, meant):
    assert matched(wanted, MODELS) == meant
    assert matched(wanted, MODELS, parts=True) == (meant or (["NVIDIA-L40S"] if wanted == "L40" else []))


def matched(wanted: str, names: list[str], *, parts: bool = False) -> list[str]:
    matches = type_matches(wanted, names, parts=parts)
    return [name for name, matching in zip(names, matches, strict=True) if matching]


A100 = "NVIDIA-A100-SXM4-40GB"
A10_ALONE = {"nvidia.com/use-gputype": "A10"}
NODES_WITH_AN_A100 = [
    pytest.param(node("a", [card(0, model=A100)]), vgpu(1, 10, annotations=A10_ALONE), id="hami-core"),
    pytest.param(node("a", [card(0, model=A100, mode="mps")]), vgpu(1, 10, annotations=A10_ALONE), id="mps"),
    pytest.param(node("a", [card(0, model=A100, mode="mig")]), vgpu(1, 10, annotations=A10_ALONE), id="mig"),
    pytest.param(
        node("a", [replace(each, type=A100) for each in share_cards(1)]),
        replace(share(10), annotations=tuple(A10_ALONE.items())),
        id="gpu-share",
    ),
    pytest.param(
        node("a", [replace(each, type=A100) for each in whole_cards(1)]),
        replace(whole(1), annotations=tuple(A10_ALONE.items())),
        id="gpu-number",
    ),
    pytest.param(
        node("a", [card(0, model=A100, mode="hami-gpu")], **{"nvidia.com/gpu": 10}),
        ask(container(**{"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10}), annotations=A10_ALONE),
        id="hami-gpu",
    ),
    pytest.param(
        node("a", labels={"nvidia.com/gpu.product": A100}, **{"nvidia.com/gpu": 1}),
        ask(container(**{"nvidia.com/gpu": 1}), annotations=A10_ALONE),
        id="whole GPUs",
    ),
]


@pytest.mark.parametrize(("only", "what"), NODES_WITH_AN_A100)
def test_an_a10_is_no_a100_also_where_no_a10_is_registered(only, what):
    devices = BUILT_IN.having(VgpuConf(geometries=(ONE_GROUP,)))
    assert cluster(only, devices=devices).place(what) is None
    assert cluster(only, devices=devices, type_parts=True).place(what) is not None
    excluding = replace(what, annotations=(("nvidia.com/nouse-gputype", "A10"),))
    assert cluster(only, devices=devices).place(excluding) is not None
    assert cluster(only, devices=devices, type_parts=True).place(excluding) is None


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
