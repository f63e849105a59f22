"""The live table on a terminal."""

import io

from deviceshare_cli.fills import CardFill, NodeFill
from deviceshare_cli.live import bar, view
from deviceshare_cli.live_table import LiveTable
from deviceshare_cli.pods import PodView
from rich.console import Console


def drawn(board: LiveTable, nodes: list[NodeFill], *, settled: bool, rows: int = 10) -> str:
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(view(board, nodes, settled, rows))
    return console.export_text()


def board_with(*pods: PodView) -> LiveTable:
    board = LiveTable(("volcano",), lambda _: ())
    board.pods = {pod.ref: pod for pod in pods}
    board.placed = {pod.ref: f"{pod.ref} -> {pod.node}" for pod in pods if pod.node}
    return board


def pod(name: str, node: str = "", reason: str = "") -> PodView:
    return PodView("default", name, f"uid-{name}", "volcano", node, False, {}, reason)


def test_counts_nodes_placements_and_reasons_are_shown() -> None:
    nodes = [NodeFill("node-a", 1, (CardFill(512, 1024), CardFill(0, 1024))), NodeFill("plain", 0, ())]
    text = drawn(board_with(pod("a", "node-a"), pod("b", reason="0/2 nodes [x]")), nodes, settled=True)
    assert "1 bound, 1 pending: settled (Ctrl-C ends)" in text
    assert "▄ 50%    0%" in text
    assert "default/a -> node-a" in text
    assert "default/b: 0/2 nodes [x]" in text


def test_work_that_comes_after_settling_is_shown_as_work() -> None:
    assert "working" in drawn(board_with(pod("a")), [], settled=True)


def test_more_than_fits_is_counted() -> None:
    nodes = [NodeFill(f"node-{number}", 0, ()) for number in range(9)]
    text = drawn(board_with(*(pod(f"p{number}") for number in range(20))), nodes, settled=False, rows=4)
    assert "and 5 more" in text
    assert "and 12 more" in text


def test_bars() -> None:
    assert bar(CardFill(1, 100_000)) == "▁  0%"
    assert bar(CardFill(0, 0)) == "   0%"
    assert bar(CardFill(10, 10)) == "█100%"
    assert bar(CardFill(0, 10, healthy=False)) == "unhealthy"
