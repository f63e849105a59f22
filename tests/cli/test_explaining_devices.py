"""The text of `deviceshare explain node` and `device`."""

from typing import Any

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cli.explaining_devices import explain_device, explain_node
from deviceshare_metrics import api
from msgspec.structs import replace

NODE = api.Node(
    name="n1",
    ready=True,
    unschedulable=False,
    allocatable={"cpu": 4000, "pods": 3, "volcano.sh/vgpu-memory": 8192, "xilinx.com/fpga": 2},
    used={"cpu": 500, "pods": 3, "volcano.sh/vgpu-memory": 16000},
    pods=3,
    cards=1,
    problems=("card GPU-1 is overcommitted: 16000 of 8192 MiB are allocated",),
)
CARD = api.Device(
    node="n1",
    id="GPU-1",
    index=0,
    type="Tesla-T4",
    mode="hami-core",
    healthy=True,
    memory_total=8192,
    memory_used=16000,
    cores_total=100,
    cores_used=110,
    slots_total=10,
    slots_used=1,
    pods=("default/a",),
)


class _Reader:
    async def items(self, kind: type[Any]) -> tuple[Any, ...]:
        return {api.Node: (NODE,), api.Device: (CARD,)}.get(kind, ())


async def test_a_node_shows_every_resource_and_no_negative_amount() -> None:
    report = await explain_node(_Reader(), "n1")  # type: ignore[arg-type]
    sections = dict(report.sections)
    assert [line.split() for line in sections["Resources"][1:]] == [
        ["cpu", "500m", "4", "3500m"],
        ["pods", "3", "3", "0"],
        ["volcano.sh/vgpu-memory", "16000", "8192", "0"],
        ["xilinx.com/fpga", "0", "2", "2"],
    ]
    assert sections["Cards"][1].split()[-4:] == ["16000/8192Mi", "110/100", "1", "default/a"]
    assert list(sections["Problems"]) == list(NODE.problems)


class _Cards(_Reader):
    def __init__(self, *cards: api.Device) -> None:
        self.cards = cards

    async def items(self, kind: type[Any]) -> tuple[Any, ...]:
        return self.cards if kind is api.Device else ()


@pytest.mark.parametrize("name", ["GPU-1", "n1/GPU-1", "n1/0"])
async def test_a_device_has_the_names_that_cordon_accepts(name: str) -> None:
    others = replace(CARD, id="GPU-2", index=1), replace(CARD, node="n2", id="GPU-3")
    report = await explain_device(_Cards(CARD, *others), name)  # type: ignore[arg-type]
    assert report.data["device"] is CARD
    assert await explain_device(_Cards(CARD), "n1/7") is None  # type: ignore[arg-type]
    # An id that is the index of another card.
    odd = replace(CARD, id="0", index=5)
    report = await explain_device(_Cards(CARD, odd), "n1/0")  # type: ignore[arg-type]
    assert report.data["device"] is odd
    with pytest.raises(CommandError, match="node n1 has several cards n1/0: use an id, such as GPU-1"):
        await explain_device(_Cards(CARD, replace(CARD, id="GPU-2")), "n1/0")  # type: ignore[arg-type]
