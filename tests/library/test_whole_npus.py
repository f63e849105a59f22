"""Whole NPUs of Ascend's own device plugin: plain amounts, beside nodes whose chips HAMi's plugin registers."""

import json

import pytest
from deviceshare.allocation import Allocator, ClaimCheck
from deviceshare.allocation.card_request import CardRequest
from deviceshare.model import Claim, NodeFact
from deviceshare.objects import decode_node
from deviceshare.policies import CARD_POLICIES
from deviceshare.queueing import Counting
from msgspec.structs import replace
from support.builders import codes, conf, node, take
from support.hami_vnpu import B3, DEVICES, FAMILY, P310, allocator, chips, npu, npu_node

NPU = f"huawei.com/{P310}"


def own(name: str = "own", count: int = 8, resource: str = NPU) -> NodeFact:
    """Return a node on which Ascend's own plugin offers whole NPUs."""
    return node(name, **{resource: count})


def test_names_that_are_no_chips_of_the_configuration_are_plain_amounts() -> None:
    for word in ("Ascend910", "Ascend310", "Ascend310B", "ascend910"):
        resource = f"huawei.com/{word}"
        one = allocator(own(resource=resource), npu_node(chips()))
        placement = take(one, npu(8, word=word), "a")
        assert (placement.node, placement.grants, dict(placement.resources)[resource]) == ("own", (), 8)
        assert codes(one, npu(1, word=word)) == {"InsufficientResource"}


def test_the_node_decides_what_the_name_of_a_chip_means() -> None:
    one = allocator(own(count=1), npu_node(chips(1), "registered"))
    granted = {}
    for uid in ("a", "b"):
        placement = take(one, npu(1), uid)
        granted[placement.node] = len(placement.grants)
    assert granted == {"own": 0, "registered": 1}
    assert codes(one, npu(1)) >= {"InsufficientResource"}
    assert one.place(npu(1, 100)) is None, "memory is a part of a registered chip"


def test_chips_whose_name_only_hami_uses_have_to_be_registered() -> None:
    offered = own(resource=f"huawei.com/{B3}")
    one = allocator(offered)
    assert codes(one, npu(1, word=B3)) == {"CardNotFound"}
    one.set_node(replace(offered, cards=tuple(chips(1, B3))))
    assert [grant.devices[0].id for grant in take(one, npu(1, word=B3), "a").grants] == ["D0"]


@pytest.mark.parametrize(
    "what",
    [
        npu(1, 100),
        npu(1, annotations={"huawei.com/vnpu-mode": "hami-core"}),
        npu(1, annotations={f"hami.io/use-{P310}-uuid": "D0"}),
        npu(1, annotations={f"hami.io/no-use-{P310}-uuid": "D0"}),
    ],
)
def test_what_asks_more_than_a_number_of_chips_needs_registered_ones(what) -> None:
    assert "CardNotFound" in codes(allocator(own()), what)


def test_a_node_with_chips_in_use_serves_no_whole_ones() -> None:
    one = allocator(npu_node(chips(1)))
    take(one, npu(1, 100), "a")
    assert one.place(npu(1)) is None


def test_where_the_family_is_off_the_number_of_chips_is_a_plain_amount() -> None:
    one = Allocator(replace(conf(), devices=DEVICES, families=frozenset()))
    for each in (own(), npu_node(chips(1), "registered")):
        one.set_node(each)
    assert take(one, npu(8), "a").grants == ()
    (refusal,) = one.why_not(npu(1, 100)).refusals
    assert (refusal.code, FAMILY.flag in refusal.text) == ("FamilyDisabled", True)


def test_whole_npus_are_not_allocated_where_a_registration_cannot_be_read() -> None:
    raw = {
        "metadata": {"name": "n1", "annotations": {f"hami.io/node-register-{P310}": "{"}},
        "status": {"allocatable": {"cpu": "4", "pods": "10", NPU: "8"}},
    }
    one = allocator(decode_node(json.dumps(raw).encode()))
    assert one.place(npu(1)) is None


def test_two_plugins_of_one_hardware_exclude_whole_npus_as_well() -> None:
    contested = replace(own(resource="huawei.com/Ascend910"), contested=("Ascend NPUs",))
    assert codes(allocator(contested), npu(1, word="Ascend910")) == {"CardsRegisteredTwice"}


def test_registered_npus_leave_the_model_of_gpus_on_the_node_alone() -> None:
    labels = {"nvidia.com/gpu.product": "Tesla-T4"}
    one = allocator(replace(node("n1", chips(1), **{NPU: 10, "nvidia.com/gpu": 4}), labels=labels))
    refused = replace(npu(), containers=(), annotations=(("nvidia.com/use-gputype", "A100"),))
    asking = replace(refused, containers=(replace(npu().containers[0], resources=(("nvidia.com/gpu", 1),)),))
    assert codes(one, asking) == {"NodeTypeMismatch"}


def test_a_claim_without_chips_is_one_for_a_node_of_whole_npus() -> None:
    check = ClaimCheck(replace(conf(), devices=DEVICES))
    empty = Claim(id="1", uid="u", namespace="ns", name="a")
    registered = {each.id: each for each in chips(1)}
    assert check.against_request(empty, npu(1), {}) == ""
    assert "hami-vnpu" in check.against_request(empty, npu(1), registered)


def test_a_pod_with_whole_npus_counts_no_memory() -> None:
    counting = Counting(replace(conf(), devices=DEVICES), [own(), npu_node(chips(1), "registered")])
    assert f"{NPU}-memory" in dict(counting.asked(npu(1)))
    assert dict(counting.held(npu(1), ())) == {NPU: 1, "pods": 1}


@pytest.mark.parametrize("policy", CARD_POLICIES)
def test_kernels_choose_between_chips_and_whole_npus_as_the_families_do(policy, monkeypatch) -> None:
    def decide() -> list[tuple[str, float, tuple]]:
        nodes = [own("a", 2), npu_node(chips(2), "b"), own("c", 3), npu_node(chips(3), "d")]
        one = allocator(*nodes, policy=policy, weight=10)
        made = []
        for number, count in enumerate((1, 2, 1, 1, 2, 1, 1, 1)):
            placement = one.place(npu(count))
            if placement is not None:
                one.take(f"u{number}", placement)
                made.append((placement.node, placement.score, placement.grants))
        return made

    by_kernels = decide()
    monkeypatch.setattr(CardRequest, "selectors", lambda self, codes, conf: None)
    assert by_kernels == decide()
    assert {name for name, _, _ in by_kernels} == {"a", "b", "c", "d"}
