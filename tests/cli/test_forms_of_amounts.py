"""Memory and cores of cards are shown in one form by all commands, and memory by the rule of docs/commands.md."""

import re
from typing import Any

import pytest
from deviceshare_cli.describing import description
from deviceshare_cli.explaining_devices import explain_device, explain_node
from deviceshare_cli.output import table
from deviceshare_cli.tables import devices_table, nodes_table
from deviceshare_cli.whatif import top
from deviceshare_metrics import api
from msgspec.structs import replace

GIB = 2**30
NODE = api.Node(
    name="n1",
    ready=True,
    unschedulable=False,
    allocatable={"cpu": 4000, "memory": 64 * GIB},
    used={"cpu": 500, "memory": 3 * GIB // 2},
    pods=1,
    cards=1,
    problems=(),
)
CARD = api.Device(
    node="n1",
    id="GPU-1",
    index=0,
    type="T4",
    mode="hami-core",
    healthy=True,
    memory_total=16384,
    memory_used=1024,
    cores_total=100,
    cores_used=30,
    slots_total=10,
    slots_used=1,
    pods=("default/a",),
)
OF_CORES = replace(CARD, memory_total=0, memory_used=0)


class _Reader:
    now = 1.0

    def __init__(self, card: api.Device) -> None:
        self._items = {api.Node: (NODE,), api.Device: (card,)}

    async def items(self, kind: type[Any]) -> tuple[Any, ...]:
        return self._items.get(kind, ())

    async def objects(self, _: str) -> list[Any]:
        return []


async def _shown(card: api.Device) -> list[str]:
    """Return what each command that shows amounts of a card shows of it."""
    reader: Any = _Reader(card)
    described = await description(reader, {"kind": "Node", "metadata": {"name": "n1"}})
    explained = await explain_node(reader, "n1")
    models = top._models(top.totals([card], [NODE]))
    tables = [table(*devices_table([card], wide)) for wide in (False, True)]
    return [*tables, described, "\n".join(dict(explained.sections)["Cards"]), "\n".join(models)]


@pytest.mark.parametrize(("card", "memory"), [(CARD, "1024/16384Mi"), (OF_CORES, "<none>")])
async def test_all_tables_show_used_of_total(card: api.Device, memory: str) -> None:
    for text in await _shown(card):
        lines = [re.split(r"  +", line.strip()) for line in text.splitlines()]
        (head,) = ([*map(str.upper, line)] for line in lines if "CORES" in map(str.upper, line))
        row = next(line for line in lines if "T4" in line)
        assert [row[head.index(name)] for name in ("MEMORY", "CORES")] == [memory, "30/100"], text


async def test_device_memory_is_in_mebibytes_and_node_memory_in_gibibytes() -> None:
    report = await explain_device(_Reader(CARD), "GPU-1")  # type: ignore[arg-type]
    assert report is not None
    assert [line.split() for line in dict(report.sections)["Capacity"]] == [
        ["RESOURCE", "USED", "TOTAL", "FREE"],
        ["memory", "1024Mi", "16384Mi", "15360Mi"],
        ["cores", "30", "100", "70"],
        ["shares", "1", "10", "9"],
    ]
    assert "1.5/64Gi" in table(*nodes_table([NODE], wide=False))
    for text in await _shown(CARD):
        assert not re.search(r"\d(Gi|GiB| MB|GB)\b", text), text
