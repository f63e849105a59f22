"""The largest free share of a card is what placement gives a pod, and no more."""

from pathlib import Path

import hypothesis.strategies as st
import pytest
from deviceshare.conf import default_conf, parse_devices
from deviceshare.families import CardCounter
from deviceshare.families.hami_vnpu.section import VnpuConf
from deviceshare.model import WHOLE, ContainerGrant, DeviceGrant
from deviceshare.state import shares_by_card
from hypothesis import given
from msgspec.structs import replace
from support import hami_vnpu, mindcluster
from support.builders import card, cluster, node, share, share_cards, vgpu, whole, whole_cards

MIG = parse_devices(
    (Path(__file__).parents[1] / "data" / "device-configs" / "volcano-vgpu-device-plugin.yaml").read_text(), "x"
)
A100 = card(0, memory=40960, slots=7, model="NVIDIA-NVIDIA A100-SXM4-40GB", mode="mig")
V100 = card(0, memory=32768, slots=4)
MEMORY = st.sampled_from([0, 1000, 5000, 6000, 9000, 12000, 20000])
VGPU = st.builds(vgpu, st.just(1), MEMORY, st.sampled_from([0, 0, 30, 100]))


def counted(allocator, of, *requests):
    """Place those of the requests that fit; return what is shown of the card."""
    pods = []
    for number, what in enumerate(requests):
        placement = allocator.place(what)
        if placement is not None:
            allocator.take(f"u{number}", placement)
            pods.append(shares_by_card(placement.grants)[of.id])
    return CardCounter(allocator.conf).count(of, pods)


def assert_exact(allocator, largest, request):
    """Check that a request for the largest free share fits, and none for more."""
    assert not largest or allocator.place(request(largest)) is not None
    assert allocator.place(request(largest + 1)) is None


@given(st.lists(VGPU, max_size=6), st.sampled_from([V100, A100]))
def test_the_largest_share_of_a_vgpu_card(requests, of):
    allocator = cluster(node("n1", [of]), devices=MIG)
    found = counted(allocator, of, *requests)
    assert_exact(allocator, found.largest_free, lambda memory: vgpu(1, memory))


@given(st.lists(st.builds(share, st.sampled_from([500, 4000])), max_size=5))
def test_the_largest_share_of_a_gpu_share_card(requests):
    (of,) = share_cards(1)
    allocator = cluster(node("n1", [of]))
    assert_exact(allocator, counted(allocator, of, *requests).largest_free, share)


def test_a_card_that_is_allocated_whole_has_no_free_share():
    (of,) = whole_cards(1)
    allocator = cluster(node("n1", [of]))
    assert counted(allocator, of).largest_free == of.cores
    assert counted(allocator, of, whole(1)).largest_free == 0


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ([], 32768),
        ([vgpu(1, 1000, 100)], 0),
        ([vgpu(1, 1000)] * 4, 0),
        ([vgpu(1, 1000)] * 3, 29768),
        ([vgpu(1, 1000, 40)], 31768),
    ],
)
def test_without_free_slots_or_cores_nothing_is_free(used, expected):
    assert counted(cluster(node("n1", [V100])), V100, *used).largest_free == expected


def test_the_free_instances_of_a_mig_card_count_one_by_one():
    allocator = cluster(node("n1", [A100]), devices=MIG)
    assert counted(allocator, A100).largest_free == 40960
    usage, largest = counted(allocator, A100, vgpu(1, 5000), vgpu(1, 5000), vgpu(1, 5000))
    assert 0 < largest < A100.memory - usage.memory, "the free memory is in several instances"
    assert CardCounter(default_conf()).count(A100, ()).largest_free == 0, "no geometry of the model is known"


CHIPS = {chip.word: chip for chip in hami_vnpu.DEVICES.section(VnpuConf).chips}
NPUS = {
    word: replace(hami_vnpu.chips(1, word)[0], cores=CHIPS[word].ai_cores)
    for word in (hami_vnpu.B3, hami_vnpu.P310, hami_vnpu.SMALL.word)
}


@given(st.sampled_from(list(NPUS)), st.lists(st.integers(1, 8), max_size=6))
def test_the_largest_template_of_a_chip(word, eighths):
    of = NPUS[word]
    allocator = hami_vnpu.allocator(hami_vnpu.npu_node([of]))
    asked = [hami_vnpu.npu(1, of.memory * each // 8, word=word) for each in eighths]
    found = counted(allocator, of, *asked)
    if found.largest_free < of.memory:
        assert_exact(allocator, found.largest_free, lambda memory: hami_vnpu.npu(1, memory, word=word))
    assert 0 <= found.usage.cores <= CHIPS[word].ai_cores


def test_the_ai_cores_of_templates_are_cores_in_use():
    of = NPUS[hami_vnpu.B3]
    allocator = hami_vnpu.allocator(hami_vnpu.npu_node([of]))
    half = hami_vnpu.npu(1, of.memory // 2, word=hami_vnpu.B3)
    assert counted(allocator, of, half).usage.cores == 10
    found = counted(hami_vnpu.allocator(hami_vnpu.npu_node([of])), of, half, half)
    assert (found.usage.cores, found.usage.slots, found.largest_free) == (20, 2, 0)
    whole_chip = ContainerGrant("main", 0, "hami-vnpu", (DeviceGrant(of.id, 0, WHOLE, 0, hami_vnpu.B3),))
    of_hami_core = replace(of, cores=100)
    pods = [shares_by_card([whole_chip])[of.id]]
    assert CardCounter(allocator.conf).count(of_hami_core, pods).usage.cores == 100


@given(st.lists(st.sampled_from([1, 2, 4, 8]), max_size=5))
def test_the_largest_part_of_a_mindcluster_chip(parts):
    (of,) = mindcluster.chips(1)
    allocator = cluster(mindcluster.npus())
    found = counted(allocator, of, *(mindcluster.asks(cores) for cores in parts))
    larger = [cores for cores in (1, 2, 4, 8) if cores > found.largest_free]
    assert not any(allocator.place(mindcluster.asks(cores)) for cores in larger)
    assert not found.largest_free or allocator.place(mindcluster.asks(found.largest_free)) is not None
