"""`deviceshare cordon card`: the annotation of a Node, in every kind of cluster."""

import json
from typing import Any

import pytest
from deviceshare.families import card_cordons
from deviceshare.objects import decode_node
from deviceshare_cli import cordon
from deviceshare_cli.errors import CommandError

REGISTER = "GPU-0,10,32000,V100,true,hami-core:GPU-1,10,32000,V100,true,hami-core:"
AT = 1_700_000_000.0


def node(**annotations: str) -> dict[str, Any]:
    found = {"volcano.sh/node-vgpu-register": REGISTER, **annotations}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "annotations": found}}


async def cordons(cluster: Any) -> list[tuple[str, str, str]]:
    found = decode_node(json.dumps(await cluster.get("Node", "", "gpu-1")).encode())
    return [(each.id, each.by, each.reason) for each in found.cordons]


async def test_cards_are_cordoned_and_uncordoned(cluster: Any) -> None:
    await cluster.create(node())
    done = await cordon.change_card(cluster, "gpu-1", "GPU-1", cordon.cordoning("alice", "fan", AT))
    assert done == "gpu-1/GPU-1 cordoned"
    await cordon.change_card(cluster, "gpu-1", "0", cordon.cordoning("bob", "", AT))
    assert await cordons(cluster) == [("GPU-0", "bob", ""), ("GPU-1", "alice", "fan")]
    await cordon.change_card(cluster, "gpu-1", "1", cordon.cordoning("carol", "ECC", AT))
    assert ("GPU-1", "carol", "ECC") in await cordons(cluster)
    assert await cordon.change_card(cluster, "gpu-1", "GPU-1", cordon.uncordoning()) == "gpu-1/GPU-1 uncordoned"
    assert await cordon.change_card(cluster, "gpu-1", "GPU-1", cordon.uncordoning()) == "gpu-1/GPU-1 already uncordoned"
    await cordon.change_card(cluster, "gpu-1", "GPU-0", cordon.uncordoning())
    annotations = (await cluster.get("Node", "", "gpu-1"))["metadata"]["annotations"]
    assert card_cordons.ANNOTATION not in annotations


async def test_what_was_written_by_hand_is_kept(cluster: Any) -> None:
    await cluster.create(node(**{card_cordons.ANNOTATION: "0, GPU-9"}))
    await cordon.change_card(cluster, "gpu-1", "GPU-1", cordon.cordoning("alice", "", AT))
    found = json.loads((await cluster.get("Node", "", "gpu-1"))["metadata"]["annotations"][card_cordons.ANNOTATION])
    assert found.keys() == {"GPU-0", "GPU-1", "GPU-9"}
    await cordon.change_card(cluster, "gpu-1", "GPU-9", cordon.uncordoning())
    assert [name for name, *_ in await cordons(cluster)] == ["GPU-0", "GPU-1"]


async def test_details_that_cannot_be_read_are_not_overwritten(cluster: Any) -> None:
    await cluster.create(node(**{card_cordons.ANNOTATION: '{"GPU-1": {"reason": 4711}}'}))
    with pytest.raises(CommandError, match=r"\[GPU-1\].reason: '4711'"):
        await cordon.change_card(cluster, "gpu-1", "GPU-0", cordon.cordoning("alice", "", AT))


async def test_an_index_of_several_cards_is_an_error(cluster: Any) -> None:
    register = "GPU-a,10,7680,100,T4,0,true:GPU-b,10,7680,100,T4,0,true:"
    found = node()
    found["metadata"]["annotations"] = {"hami.io/node-nvidia-register": register}
    await cluster.create(found)
    for wanted in (cordon.cordoning("alice", "", AT), cordon.uncordoning()):
        with pytest.raises(CommandError, match="several cards 0, use an id: GPU-a, GPU-b"):
            await cordon.change_card(cluster, "gpu-1", "0", wanted)
    assert await cordons(cluster) == []
    done = await cordon.change_card(cluster, "gpu-1", "GPU-b", cordon.cordoning("alice", "", AT))
    assert done == "gpu-1/GPU-b cordoned"


async def test_a_card_that_hami_keeps_cordoned_is_not_called_uncordoned(cluster: Any) -> None:
    ours = {card_cordons.ANNOTATION: "GPU-0,GPU-1", "hami.io/device-cordon": "GPU-1"}
    await cluster.create(node(**ours))
    for _ in range(2):  # with our cordon, and without it
        with pytest.raises(CommandError, match=r"gpu-1/GPU-1 stays cordoned: .* hami\.io/device-cordon"):
            await cordon.change_card(cluster, "gpu-1", "GPU-1", cordon.uncordoning())
        assert await cordons(cluster) == [("GPU-0", "", ""), ("GPU-1", "hami.io/device-cordon", "")]
    assert await cordon.change_card(cluster, "gpu-1", "GPU-0", cordon.uncordoning()) == "gpu-1/GPU-0 uncordoned"


async def test_wrong_names_are_errors(cluster: Any) -> None:
    await cluster.create(node())
    for name, card, message in (("gone", "GPU-0", "not found"), ("gpu-1", "GPU-9", "it has GPU-0, GPU-1")):
        with pytest.raises(CommandError, match=message):
            await cordon.change_card(cluster, name, card, cordon.cordoning("alice", "", AT))
    await cluster.annotate("Node", "", "gpu-1", {card_cordons.ANNOTATION: "{"})
    with pytest.raises(CommandError, match="JSON object"):
        await cordon.change_card(cluster, "gpu-1", "GPU-0", cordon.cordoning("alice", "", AT))
