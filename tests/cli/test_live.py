"""The live table on a terminal."""

import io

from deviceshare_cli.live import bar, nodes_table, view
from deviceshare_cli.live_table import LiveTable
from deviceshare_cli.pods import PodView
from deviceshare_metrics.api import Device, Node
from rich.console import Console


def node(name: str, pods: int = 0) -> Node:
    return Node(name=name, ready=True, unschedulable=False, allocatable={}, used={}, pods=pods, cards=0, problems=())


def card(used: int, total: int, *, healthy: bool = True) -> Device:
    return Device(
        node="node-a",
        id="GPU-1",
        index=0,
        type="",
        mode="",
        healthy=healthy,
        memory_total=total,
        memory_used=used,
        cores_total=100,
        cores_used=0,
        slots_total=1,
        slots_used=0,
        pods=(),
    )


def drawn(board: LiveTable, nodes: list[Node], devices: list[Device], *, settled: bool, rows: int = 10) -> str:
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(view(board, nodes_table(nodes, devices, rows) if nodes else None, settled=settled))
    return console.export_text()


def board_with(*pods: PodView) -> LiveTable:
    board = LiveTable(("volcano",), lambda _: ())
    board.pods = {pod.ref: pod for pod in pods}
    board.placed = {pod.ref: f"{pod.ref} -> {pod.node}" for pod in pods if pod.node}
    return board


def pod(name: str, node: str = "", reason: str = "") -> PodView:
    return PodView("default", name, f"uid-{name}", "volcano", node, False, {}, reason)


def test_counts_nodes_placements_and_reasons_are_shown() -> None:
    nodes, cards = [node("node-a", 1), node("plain")], [card(512, 1024), card(0, 1024)]
    text = drawn(board_with(pod("a", "node-a"), pod("b", reason="0/2 nodes [x]")), nodes, cards, settled=True)
    assert "1 bound, 1 pending: settled (Ctrl-C ends)" in text
    assert "▄ 50%    0%" in text
    assert "default/a -> node-a" in text
    assert "default/b: 0/2 nodes [x]" in text


def test_new_work_after_settling_is_shown() -> None:
    assert "working" in drawn(board_with(pod("a")), [], [], settled=True)


def test_omitted_rows_are_counted() -> None:
    nodes = [node(f"node-{number}") for number in range(9)]
    text = drawn(board_with(*(pod(f"p{number}") for number in range(20))), nodes, [], settled=False, rows=4)
    assert "and 5 more" in text
    assert "and 12 more" in text


def test_bars() -> None:
    assert bar(card(1, 100_000)) == "▁  0%"
    assert bar(card(0, 0)) == "   0%"
    assert bar(card(10, 10)) == "█100%"
    assert bar(card(0, 10, healthy=False)) == "unhealthy"
