"""Requests for Ascend vNPUs in HAMi's format: the part of a chip that each means, and invalid ones."""

import pytest
from deviceshare.model import DeviceGrant
from support.builders import ask, container
from support.hami_vnpu import B3, FAMILY, P310, allocator, chips, cuts, limits, npu, npu_node, shared

TEMPLATES = [
    ("Ascend910A", [("vir02", 2184), ("vir04", 4369), ("vir08", 8738), ("vir16", 17476)], 32768, 32768),
    ("Ascend910B2", [("vir03_1c_8g", 8192), ("vir06_1c_16g", 16384), ("vir12_3c_32g", 32768)], 65536, 65536),
    ("Ascend910B3", [("vir05_1c_16g", 16384), ("vir10_3c_32g", 32768)], 65536, 65536),
    ("Ascend910B4", [("vir05_1c_8g", 8192), ("vir10_3c_16g", 16384)], 32768, 32768),
    ("Ascend910B4-1", [("vir05_1c_16g", 16384), ("vir10_3c_32g", 32768)], 65536, 65536),
    ("Ascend310P", [("vir01", 3072), ("vir02", 6144), ("vir04", 12288)], 21527, 24576),
]
"""Of each published chip: its templates by memory, what of its memory can be given, and what it is sold with."""


def boundaries() -> list[tuple[str, int, str, int]]:
    rows = []
    for word, templates, allocatable, capacity in TEMPLATES:
        least = 1
        for name, memory in templates:
            rows += [(word, least, f"{word}/{name}", memory), (word, memory, f"{word}/{name}", memory)]
            least = memory + 1
        rows += [(word, least, word, allocatable), (word, capacity, word, allocatable)]
    return rows


@pytest.mark.parametrize(("word", "memory", "detail", "charged"), boundaries())
def test_memory_is_rounded_up_to_a_template_or_the_whole_chip(word, memory, detail, charged) -> None:
    placement = allocator(npu_node(chips(1, word))).place(npu(1, memory, word=word))
    assert cuts(placement) == [("c0", detail, charged)]


@pytest.mark.parametrize(("word", "capacity"), [(word, capacity) for word, _, _, capacity in TEMPLATES])
def test_more_memory_than_a_chip_has_is_refused(word, capacity) -> None:
    """hami-over-capacity-becomes-zero: Volcano takes it for no memory at all, and the pod gets the least template."""
    problem = allocator(npu_node(chips(1, word))).why_not(npu(1, capacity + 1, word=word)).problem
    assert (problem.value, problem.expected) == (
        str(capacity + 1), f"at most {capacity} MiB, which is all of a {word}",
    )  # fmt: skip


def test_the_nominal_memory_means_the_whole_chip_and_the_user_hears_of_it() -> None:
    (grant,) = allocator(npu_node(chips())).place(npu(1, 24576)).grants
    assert grant.devices == (DeviceGrant("D0", 0, 21527, 0, P310, 24576),)
    assert FAMILY.caveats([grant]) == ("container c0 asks 24576 MiB and has a whole chip: 21527 MiB of it can be used",)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (npu(None, 3072), [("c0", "Ascend310P/vir01", 3072)]),
        (npu(1), [("c0", P310, 21527)]),
        (npu(1, 0), [("c0", P310, 21527)]),
        (npu(2, 12289), [("c0", P310, 21527)] * 2),
    ],
    ids=["memory alone means one", "nothing means all", "memory 0 is not set", "several whole chips"],
)
def test_what_a_request_means(what, expected) -> None:
    assert cuts(allocator(npu_node(chips(2))).place(what)) == expected


@pytest.mark.parametrize(
    ("what", "field", "expected"),
    [
        (npu(0), "Ascend310P", "1 to 128 chips, or none of its resources"),
        (npu(10**15), "Ascend310P", "1 to 128 chips, or none of its resources"),
        (npu(2, 6144), "Ascend310P-memory", "more than 12288 MiB or nothing: 2 chips can only be had whole"),
        (npu(1, 100, 50), "Ascend310P-core", "nothing: without the annotation huawei.com/vnpu-mode: hami-core"),
        (shared(1, 100, 101), "Ascend310P-core", "0 to 100 (percent of each chip)"),
        (shared(None, None, 50), "Ascend310P-core", "huawei.com/Ascend310P beside it"),
        (
            ask(container("a", **limits()), container("b", **limits(word=B3))),
            "Ascend910B3",
            "huawei.com/Ascend310P alone: no node has two kinds of Ascend chips",
        ),
    ],
)
def test_invalid_requests_are_refused_with_their_field(what, field, expected) -> None:
    problem = allocator(npu_node(chips(2))).why_not(what).problem
    assert problem.field.endswith(f".resources.limits[huawei.com/{field}]")
    assert problem.expected.startswith(expected)


def test_a_mode_that_is_none_is_refused() -> None:
    what = npu(annotations={"huawei.com/vnpu-mode": "hami"})
    problem = allocator(npu_node(chips())).why_not(what).problem
    assert str(problem) == (
        "Pod: metadata.annotations[huawei.com/vnpu-mode]: 'hami' is not valid: "
        "expected hami-core, or nothing for a template"
    )
