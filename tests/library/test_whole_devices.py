"""Whole devices: plain amounts of a node, chosen by model; names that no node offers."""

import pytest
from deviceshare.allocation import Allocator
from deviceshare.model import NodeFact, PodRequest
from msgspec.structs import replace
from support.builders import ask, card, cluster, codes, container, node, share, share_cards, take, vgpu

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"


def whole_node(name: str, model: str = "", count: int = 4, **about: object) -> NodeFact:
    return node(name, labels={PRODUCT: model} if model else {}, **{GPU: count}, **about)


def gpus(count: int = 1, *, use: str = "", nouse: str = "", resource: str = GPU) -> PodRequest:
    wishes = {"nvidia.com/use-gputype": use, "nvidia.com/nouse-gputype": nouse}
    return ask(container(**{resource: count}), annotations={key: value for key, value in wishes.items() if value})


@pytest.fixture
def mixed() -> Allocator:
    return cluster(
        whole_node("a100", "NVIDIA-A100-SXM4-40GB"),
        whole_node("t4", "Tesla-T4"),
        whole_node("unknown"),
        node("plain"),
    )


def where(allocator: Allocator, what: PodRequest) -> list[str]:
    """Return the nodes that take a pod, by taking them away one after the other."""
    found = []
    while (placement := allocator.place(what)) is not None:
        found.append(placement.node)
        allocator.remove_node(placement.node)
    return sorted(found)


@pytest.mark.parametrize(
    ("wish", "nodes"),
    [
        ({}, ["a100", "t4", "unknown"]),
        ({"use": "A100,V100"}, ["a100"]),
        ({"use": "a100, tesla"}, ["a100", "t4"]),
        ({"nouse": "T4"}, ["a100", "unknown"]),
        ({"use": "A100,T4", "nouse": "t4"}, ["a100"]),
        ({"use": "H200"}, []),
    ],
)
def test_the_nodes_label_says_which_gpus_these_are(mixed, wish, nodes) -> None:
    assert where(mixed, gpus(**wish)) == nodes


def test_a_refusal_names_the_requested_and_the_found_types(mixed) -> None:
    lines = [refusal.line for refusal in mixed.why_not(gpus(use="V100", nouse="T4")).refusals]
    asked = "nvidia.com/use-gputype V100 and nvidia.com/nouse-gputype T4"
    assert lines == [
        f"2 node(s) had GPUs of type NVIDIA-A100-SXM4-40GB, Tesla-T4 for {asked}",
        f"1 node(s) had GPUs without the label nvidia.com/gpu.product for {asked}",
        "1 Insufficient nvidia.com/gpu (asked 1, at most 0 free, 1 missing)",
    ]


def test_many_models_are_not_all_listed() -> None:
    many = cluster(*(whole_node(f"n{at}", f"Model-{at}") for at in range(6)))
    (refusal,) = many.why_not(gpus(use="H200")).refusals
    assert refusal.text == (
        "node(s) had GPUs of type Model-0, Model-1, Model-2, Model-3 and 2 more for nvidia.com/use-gputype H200"
    )


def test_a_part_of_a_word_matches_nothing_and_users_hear_what_it_may_mean(mixed) -> None:
    assert mixed.place(gpus(use="A10")) is None
    (caveat,) = mixed.caveats(gpus(use="A10"))
    assert caveat == (
        "nvidia.com/use-gputype A10 is no whole word of any model here: without deviceshare.GPUTypeParts it matches "
        "nothing. It is a part of NVIDIA-A100-SXM4-40GB"
    )


def test_with_the_argument_a_part_of_a_word_matches_unless_a_card_has_the_word(mixed) -> None:
    mixed.set_configuration(replace(mixed.conf, type_parts=True))
    assert mixed.place(gpus(use="A10")).node == "a100"
    (caveat,) = mixed.caveats(gpus(use="A10"))
    assert caveat == (
        "nvidia.com/use-gputype A10 is no whole word of any model here: it was read as a part of NVIDIA-A100-SXM4-40GB"
    )
    assert mixed.caveats(gpus(use="A100", nouse="T4")) == ()
    mixed.set_node(node("shared", [card(0, model="NVIDIA A10")]))
    assert mixed.place(gpus(use="A10")) is None, "the word is the model of a vGPU card now"
    assert mixed.caveats(gpus(use="A10")) == ()
    assert mixed.place(vgpu(annotations={"nvidia.com/use-gputype": "A10"})).node == "shared"
    mixed.remove_node("shared")
    assert mixed.place(gpus(use="A10")).node == "a100"


def test_a_label_that_comes_later_counts(mixed) -> None:
    assert mixed.place(gpus(use="H100")) is None
    mixed.set_node(whole_node("unknown", "NVIDIA-H100-80GB-HBM3"))
    assert mixed.place(gpus(use="H100")).node == "unknown"
    mixed.set_node(whole_node("unknown"))
    assert mixed.place(gpus(use="H100")) is None


def test_mig_instances_of_the_vendors_plugin_are_of_the_nodes_model_too(mixed) -> None:
    slice_ = "nvidia.com/mig-1g.5gb"
    mixed.set_node(node("mig", labels={PRODUCT: "NVIDIA-A30"}, **{slice_: 4}))
    assert mixed.place(gpus(resource=slice_, use="A30")).node == "mig"
    assert codes(mixed, gpus(resource=slice_, use="A100")) == {"NodeTypeMismatch", "InsufficientResource"}


@pytest.mark.parametrize("resource", ["amd.com/gpu", "example.com/fpga"])
def test_devices_of_other_vendors_count(resource) -> None:
    two = cluster(node("n1", **{resource: 2}))
    take(two, gpus(resource=resource), "a")
    (refusal,) = two.why_not(gpus(2, resource=resource)).refusals
    assert refusal.line == f"1 Insufficient {resource} (asked 2, at most 1 free, 1 missing)"
    assert two.place(gpus(resource=resource, use="A100")) is not None, "the list is of NVIDIA's models"


def test_families_side_by_side_in_one_cluster() -> None:
    three = cluster(whole_node("a", "Tesla-T4"), node("b", [card(0)]), node("c", share_cards(2)))
    assert [three.place(what).node for what in (gpus(use="T4"), vgpu(), share(100))] == ["a", "b", "c"]


def test_a_node_whose_cards_two_plugins_register_takes_none_of_both() -> None:
    twice = NodeFact(name="n1", allocatable={"pods": 10, "cpu": 1000, GPU: 4}, contested=("NVIDIA GPUs",))
    one = cluster(twice)
    for what in (gpus(), vgpu(), share(1)):
        assert "CardsRegisteredTwice" in codes(one, what)
    (refusal,) = one.why_not(gpus()).refusals
    assert refusal.line == "1 node(s) had NVIDIA GPUs that two device plugins register"
    assert one.place(ask(container(cpu=500))) is not None


@pytest.mark.parametrize(
    ("resource", "hint"),
    [
        ("volcano.sh/vgpu-mem", "; did you mean volcano.sh/vgpu-memory?"),
        ("volcano.sh/gpu-memroy", "; did you mean volcano.sh/gpu-memory?"),
        ("volcano.sh/gpu_number", "; did you mean volcano.sh/gpu-number?"),
        ("huawei.com/npu-cores", "; did you mean huawei.com/npu-core?"),
        ("nvidia.com/gpus", "; did you mean nvidia.com/gpu?"),
        ("volcan.sh/gpu-number", "; did you mean volcano.sh/gpu-number?"),
        ("huawei.com/Ascend310P", ""),
        ("example.com/anything", ""),
    ],
)
def test_the_refusal_of_an_unknown_name_suggests_the_nearest_one_that_a_node_has(mixed, resource, hint) -> None:
    known = ("volcano.sh/vgpu-memory", "volcano.sh/gpu-memory", "volcano.sh/gpu-number", "huawei.com/npu-core")
    mixed.set_node(node("plain", **dict.fromkeys(known, 1)))
    refusal, *_ = mixed.why_not(gpus(resource=resource)).refusals
    assert refusal.code == "ResourceUnknown"
    assert refusal.text == f"Insufficient {resource}, which no node has{hint}"
    assert refusal.nodes == 4


def test_a_name_that_some_node_has_is_only_insufficient_elsewhere() -> None:
    one = cluster(node("a", **{"volcano.sh/vgpu-mem": 1}), node("b"))
    assert one.place(gpus(resource="volcano.sh/vgpu-mem")).node == "a"
    assert codes(one, gpus(2, resource="volcano.sh/vgpu-mem")) == {"InsufficientResource"}
