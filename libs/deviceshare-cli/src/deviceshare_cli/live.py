"""The live table of ``up`` on a terminal: allocation of the nodes, latest placements, pending pods with reasons."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import rich.live
from deviceshare_metrics import api
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from deviceshare_cli.errors import CommandError
from deviceshare_cli.json_api import fetch
from deviceshare_cli.live_table import LiveTable
from deviceshare_cli.notices import Notices, to_stderr

if TYPE_CHECKING:
    from deviceshare_cli.system import System

SECONDS = 0.5
"""Interval between two updates."""
LAST = 8
"""The maximum number of placements, and of pending pods, that are shown."""


class Live:
    """Redraws the table periodically, notices appear above it. ``stays``: leave the last table on the terminal."""

    def __init__(self, *, stays: bool) -> None:
        self._console = Console()
        self._live = rich.live.Live(console=self._console, auto_refresh=False, transient=not stays)
        self.settled = False

    async def show(self, pods: LiveTable, system: "System", notices: Notices) -> None:
        """Redraw until cancelled."""
        notices.write = lambda line: self._console.print(escape(line), soft_wrap=True)
        self._live.start()
        try:
            while True:
                nodes, devices = await _allocation(system.run.metrics)
                rows = max(4, self._console.height - 2 * LAST - 12)
                shown = view(pods, nodes_table(nodes, devices, rows) if nodes else None, settled=self.settled)
                self._live.update(shown, refresh=True)
                await asyncio.sleep(SECONDS)
        finally:
            self._live.stop()
            notices.write = to_stderr


async def _allocation(metrics: str) -> tuple[Sequence[api.Node], Sequence[api.Device]]:
    """Return the nodes and their cards, none while the metrics service does not answer."""
    try:
        nodes, devices = await asyncio.gather(
            fetch(metrics, "nodes", api.Items[api.Node]), fetch(metrics, "devices", api.Items[api.Device])
        )
    except CommandError:
        return (), ()
    return nodes.items, devices.items


def view(pods: LiveTable, nodes: Table | None, *, settled: bool) -> RenderableType:
    """Return the whole table; ``nodes``: the table of nodes, if they are known."""
    waiting = pods.waiting
    state = "settled" if settled and not pods.unanswered else "working"
    parts: list[RenderableType] = [
        Text(f"{pods.bound} bound, {len(waiting)} pending: {state} (Ctrl-C ends)", style="bold")
    ]
    if nodes is not None:
        parts.append(nodes)
    placed = list(pods.placed.values())[-LAST:]
    if placed:
        parts.append(_lines("last placements", placed))
    reasons = [f"{pod.ref}: {pod.reason or 'no decision yet'}" for pod in waiting]
    if reasons:
        more = [f"and {len(reasons) - LAST} more"] if len(reasons) > LAST else []
        parts.append(_lines("pending", reasons[:LAST] + more))
    return Group(*parts)


def nodes_table(nodes: Sequence[api.Node], devices: Sequence[api.Device], rows: int) -> Table:
    """Return the table of nodes with the allocated memory of their cards, at most ``rows`` nodes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NODE", no_wrap=True)
    table.add_column("PODS", justify="right")
    table.add_column("CARDS (allocated memory of each)", no_wrap=True)
    bars: dict[str, list[str]] = {}
    for device in devices:
        bars.setdefault(device.node, []).append(bar(device))
    for node in nodes[:rows]:
        table.add_row(escape(node.name), str(node.pods), Text(" ".join(bars.get(node.name, ()))) or "none")
    if len(nodes) > rows:
        table.add_row(f"and {len(nodes) - rows} more", "", "")
    return table


def bar(card: api.Device) -> str:
    """Return a bar and the percentage of a card's allocated memory."""
    share = min(1.0, card.memory_used / card.memory_total) if card.memory_total else 0.0
    if not card.healthy:
        return "unhealthy"
    eighths = " ▁▂▃▄▅▆▇█"
    # The smallest allocation is visible, even on a large card.
    step = 0 if not card.memory_used else max(1, round(share * 8))
    return f"{eighths[step]}{share:4.0%}"


def _lines(title: str, lines: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title, overflow="ellipsis", no_wrap=True)
    for line in lines:
        table.add_row(escape(line))
    return table
