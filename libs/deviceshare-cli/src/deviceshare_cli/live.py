"""The live table of ``up`` on a terminal: how full the nodes are, who was placed last, who waits and why."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import rich.live
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from deviceshare_cli.fills import CardFill, NodeFill, read_fills
from deviceshare_cli.live_table import LiveTable
from deviceshare_cli.notices import Notices, to_stderr

if TYPE_CHECKING:
    from deviceshare_cli.system import System

SECONDS = 0.5
LAST = 8
"""How many placements and how many waiting pods are shown."""


class Live:
    """Draws the table again and again; other lines appear above it. At the end the last one stays, if ``stays``."""

    def __init__(self, *, stays: bool) -> None:
        self._console = Console()
        self._live = rich.live.Live(console=self._console, auto_refresh=False, transient=not stays)
        self.settled = False

    async def show(self, board: LiveTable, system: "System", notices: Notices) -> None:
        """Draw until cancelled."""
        notices.write = lambda line: self._console.print(escape(line), soft_wrap=True)
        self._live.start()
        try:
            while True:
                nodes = await read_fills(system.run.metrics)
                rows = max(4, self._console.height - 2 * LAST - 12)
                self._live.update(view(board, nodes, self.settled, rows), refresh=True)
                await asyncio.sleep(SECONDS)
        finally:
            self._live.stop()
            notices.write = to_stderr


def view(board: LiveTable, nodes: Sequence[NodeFill], settled: bool, rows: int) -> RenderableType:
    """Return what is drawn; at most ``rows`` nodes."""
    waiting = board.waiting
    state = "settled" if settled and not board.unanswered else "working"
    parts: list[RenderableType] = [
        Text(f"{board.bound} bound, {len(waiting)} pending: {state} (Ctrl-C ends)", style="bold")
    ]
    if nodes:
        parts.append(_nodes(nodes, rows))
    placed = list(board.placed.values())[-LAST:]
    if placed:
        parts.append(_lines("last placements", placed))
    reasons = [f"{pod.ref}: {pod.reason or 'not decided yet'}" for pod in waiting]
    if reasons:
        more = [f"and {len(reasons) - LAST} more"] if len(reasons) > LAST else []
        parts.append(_lines("pending", reasons[:LAST] + more))
    return Group(*parts)


def _nodes(nodes: Sequence[NodeFill], rows: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NODE", no_wrap=True)
    table.add_column("PODS", justify="right")
    table.add_column("CARDS (each by the share of its memory that is taken)", no_wrap=True)
    for node in nodes[:rows]:
        table.add_row(escape(node.name), str(node.pods), Text(" ".join(bar(card) for card in node.cards)) or "none")
    if len(nodes) > rows:
        table.add_row(f"and {len(nodes) - rows} more", "", "")
    return table


def bar(card: CardFill) -> str:
    """Return a card's fill as one block of five cells with the percentage."""
    share = min(1.0, card.used / card.total) if card.total else 0.0
    if not card.healthy:
        return "[ill ]"
    eighths = " ▁▂▃▄▅▆▇█"
    # A pod on a big card should still be seen.
    step = 0 if not card.used else max(1, round(share * 8))
    return f"{eighths[step]}{share:4.0%}"


def _lines(title: str, lines: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title, overflow="ellipsis", no_wrap=True)
    for line in lines:
        table.add_row(escape(line))
    return table
